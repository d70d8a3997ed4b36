"""What it costs to find a session, to do one forward's state work, and to count all bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.benchmarks.mark import mark
from tests.benchmarks.rollout import filled, forward, ids
from tests.equivalence.hand_rolled_dreamzero import (
    HandRolledDreamZeroState,
    HandRolledDreamZeroStates,
)
from tests.equivalence.held import held_bytes

SESSIONS = 64
IDS = ids(SESSIONS)


class LockedTable:
    """The least that a table of sessions needs: a lock, an order of use, a bound."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.table: OrderedDict[str, HandRolledDreamZeroState] = OrderedDict()

    def get(self, session_id: str) -> HandRolledDreamZeroState:
        with self.lock:
            state = self.table.get(session_id)
            if state is None:
                state = self.table[session_id] = HandRolledDreamZeroState(session_id)
                if len(self.table) > SESSIONS:
                    self.table.popitem(last=False)
            self.table.move_to_end(session_id)
            return state


def locked_table() -> Callable[[str], object]:
    return LockedTable().get


def manager_alone() -> Callable[[str], object]:
    return SessionStateManager(SESSIONS).get_or_create_session


def manager_and_adapter() -> Callable[[str], object]:
    manager = SessionStateManager(SESSIONS)
    return lambda session_id: DreamZeroStateAdapter(session_id, manager)


@pytest.mark.parametrize(
    ("subject", "make", "baseline"),
    [
        ("ordered dict with a lock", locked_table, True),
        ("manager", manager_alone, False),
        ("manager, and an adapter for it", manager_and_adapter, False),
    ],
)
def test_session_when_known_then_found(
    benchmark: Any, subject: str, make: Callable[[], Callable[[str], object]], baseline: bool
) -> None:
    """A session that is in the table, each of 64 in turn."""
    find = make()
    mark(benchmark, "Find a session", subject, baseline=baseline, n=SESSIONS)

    def find_all() -> None:
        for session_id in IDS:
            find(session_id)

    find_all()
    benchmark(find_all)


@pytest.mark.parametrize(("subject", "baseline"), [("hand-rolled", True), ("adapter", False)])
def test_forward_when_a_chunk_completes(benchmark: Any, subject: str, baseline: bool) -> None:
    """All that one DreamZero forward does with its session's state, the look-up included."""
    hand, manager = HandRolledDreamZeroStates(), SessionStateManager()

    def find() -> Any:
        return hand.get("robot") if baseline else DreamZeroStateAdapter("robot", manager)

    def start() -> None:
        """A rollout of 100 forwards: then a hand-rolled history is 101 frames long."""
        find().reset()
        for _ in range(100):
            forward(find())

    mark(benchmark, "One forward's state work", subject, baseline=baseline, n=10)

    def ten_forwards() -> None:
        for _ in range(10):
            forward(find())

    benchmark.pedantic(ten_forwards, setup=start, rounds=60)


@pytest.mark.parametrize(("subject", "baseline"), [("plain walk", True), ("stats()", False)])
def test_bytes_when_64_sessions_are_live(benchmark: Any, subject: str, baseline: bool) -> None:
    """Count what 64 DreamZero sessions hold, each with 20 forwards behind it."""
    manager = filled(SESSIONS, 20)
    sessions = [manager.get_or_create_session(session_id) for session_id in IDS]
    roots = [
        [session.attrs, *(obj.view() for name in session.names if (obj := session.get(name)))]
        for session in sessions
    ]
    assert held_bytes(*roots) == manager.nbytes_by_device()  # both do the same work
    goal = None if baseline else 0.25
    mark(benchmark, "Count the bytes of 64 sessions", subject, baseline=baseline, goal=goal)
    if baseline:
        benchmark(lambda: held_bytes(*roots))
    else:
        benchmark(manager.stats)


@pytest.mark.parametrize("sessions", [64, 2_000, 20_000])
def test_stats_when_sessions_are_many(benchmark: Any, sessions: int) -> None:
    """`stats()` for each session that there is: the ratio says how much faster than n it grows."""
    manager = filled(sessions, 1)
    group, baseline = "stats(), per session", sessions == SESSIONS
    mark(benchmark, group, f"{sessions:,} sessions", baseline=baseline, n=sessions)
    benchmark.pedantic(manager.stats, rounds=200 if baseline else 5)
