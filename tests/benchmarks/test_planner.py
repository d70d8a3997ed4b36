"""What a plan costs for each session there is: the ratio says how much faster than n it grows."""

from __future__ import annotations

import math
import tempfile
from typing import Any

import pytest
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from statekit.pressure.plan import Facts, SessionFacts, ValueFacts
from statekit.pressure.planner import plan_release
from statekit.session import SessionState
from tests.benchmarks.mark import mark

GPU = "cuda:0"
VALUES = (
    ValueFacts("feature_map", {GPU: 600}, tiers=("host", "disk")),
    ValueFacts("conditioning", {GPU: 10}, rebuildable=True, cost=5.0),
    ValueFacts("video", {"cpu": 10}),
)


def goals(sessions: int) -> dict[str, float | None]:
    """To grow no faster than n log n, and to plan for 100,000 sessions within a second."""
    if sessions == 1_000:
        return {}
    return {
        "goal": math.log(sessions) / math.log(1_000),
        "goal_s": 1 / sessions if sessions == 100_000 else None,
    }


def shaped(sessions: int, budget: float) -> Facts:
    """Sessions of three values, and a budget for a part of what they hold on the device."""
    held = tuple(SessionFacts(f"robot-{n}", n, values=VALUES) for n in range(sessions))
    return Facts({GPU: int(610 * sessions * budget)}, {GPU: 610 * sessions}, held)


@pytest.mark.parametrize("sessions", [1_000, 10_000, 100_000])
@pytest.mark.parametrize(
    ("group", "budget"),
    [("Plan, 1 % over budget, per session", 0.99), ("Plan, twice over budget, per session", 0.5)],
)
def test_plan_when_sessions_are_many(
    benchmark: Any, group: str, budget: float, sessions: int
) -> None:
    """From facts to a plan that brings the device within its budget."""
    facts = shaped(sessions, budget)
    assert plan_release(facts).still_over == {}
    baseline = sessions == 1_000
    mark(
        benchmark, group, f"{sessions:,} sessions", baseline=baseline, n=sessions, **goals(sessions)
    )
    benchmark.pedantic(plan_release, args=(facts,), rounds=5)


@pytest.mark.parametrize("sessions", [1_000, 10_000, 100_000])
def test_plan_when_facts_come_from_the_records(benchmark: Any, sessions: int) -> None:
    """From the manager's records to facts and plan, of sessions that lie idle, 1 % over budget."""
    manager = SessionStateManager(
        sessions, budgets={"cpu": 1 << 50}, park_folder=tempfile.gettempdir()
    )
    spec = DreamZeroStateAdapter.SPEC
    for index in range(sessions):
        session = SessionState(f"robot-{index}")
        manager._table.begin(session, {}, False)
        assert session is not None
        state = DreamZeroStateAdapter(session.session_id, manager)
        state.vae_enc_feat_map = [torch.zeros(4), None]
        session.adopt(spec)
        manager._leasing.end_lease(session)
    records, relief = manager._refreshed(), manager._relief
    limits: Any = manager.budgets
    limits["cpu"] = int(relief.used()["cpu"] * 0.99)
    assert relief.plan(records).still_over == {}
    group, baseline = "Facts and plan, per session", sessions == 1_000
    mark(
        benchmark, group, f"{sessions:,} sessions", baseline=baseline, n=sessions, **goals(sessions)
    )
    benchmark.pedantic(relief.plan, args=(records,), rounds=5)
    manager.close()
