"""What a plan costs for each session there is: the ratio says how much faster than n it grows."""

from __future__ import annotations

from typing import Any

import pytest

from statekit.pressure.plan import Facts, SessionFacts, ValueFacts
from statekit.pressure.planner import plan_release

GPU = "cuda:0"
VALUES = (
    ValueFacts("feature_map", {GPU: 600}, tiers=("host", "disk")),
    ValueFacts("conditioning", {GPU: 10}, rebuildable=True, cost=5.0),
    ValueFacts("video", {"cpu": 10}),
)


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
    benchmark.group = group
    benchmark.extra_info.update(
        subject=f"{sessions:,} sessions", baseline=sessions == 1_000, operations=sessions
    )
    benchmark.pedantic(plan_release, args=(facts,), rounds=5)
