"""What a lease costs around a body that does nothing, without budgets and with one that holds."""

from __future__ import annotations

from typing import Any

import pytest

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.benchmarks.mark import mark
from tests.benchmarks.rollout import forward, ids

SPEC = DreamZeroStateAdapter.SPEC
KINDS = [
    ("found without a lease", None, 64),
    ("64 sessions, no budget", {}, 64),
    ("64 sessions, a budget", {"cpu": 1 << 50}, 64),
    ("2,000 sessions, a budget", {"cpu": 1 << 50}, 2_000),
]


def served(budgets: dict[str, int] | None, sessions: int) -> SessionStateManager:
    """Sessions that were begun, with a forward behind each."""
    manager = SessionStateManager(sessions + 1, budgets=budgets or None)
    for session_id in ids(sessions):
        with manager.lease(session_id, begin=SPEC):
            forward(DreamZeroStateAdapter(session_id, manager))
    return manager


@pytest.mark.parametrize(("subject", "budgets", "sessions"), KINDS)
def test_lease_when_a_session_goes_on(
    benchmark: Any, subject: str, budgets: dict[str, int] | None, sessions: int
) -> None:
    """Lease a session and give it back, each of 64 in turn."""
    manager, names = served(budgets, sessions), ids(64)
    mark(benchmark, "Go on with a session", subject, baseline=budgets is None, n=len(names))

    def use_all() -> None:
        for session_id in names:
            with manager.lease(session_id):
                pass

    def find_all() -> None:
        for session_id in names:
            manager.get_or_create_session(session_id)

    benchmark(find_all if budgets is None else use_all)


@pytest.mark.parametrize(("subject", "budgets", "sessions"), KINDS)
def test_lease_when_a_forward_is_done_in_it(
    benchmark: Any, subject: str, budgets: dict[str, int] | None, sessions: int
) -> None:
    """The state work of one forward in a lease, accounts settled after it."""
    manager, names = served(budgets, sessions), ids(16)
    group, n = "One forward's state work, leased", len(names)
    name = "without a lease" if budgets is None else subject
    mark(benchmark, group, name, baseline=budgets is None, n=n)

    def start() -> None:
        for session_id in names:
            DreamZeroStateAdapter(session_id, manager).reset()

    def use_all() -> None:
        for session_id in names:
            with manager.lease(session_id):
                forward(DreamZeroStateAdapter(session_id, manager))

    def use_all_bare() -> None:
        for session_id in names:
            forward(DreamZeroStateAdapter(session_id, manager))

    run = use_all_bare if budgets is None else use_all
    benchmark.pedantic(run, setup=start, rounds=40)


@pytest.mark.parametrize(("subject", "budgets", "sessions"), KINDS)
def test_lease_when_a_session_begins(
    benchmark: Any, subject: str, budgets: dict[str, int] | None, sessions: int
) -> None:
    """Begin a session, admission included, and drop it again."""
    manager = served(budgets, sessions)
    name = "made without a lease" if budgets is None else subject
    mark(benchmark, "Begin a session, and drop it", name, baseline=budgets is None)

    def begin() -> None:
        with manager.lease("new", begin=SPEC):
            pass
        manager.drop_session("new")

    def make() -> None:
        DreamZeroStateAdapter("new", manager)
        manager.drop_session("new")

    benchmark.pedantic(make if budgets is None else begin, rounds=20)
