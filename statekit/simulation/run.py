"""Run: the loop over virtual time, and what a deployment is.

Owns the queue of events. Two of one moment happen in the order in which they were asked for, so a
run depends on its workload alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush, heapreplace
from time import process_time
from typing import Literal

import attrs

from statekit.declared import session_at_step
from statekit.settings import DEFAULT_MAX_SESSIONS
from statekit.simulation.counting import CountingReplica
from statekit.simulation.fleet import Fleet
from statekit.simulation.kind import Kind
from statekit.simulation.links import Bandwidths, Links
from statekit.simulation.outcome import Outcome, outcome_of
from statekit.simulation.replica import Replica
from statekit.simulation.session import Session
from statekit.simulation.shape import TIERS, TierSize
from statekit.simulation.tally import Tally
from statekit.simulation.workload import Workload
from statekit.spec import ModelSpec, Tier

__all__ = ["POLICIES", "Deployment", "PolicyName", "between_us", "simulate"]

PolicyName = Literal["count", "bytes", "parking"]
POLICIES: tuple[PolicyName, ...] = ("count", "bytes", "parking")
"""Eviction by count, by bytes without parking, by bytes with parking."""

_SECOND_US = 1_000_000


@attrs.frozen
class Deployment:
    """The service.

    Attributes:
        replicas: how many there are, all alike.
        budgets: the most bytes by device on each of them.
        max_sessions: how many sessions a replica keeps that counts them.
        drains: how many of them are emptied, one after the other; each takes sessions again when
            the next one is emptied.
    """

    replicas: int
    budgets: Mapping[str, int]
    model_device: str = "cuda:0"
    max_sessions: int = DEFAULT_MAX_SESSIONS
    bandwidths: Bandwidths = attrs.field(factory=Bandwidths)
    drains: int = 0


def between_us(
    deployment: Deployment, models: Sequence[ModelSpec], workload: Workload, load: float
) -> float:
    """The time between arrivals at which so many times the model device's budgets are asked for.

    By Little's law: at load 1 the declared bytes of the sessions that live at a moment are, on
    average, all the bytes that the replicas may hold on that device.
    """
    device = deployment.model_device
    kinds = _kinds(deployment, models, {})
    total = sum(workload.parts)
    mean = sum(
        part * kind.declared.get(device, 0)
        for part, kind in zip(workload.parts, kinds, strict=True)
    )
    live = load * deployment.replicas * deployment.budgets[device] * total / mean
    return workload.lifetime_us / live


def simulate(
    policy: PolicyName,
    deployment: Deployment,
    models: Sequence[ModelSpec],
    workload: Workload,
    progress: Callable[[int], object] | None = None,
) -> Outcome:
    """Run the workload through the deployment; the same outcome but for the wall time.

    Args:
        progress: told the number of arrivals, now and then.
    """
    begun = process_time()
    tally = Tally()
    tiers = TIERS if policy == "parking" else {}
    kinds = _kinds(deployment, models, tiers)
    fleet = Fleet(_replicas(policy, deployment, kinds[0].devices, tiers, tally), tally)
    with _no_collection():
        end_us = _loop(fleet, kinds, workload, _drains(deployment, workload), progress)
    for replica in fleet.replicas:
        replica.end_at(end_us)
    return outcome_of(policy, tally, deployment.replicas, end_us, process_time() - begun)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the garbage collector, which looks at all sessions again and again, and finds none.

    A session that has ended is in no cycle: its replica does not know it any more.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _kinds(
    deployment: Deployment, models: Sequence[ModelSpec], tiers: Mapping[Tier, TierSize]
) -> list[Kind]:
    device = deployment.model_device
    declared = [session_at_step(spec, None, model_device=device) for spec in models]
    held = [one.device for values in declared for one in values if one.device != "none"]
    parked = ["cpu", "disk"] if tiers else []
    devices = tuple(dict.fromkeys([device, *deployment.budgets, *held, *parked]))
    return [Kind(spec, devices, device, tiers) for spec in models]


def _replicas(
    policy: PolicyName,
    deployment: Deployment,
    devices: tuple[str, ...],
    tiers: Mapping[Tier, TierSize],
    tally: Tally,
) -> list[Replica | CountingReplica]:
    digits = len(str(deployment.replicas - 1))
    found: list[Replica | CountingReplica] = []
    for number in range(deployment.replicas):
        name = f"r{number:0{digits}d}"
        links = Links(deployment.bandwidths, tally.moved)
        if policy == "count":
            size = deployment.max_sessions
            found.append(
                CountingReplica(name, devices, deployment.budgets, links, tally, max_sessions=size)
            )
        else:
            found.append(Replica(name, devices, deployment.budgets, tiers, links, tally))
    return found


def _drains(deployment: Deployment, workload: Workload) -> list[tuple[int, int]]:
    """When which replica is emptied: evenly over the arrivals."""
    span_us = int(workload.between_us * workload.sessions)
    return [
        (span_us * (number + 1) // (deployment.drains + 1), number % deployment.replicas)
        for number in range(deployment.drains)
    ]


def _loop(
    fleet: Fleet,
    kinds: Sequence[Kind],
    workload: Workload,
    drains: list[tuple[int, int]],
    progress: Callable[[int], object] | None,
) -> int:
    """Until the last session has ended; when that is."""
    tally, step_us = fleet.tally, workload.step_us
    arrivals = workload.arrivals()
    arrival = next(arrivals, None)
    queue: list[tuple[int, int, Session]] = []
    asked = now_us = arrived = 0
    while queue or arrival is not None:
        if arrival is None or (queue and queue[0][0] < arrival.at_us):
            now_us, _, session = queue[0]
            next_us = _next(fleet, session, now_us, step_us)
            if next_us is None:
                heappop(queue)
            else:
                asked += 1
                heapreplace(queue, (next_us, asked, session))
            continue
        now_us = arrival.at_us
        while drains and drains[0][0] <= now_us:
            fleet.drain(drains.pop(0)[1], now_us)
        session = Session(f"s{arrived}", kinds[arrival.kind], arrival.pauses)
        arrived += 1
        tally.begun += 1
        if fleet.begin(session, now_us):
            asked += 1
            heappush(queue, (now_us + step_us, asked, session))
        else:
            tally.refused += 1
        if progress is not None and not arrived % 1024:
            progress(arrived)
        arrival = next(arrivals, None)
    return now_us


def _next(fleet: Fleet, session: Session, now_us: int, step_us: int) -> int | None:
    """What a session does now, and when something happens to it next; None where it has ended."""
    tally, home = fleet.tally, session.home
    assert home is not None
    if not session.in_use:
        return _go_on(fleet, session, now_us, step_us)
    session.step += 1
    session.held += 1
    if session.step > len(session.pauses):
        home.end(session, now_us)
        home.close(session, now_us)
        if session.losses:
            tally.interrupted += 1
        else:
            tally.finished += 1
        return None
    pause_us = session.pauses[session.step - 1]
    if not pause_us and not home.draining and home.step_on(session, now_us):
        tally.continued += 1
        return now_us + step_us
    home.end(session, now_us)
    if home.draining and not session.lost:
        fleet.move(session, now_us)
    return now_us + pause_us if pause_us else _go_on(fleet, session, now_us, step_us)


def _go_on(fleet: Fleet, session: Session, now_us: int, step_us: int) -> int | None:
    """Another step; when it has ended, or None where a replica says that the state is gone."""
    if session.lost and isinstance(session.home, Replica):
        fleet.tally.lost += 1
        fleet.tally.interrupted += 1
        return None
    fleet.tally.continued += 1
    return fleet.go_on(session, now_us) + step_us
