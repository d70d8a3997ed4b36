"""Short scenes: one thing each that a group does, and what every rank sees of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch

from statekit.distributed import GroupSessions
from statekit.errors import StatekitError
from statekit.objects import LatentBuffer
from statekit.session import SessionState
from statekit.spec import Growth, ModelSpec, Park, Ring, Sharding, Size, ValueSpec
from tests.distributed.scenes import Clock, failing_parks, failing_restores, group_of
from tests.distributed.toys import COPIED, SPREAD, fill, has, wrong
from tests.pressure.toys import write

ROOMY: Mapping[str, object] = {"cpu": "1GiB", "disk": "1GiB"}

PARKED_ONLY = ModelSpec(
    model="parked",
    values=(
        ValueSpec(
            name="cache",
            bucket="StateObject",
            type="torch.Tensor",
            device="cpu",
            object="HeldValue",
            dtype="uint8",
            size=Size(elements="8192"),
            park=Park(("disk",)),
            operations=("park",),
        ),
    ),
    resets={"session": ("cache",)},
)
"""Nothing of it can be released, so that what is over a budget is parked."""

FIXED = attrs.evolve(
    PARKED_ONLY,
    model="fixed",
    values=(attrs.evolve(PARKED_ONLY.values[0], park=None, operations=()),),
)
"""Nothing of it can be given up."""

GROWING = attrs.evolve(
    PARKED_ONLY,
    model="growing",
    values=(
        attrs.evolve(
            PARKED_ONLY.values[0],
            name="latents",
            object="LatentBuffer",
            size=Size(elements="1024"),
            ring=Ring(unbounded="kept for the decoder", growth=Growth(every_steps=2)),
        ),
    ),
    resets={"session": ("latents",)},
)

LEFT_ON_0 = attrs.evolve(
    PARKED_ONLY,
    model="uneven",
    values=(attrs.evolve(PARKED_ONLY.values[0], sharding=Sharding(rank=1)),),
)
"""Rank 1 alone holds something."""


def said(call: Callable[[], object]) -> str:
    """What a call raises, as kind and sentence; its result where it raises nothing."""
    try:
        return repr(call())
    except StatekitError as error:
        return f"{type(error).__name__}: {error}"


def used(group: GroupSessions, key: str, *names: str, begin: ModelSpec | None = None) -> None:
    """A forward that writes these values."""
    with group.lease(key, begin=begin) as session:
        for number, name in enumerate(names):
            write(session, name, number)


def away(group: GroupSessions) -> dict[str, list[str]]:
    """What is parked on this rank, by session."""
    found = {}
    for key in group:
        record = group.manager._table.holds(key)
        assert record is not None
        found[key] = sorted(name for unit in record.units for name in unit.keys)
    return found


class Counted:
    """Collectives since the last question."""

    def __init__(self, group: GroupSessions) -> None:
        self._group, self._before = group, group.collectives

    def __call__(self) -> int:
        before, self._before = self._before, self._group.collectives
        return self._before - before


def counts(rank: int, size: int) -> dict[str, int]:
    group = group_of(rank, size, {"cpu": 30_000, "disk": "1GiB"}, look_every=8)
    met, found = Counted(group), {}
    used(group, "one", "cache", begin=PARKED_ONLY)
    found["begin"] = met()
    used(group, "two", "cache", begin=PARKED_ONLY)
    used(group, "three", "cache", begin=PARKED_ONLY)
    met()
    for _ in range(5):
        used(group, "three", "cache")
    found["five forwards"] = met()
    lease = group.lease("three")
    lease.begin()
    met()
    lease.end()
    found["end"] = met()
    said(lambda: used(group, "unknown"))
    found["lost"] = met()
    used(group, "four", "cache", begin=PARKED_ONLY)
    found["begin under pressure"] = met()
    assert [key for key, names in away(group).items() if names] == ["one"]
    group.drop_session("two")
    found["drop"] = met()
    group.drop_session("two")
    found["drop of nothing"] = met()
    used(group, "one", "cache")
    found["return"] = met()
    for _ in range(8):
        used(group, "three", "cache")
    found["eight forwards"] = met()
    group.relieve()
    found["relieve"] = met()
    group.expire()
    found["expire"] = met()
    group.stats(), group.table(), group.nbytes_by_device()
    found["figures"] = met()
    return found


def refusal(rank: int, size: int) -> Any:
    budgets = {"cpu": 30_000 if rank == 0 else 12_000}
    group = group_of(rank, size, budgets)
    used(group, "one", "cache", begin=FIXED)
    first = said(lambda: used(group, "two", begin=FIXED))
    group.drop_session("one")
    return first, said(lambda: used(group, "two", begin=FIXED)), group.table()


def a_rank_fails_to_park(rank: int, size: int, alone: bool) -> Any:
    """Rank 1's disk is full once: for the value that is to be parked first."""
    names = ("cache",) if alone else ("cache", "state")
    spec = PARKED_ONLY if alone else attrs.evolve(COPIED, values=COPIED.values[:2])
    group = group_of(rank, size, {"cpu": 26_000 if alone else 31_000, "disk": "1GiB"})
    failures = [True] if rank == 1 else []
    failing_parks(group, lambda: bool(failures and failures.pop()))
    events: list[str] = []
    group.subscribe(lambda event: events.append(type(event).__name__))
    for key in ("one", "two", "three", "four"):
        used(group, key, *names, begin=spec)
    faults = []
    parked = away(group)
    for key in ("one", "two", "three", "four"):
        with group.lease(key) as session:
            expected = {name: copy(name, number) for number, name in enumerate(names)}
            faults += wrong(session, expected)
    return parked, events.count("ParkFailed"), faults


def copy(name: str, seed: int) -> Any:
    """What a value reads as that was written with this seed."""
    return write(SessionState(), name, seed)


def a_rank_fails_to_restore(rank: int, size: int) -> Any:
    group = group_of(rank, size, {"cpu": 20_000, "disk": "1GiB"})
    for key in ("one", "two", "three"):
        used(group, key, "cache", begin=PARKED_ONLY)
    parked = away(group)
    failures = [True] if rank == 1 else []
    with failing_restores(lambda: bool(failures and failures.pop())):
        first = said(lambda: used(group, "one"))
        leases = group.table()[0][2]
        with group.lease("one") as session:
            return (
                parked,
                first,
                leases,
                wrong(session, {"cache": copy("cache", 0)}),
            )


def idle_by_the_leader(rank: int, size: int) -> Any:
    clock = Clock(rank)
    group = group_of(rank, size, ROOMY, idle_timeout_s=10.0, clock=clock)
    for key in ("one", "two"):
        used(group, key, "state", begin=COPIED)
    clock.now += 5 if rank == 0 else 500
    found: list[Any] = [group.expire()]
    used(group, "two")
    clock.now += 6 if rank == 0 else 0
    found.append(group.expire())
    error = said(lambda: used(group, "one"))
    clock.now += 6 if rank == 0 else 0
    used(group, "three", begin=COPIED)
    return [*found, error.partition(" s ago")[0].rpartition(" ")[0], list(group)]


def growth(rank: int, size: int) -> Any:
    group = group_of(rank, size, {"cpu": 8192 + 5 * 1024, "disk": "1GiB"}, look_every=1000)
    used(group, "idle", "cache", begin=PARKED_ONLY)
    met, seen = Counted(group), []
    with group.lease("grows", begin=GROWING) as session:
        ring = LatentBuffer().allocate()
        session.put("latents", ring)
        ring.append(torch.zeros(1024, dtype=torch.uint8))
    met()
    for number in range(1, 16):
        with group.lease("grows"):
            if number % 2 == 0:
                ring.append(torch.zeros(1024, dtype=torch.uint8))
        seen.append((len(ring), met(), bool(away(group)["idle"])))
    return seen


def room_for_what_was_released(rank: int, size: int) -> Any:
    """A released value that is used again finds room; nobody meets where there is plenty."""
    group = group_of(rank, size, {"cpu": 44_000, "disk": "1GiB"}, look_every=1000)
    for key in ("one", "two"):
        used(group, key, "cache", "kv", "freqs", "state", begin=COPIED)
    with group.lease("three", begin=COPIED) as session:
        for name in ("cache", "state"):
            write(session, name, 1)
    with group.lease("two") as session:
        gone = [name for name in ("kv", "freqs") if not has(session, name)]
    met = Counted(group)
    with group.lease("one") as session:
        missing = [name for name in ("kv", "freqs") if not has(session, name)]
        for name in missing:
            write(session, name, 2)
    plan = group.relieve()
    return missing, gone, met() - 1, dict(plan.still_over)


def large_words(rank: int, size: int) -> Any:
    group = group_of(rank, size, {"cpu": 700_000, "disk": "1GiB"}, max_sessions=200)
    for number in range(90):
        used(group, f"robot-{number}", "cache", begin=PARKED_ONLY)
    met = Counted(group)
    with group.lease("robot-0"):
        pass
    first = met()
    used(group, "new", "cache", begin=PARKED_ONLY)
    return first, met(), len(group)


def polled(rank: int, size: int) -> Any:
    group = group_of(rank, size, ROOMY)
    group._exchange._polls = True
    met = Counted(group)
    used(group, "one", begin=COPIED)
    group.relieve()
    time.sleep(0.3 * rank)
    return said(group.relieve), met()


def used_after_long(rank: int, size: int) -> Any:
    clock = Clock(rank)
    group = group_of(rank, size, ROOMY, idle_timeout_s=10.0, clock=clock, look_every=1)
    for key in ("one", "two"):
        used(group, key, "state", begin=COPIED)
    clock.now += 50
    return said(lambda: used(group, "two")), list(group)


def begun_anew(rank: int, size: int) -> Any:
    clock = Clock(rank)
    group = group_of(rank, size, ROOMY, idle_timeout_s=10.0, clock=clock)
    used(group, "one", "state", begin=COPIED)
    clock.now += 11
    found = said(lambda: used(group, "one", begin=COPIED))
    with group.lease("one") as session:
        return found, has(session, "state"), len(group)


def values_on_one_rank(rank: int, size: int) -> Any:
    """What rank 1 alone holds is parked there, and known by all to be away."""
    group = group_of(rank, size, {"cpu": 20_000, "disk": "1GiB"})
    for key in ("one", "two", "three"):
        with group.lease(key, begin=LEFT_ON_0) as session:
            if rank == 1:
                write(session, "cache", 3)
    parked, table = away(group), group.table()
    with group.lease("one") as session:
        back = rank == 0 or has(session, "cache")
    return parked, table, back, away(group)


def spread_bytes(rank: int, size: int) -> Any:
    group = group_of(rank, size, ROOMY)
    with group.lease("one", begin=SPREAD) as session:
        for name in ("cache", "state", "frames"):
            fill(session, name, 1, rank, size)
    group.relieve()
    record = group.manager._table.holds("one")
    assert record is not None
    return dict(group.used), dict(record.declared), group.stats()["budget_nbytes:cpu"]
