"""What it costs to have sessions measured: a look after each step."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from statekit import measure
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.benchmarks.mark import mark
from tests.benchmarks.rollout import forward

FORWARDS = 50


@pytest.mark.parametrize(("subject", "recorded"), [("not measured", False), ("measured", True)])
def test_forward_when_measured(benchmark: Any, subject: str, recorded: bool) -> None:
    """One DreamZero forward's state work, under a step; tensors are small, their number is not."""
    manager = SessionStateManager()

    def rollout() -> None:
        for _ in range(FORWARDS):
            state = DreamZeroStateAdapter("robot", manager)
            with state.step():
                forward(state)
        manager.drop_session("robot")

    mark(
        benchmark,
        "A measured forward's state work",
        subject,
        baseline=not recorded,
        n=FORWARDS,
    )
    with measure.record(manager) if recorded else nullcontext():
        benchmark.pedantic(rollout, rounds=20, warmup_rounds=2)
