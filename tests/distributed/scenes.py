"""What the ranks do in tests of groups; each scene runs in every process of a group."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from statekit.declared import Ranks
from statekit.distributed import GroupSessions
from statekit.errors import ParkError, RankLostError, StatekitError
from statekit.manager import SessionStateManager
from statekit.pressure.putting_away import ParkedUnit
from tests.distributed.toys import COPIED, LOSABLE, SPREAD, fill, has, wrong
from tests.pressure.toys import REBUILT, VALUES

__all__ = ["Clock", "failing_parks", "failing_restores", "group_of", "random_calls"]


class Clock:
    """Seconds that a test says, different ones on each rank."""

    def __init__(self, rank: int) -> None:
        self.now = 100.0 * rank
        self.pace = 1.0 + rank

    def __call__(self) -> float:
        return self.now

    def tick(self) -> None:
        self.now += self.pace


def group_of(rank: int, size: int, budgets: Any = None, **more: Any) -> GroupSessions:
    """A group over a manager that parks on disk, in `folder` or in one of its own."""
    folder = more.pop("folder", None) or Path(tempfile.mkdtemp(prefix=f"rank{rank}-"))
    manager = SessionStateManager(
        more.pop("max_sessions", 64),
        ranks=Ranks({"tp": size}, rank),
        park_folder=folder,
        clock=more.pop("clock", time.monotonic),
    )
    more.setdefault("timeout_s", 20.0)
    return GroupSessions(manager, budgets=budgets, **more)


def failing_parks(group: GroupSessions, fails: Callable[[], bool]) -> None:
    """Have this rank's disk fail when `fails` says so."""
    tier: Any = group.manager._relief._tiers["disk"]
    begin_park = tier.begin_park

    def begin(image: Any) -> Any:
        if fails():
            raise ParkError("disk", "park", "the disk is full", "free disk space")
        return begin_park(image)

    tier.begin_park = begin


@contextmanager
def failing_restores(fails: Callable[[], bool]) -> Iterator[None]:
    """Have what this process parked not come back when `fails` says so."""
    bring_back = ParkedUnit.bring_back

    def bring(unit: ParkedUnit) -> None:
        if fails():
            raise ParkError("disk", "restore", "the disk cannot be read", "check it")
        bring_back(unit)

    ParkedUnit.bring_back = bring  # type: ignore[method-assign]
    try:
        yield
    finally:
        ParkedUnit.bring_back = bring_back  # type: ignore[method-assign]


class Play:
    """Random calls from one seed, the same on all ranks, with troubles that each rank has alone."""

    def __init__(self, rank: int, size: int, seed: int, troubles: bool, group: GroupSessions):
        self.rank, self.size = rank, size
        self.common, self.own = random.Random(seed), random.Random(f"{seed} {rank}")
        self.troubles = troubles
        self.group = group
        self.written: dict[str, dict[str, Any]] = {}
        self.kept: list[tuple[int, Any]] = []
        self.log: list[str] = []
        self.faults: list[str] = []
        self.count = 0

    def trouble(self, one_in: int) -> bool:
        return self.troubles and self.own.randrange(one_in) == 0

    def call(self) -> None:
        """One call, and what all ranks must see of it."""
        self.count += 1
        self.group.manager._clock.tick()  # type: ignore[attr-defined]
        self.kept = [(due, lease) for due, lease in self.kept if due > self.count]
        if self.trouble(50):
            time.sleep(0.003)
        key = f"robot-{self.common.randrange(14)}"
        what = self.common.choices(
            ["go on", "begin", "drop", "relieve", "expire", "leave", "fail"],
            [60, 18, 6, 3, 2, 3, 3],
        )[0]
        before = self.group.collectives
        try:
            said: Any = getattr(self, what.replace(" ", "_"))(key)
        except RankLostError:
            raise
        except StatekitError as error:
            how = getattr(error, "how", "")  # of a lost one the sentence has this rank's seconds
            said = f"{type(error).__name__} {how or error}"
        met = self.group.collectives - before
        self.log.append(f"{what} {key}: {said}; met {met}; {self.group.table()}")

    def go_on(self, key: str) -> str:
        with self.group.lease(key) as session:
            return self.use(key, session)

    def begin(self, key: str) -> str:
        spec = (LOSABLE, SPREAD, COPIED)[self.common.randrange(3)]
        with self.group.lease(key, begin=spec) as session:
            self.written[key] = {}
            return self.use(key, session)

    def drop(self, key: str) -> bool:
        return self.group.drop_session(key)

    def relieve(self, key: str) -> str:
        plan = self.group.relieve()
        return f"{[(one.action, one.session_id, one.value) for one in plan.decisions]}"

    def expire(self, key: str) -> Any:
        return self.group.expire()

    def leave(self, key: str) -> str:
        lease = self.group.lease(key)
        session = lease.begin()
        self.kept.append((self.count + 2 + 3 * self.rank, lease))
        return self.use(key, session)

    def fail(self, key: str) -> str:
        try:
            with self.group.lease(key):
                raise ZeroDivisionError
        except ZeroDivisionError:
            return "failed"

    def use(self, key: str, session: Any) -> str:
        """A forward: check all, rebuild what is missing, change something."""
        expected = self.written.setdefault(key, {})
        self.faults += [f"call {self.count}: {key} {name}" for name in wrong(session, expected)]
        found = {name: has(session, name) for name in VALUES if name != "frames"}
        for name in ("note", *REBUILT):
            if not found[name]:
                expected[name] = fill(session, name, self.count, self.rank, self.size)
        for name in self.common.sample(sorted(VALUES), 2):
            expected[name] = fill(session, name, self.count, self.rank, self.size)
        return f"found {found}"


def random_calls(rank: int, size: int, seed: int, calls: int, troubles: bool) -> Any:
    """So many calls; the log, what was wrong, how often ranks met, and the events by kind."""
    cpu = 52_000 if size == 2 else 40_000
    budgets = {"cpu": cpu + 1_000 * rank, "disk": 90_000 - 5_000 * rank}
    group = group_of(
        rank,
        size,
        budgets,
        look_every=16,
        idle_timeout_s=30.0,
        max_sessions=9,
        clock=Clock(rank),
    )
    play = Play(rank, size, seed, troubles, group)
    events: Counter[str] = Counter()
    group.subscribe(lambda event: events.update([type(event).__name__]))
    failing_parks(group, lambda: play.trouble(8))
    with failing_restores(lambda: play.trouble(6)):
        for _ in range(calls):
            play.call()
    met = group.collectives
    group.close()
    return play.log, play.faults, met, events


def ready_to_be_lost(rank: int, size: int, timeout_s: float) -> None:
    """Make the group of `until_lost`."""
    budgets = {"cpu": 52_000 + 1_000 * rank, "disk": 90_000}
    group = group_of(
        rank, size, budgets, look_every=16, max_sessions=9, clock=Clock(rank), timeout_s=timeout_s
    )
    _READY.append(group)


_READY: list[GroupSessions] = []


def until_lost(rank: int, size: int, seed: int, then: str, port: int) -> Any:
    """Random calls until a rank is lost: the log, the table, the error, how long it took, and then.

    `then` is "" or "survivors": those that live go on in a group of their own, whose store is at
    `port`.
    """
    group = _READY.pop()
    play = Play(rank, size, seed, False, group)
    error = None
    while error is None:
        began_at = time.monotonic()
        try:
            play.call()
        except RankLostError as lost:
            error = lost
    took_s = time.monotonic() - began_at
    refused = []
    for call in (group.relieve, group.lease("robot-1").begin, group.expire):
        with pytest.raises(RankLostError) as again:
            call()
        refused.append(str(again.value) == str(error))
    found = (play.log, group.table(), str(error), error.ranks, took_s, refused, play.faults)
    if not then:
        return found
    return found, go_on_without(group, play, rank, size, port)


def go_on_without(group: GroupSessions, play: Play, rank: int, size: int, port: int) -> Any:
    """The survivors' own group: what it kept and ended, and whether it still decides."""
    for _, lease in play.kept:
        lease.end()
    dist.destroy_process_group()
    store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    place = int(store.add("place", 1)) - 1  # ranks anew, in the order of their coming
    dist.init_process_group("gloo", store=store, rank=place, world_size=size - 1)
    new = group.survivors(None, ranks=Ranks({"tp": size - 1}, place))
    kept = [row[0] for row in new.table()]
    for key in kept:
        with new.lease(key) as session:
            play.faults += wrong(session, play.written[key])
    with new.lease("anew", begin=COPIED) as session:
        fill(session, "state", 1, place, size - 1)
    new.relieve()
    return kept, dict(new.ended), new.table(), play.faults
