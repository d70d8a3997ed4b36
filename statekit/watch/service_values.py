"""What is exported and shown of a service, out of what it says of itself.

Owns the reading of a status: the values of metrics, and the picture of the live view. Not here: how
the status comes here (`following`), names and meanings (`service_names`).

    J1  Of more replicas than have labels of their own, the others are added up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from statekit.watch.exporting import Labels, Values, device_label
from statekit.watch.following import Seen
from statekit.watch.names import OTHER
from statekit.watch.picture import Device, Happening
from statekit.watch.service_names import (
    DIRECTIONS,
    MAX_REPLICAS,
    REPLICA_STATES,
    SERVICE_METRICS,
    SESSION_STATES,
)
from statekit.watch.service_picture import LostOne, Replica, ServicePicture
from statekit.watch.wire import MAX_ID, Ask

if TYPE_CHECKING:
    from statekit.replicas.reports import ReplicaStatus

__all__ = ["picture_of", "values_of"]

_COUNTED = {"begins": "begun", "refusals": "refused", "restores": "restored", "losses": "lost"}
_MOVED = dict(zip(DIRECTIONS, ("came", "went"), strict=True))
_MOST_LOST = 100


def values_of(seen: Seen) -> dict[str, Values]:
    """The values of all metrics, by name and by labels."""
    found: dict[str, dict[Labels, float]] = {metric.name: {} for metric in SERVICE_METRICS}
    up = seen.status is not None and seen.problem is None
    found["statekit_service_up"][()] = up
    status = seen.status
    if status is None or seen.age_s is None:
        return dict(found)
    found["statekit_service_age_seconds"][()] = seen.age_s
    found["statekit_service_refusals_total"][()] = status.refused
    sessions, replicas = found["statekit_service_sessions"], found["statekit_service_replicas"]
    sessions.update({(state,): status.sessions.get(state, 0) for state in SESSION_STATES})
    replicas.update({(state,): 0 for state in REPLICA_STATES})
    every = sorted(status.replicas, key=lambda one: one.facts.name)
    for number, one in enumerate(every):
        replicas[one.state,] += 1
        _put(found, one.facts.name if number < MAX_REPLICAS else OTHER, one)
    return dict(found)


def _put(found: Mapping[str, dict[Labels, float]], label: str, one: ReplicaStatus) -> None:
    """Add what is known of one replica."""

    def add(name: str, value: float, *labels: str) -> None:
        values = found[f"statekit_replica_{name}"]
        key = (label, *labels)
        values[key] = values.get(key, 0) + value

    facts = one.facts
    for state in REPLICA_STATES:
        add("state", state == one.state, state)
    if one.state != "dead":  # what a dead one had is not there any more
        add("sessions_limit", facts.max_sessions)
        add("running_steps", one.running)
        add("waiting_steps", one.waiting)
        add("unsaved_steps", one.unsaved_steps)
        add("unsaved_sessions", len(one.unsaved))
        for device, nbytes in facts.promised.items():
            add("promised_bytes", nbytes, device_label(device))
        for device, nbytes in facts.budgets.items():
            add("budget_bytes", nbytes, device_label(device))
        if one.snapshot_age_s is not None:
            ages = found["statekit_replica_snapshot_age_seconds"]
            ages[label,] = max(ages.get((label,), 0), one.snapshot_age_s)
    add("sessions", one.sessions)
    add("steps_total", one.steps)
    for name, word in _COUNTED.items():
        add(f"{name}_total", one.counts.get(word, 0))
    for direction, word in _MOVED.items():
        add("moves_total", one.counts.get(word, 0), direction)


def picture_of(seen: Seen, ask: Ask, name: str, happenings: Iterable[Happening]) -> ServicePicture:
    """What was asked for."""
    status = seen.status
    replicas = [] if status is None else [_replica(one, seen) for one in status.replicas]
    lost = () if status is None else status.lost
    return ServicePicture(
        pid=os.getpid(),
        name=name,
        age_s=seen.age_s,
        problem=None if seen.problem is None else _cut(seen.problem),
        sessions={} if status is None else dict(status.sessions),
        refused=0 if status is None else status.refused,
        replica_count=len(replicas),
        replicas=tuple(sorted(replicas, key=_order(ask.sort))[: ask.top]),
        lost_count=len(lost),
        lost=tuple(
            LostOne(
                _cut(one.session_id), _cut(one.replica), one.model, _cut(one.reason), one.saved_step
            )
            for one in lost[: min(ask.top, _MOST_LOST)]
        ),
        happenings=tuple(one for one in happenings if one.number > ask.since),
    )


def _replica(one: ReplicaStatus, seen: Seen) -> Replica:
    facts, counts = one.facts, one.counts
    devices = sorted({*facts.promised, *facts.budgets})
    return Replica(
        name=_cut(facts.name),
        host=_cut(one.host),
        pid=one.pid,
        state=one.state,
        sessions=one.sessions,
        max_sessions=facts.max_sessions,
        devices=tuple(
            Device(device, facts.promised.get(device, 0), facts.budgets.get(device))
            for device in devices
        ),
        steps=one.steps,
        steps_per_s=seen.rates.get(facts.name),
        running=one.running,
        waiting=one.waiting,
        begun=counts.get("begun", 0),
        came=counts.get("came", 0),
        went=counts.get("went", 0),
        restored=counts.get("restored", 0),
        refused=counts.get("refused", 0),
        lost=counts.get("lost", 0),
        snapshot_age_s=one.snapshot_age_s,
        unsaved_steps=one.unsaved_steps,
        unsaved=len(one.unsaved),
    )


def _order(sort: str) -> Callable[[Replica], tuple[float, str]]:
    """Fullest, quietest or busiest first, or by name; ties by name."""
    key: dict[str, Callable[[Replica], float]] = {
        "bytes": lambda one: -one.share,
        "idle": lambda one: one.steps_per_s or 0.0,
        "leases": lambda one: -(one.running + one.waiting),
        "id": lambda one: 0.0,
    }
    first = key[sort]
    return lambda one: (first(one), one.name)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ID else text[: MAX_ID - 1] + "…"
