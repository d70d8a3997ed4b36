"""What it costs to be able to go back: capture, step and fork of DreamZero sessions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.capture.capture import Capture
from statekit.manager import SessionStateManager
from tests.benchmarks.mark import mark
from tests.benchmarks.rollout import forward

FEATURE_MAP_NBYTES = 632_586_240
N = 100


def session(*, full_size: bool) -> DreamZeroStateAdapter:
    """A session with 20 forwards behind it; its feature map small, or as large as in production."""
    state = DreamZeroStateAdapter("robot", SessionStateManager())
    for _ in range(20):
        forward(state)
    if full_size:
        part = torch.zeros(FEATURE_MAP_NBYTES // 24 // 2, dtype=torch.bfloat16)
        state.vae_enc_feat_map = [part.clone() for _ in range(24)] + [None, None]
    return state


def dict_copy(state: DreamZeroStateAdapter) -> object:
    objects = state.session.objects
    return state.session.attrs.copy(), {name: vars(obj).copy() for name, obj in objects.items()}


def deep_copy(state: DreamZeroStateAdapter) -> object:
    return copy.deepcopy(dict_copy(state))


def captured(state: DreamZeroStateAdapter) -> object:
    return Capture(state.session)


@pytest.mark.parametrize(
    ("subject", "copied", "rounds"),
    [
        ("plain dict copies", dict_copy, 200),
        ("capture", captured, 200),
        ("copy.deepcopy", deep_copy, 3),
    ],
)
def test_capture_when_the_session_holds_603_mib(
    benchmark: Any, subject: str, copied: Callable[[Any], object], rounds: int
) -> None:
    """A picture of a session whose feature map is as large as in production."""
    state = session(full_size=True)
    mark(benchmark, "A picture of 603 MiB", subject, baseline=copied is dict_copy)
    benchmark.pedantic(lambda: copied(state), rounds=rounds, warmup_rounds=1)


@pytest.mark.parametrize(("subject", "full_size"), [("12 KiB", False), ("603 MiB", True)])
def test_capture_when_sessions_differ_in_bytes(
    benchmark: Any, subject: str, full_size: bool
) -> None:
    """The cost of a capture grows with the number of values, not with their bytes."""
    state = session(full_size=full_size)
    goal = 1.2 if full_size else None
    mark(benchmark, "Capture, by bytes held", subject, baseline=not full_size, goal=goal, n=N)

    def run() -> None:
        for _ in range(N):
            Capture(state.session)

    benchmark.pedantic(run, rounds=60, warmup_rounds=2)


@pytest.mark.parametrize("subject", ["forward", "forward in a step", "step alone"])
def test_forward_when_in_a_step(benchmark: Any, subject: str) -> None:
    """What a step adds to the state work of a forward that completes a chunk."""
    state = session(full_size=False)

    def start() -> None:
        state.reset()
        for _ in range(20):
            forward(state)

    def run() -> None:
        for _ in range(10):
            if subject == "forward":
                forward(state)
            elif subject == "step alone":
                with state.step():
                    pass
            else:
                with state.step():
                    forward(state)

    alone = subject == "step alone"
    mark(
        benchmark,
        "One forward's state work, in a step",
        subject,
        baseline=subject == "forward",
        goal_s=5e-6 if alone else None,
        n=10,
    )
    benchmark.pedantic(run, setup=start, rounds=200, warmup_rounds=2)


@pytest.mark.parametrize("subject", ["an empty session and adapter", "fork", "fork and promote"])
def test_fork_when_made(benchmark: Any, subject: str) -> None:
    """Another session that shares all memory, against making an empty one."""
    state = session(full_size=False)

    def run() -> None:
        for _ in range(10):
            if subject == "fork":
                state.fork()
            elif subject == "fork and promote":
                state.fork().session.promote()
            else:
                DreamZeroStateAdapter("robot", SessionStateManager())

    baseline = subject.startswith("an empty")
    mark(benchmark, "Fork a session", subject, baseline=baseline, n=10)
    benchmark.pedantic(run, rounds=60, warmup_rounds=2)
