"""A session on a replica of Ray, against a bare actor that keeps the same state in a dict.

What is compared is what a user would write instead: an actor with a method, and a dict by session.
Steps are also measured with a frame of 352 by 640 as input and output, and with a model that takes
10 ms, which is little for one. Waits are those of one client that waits for each answer.
"""

from __future__ import annotations

import itertools
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.mark import mark

ray = pytest.importorskip("ray")

from statekit.manager import SessionStateManager  # noqa: E402
from statekit.ray.cluster import RaySessions, start  # noqa: E402
from statekit.replicas.replica import Replica  # noqa: E402
from statekit.replicas.serving import Serves  # noqa: E402
from tests.replicas.toy import SPEC  # noqa: E402

ROOT = Path(__file__).parents[2]
ROUNDS, CALLS = 30, 50
FRAME = np.zeros((352, 640, 3), np.uint8)
INPUTS = {"a number": (1, 0.0), "a frame of 675 KiB": (FRAME, 0.0), "10 ms of model": (1, 0.01)}


class Bare:
    """A bare actor."""

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str, Any]] = {}

    def begin(self, session_id: str) -> None:
        self._sessions[session_id] = {}

    def step(self, session_id: str, x: Any, work_s: float) -> Any:
        session = self._sessions[session_id]
        session["count"] = session.get("count", 0) + 1
        time.sleep(work_s)
        return x

    def close(self, session_id: str) -> None:
        del self._sessions[session_id]


class Counter:
    """The same as a model."""

    def step(self, turn: Any, x: Any, work_s: float) -> Any:
        attrs = turn.session.attrs
        attrs["count"] = attrs.get("count", 0) + 1
        time.sleep(work_s)
        return x


def make(name: str, limits: Any, saving: Any) -> Replica:
    """A replica that counts."""
    manager = SessionStateManager(max_sessions=4096)
    return Replica(name, manager, [Serves(SPEC, Counter())], limits=limits, saving=saving)


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Any, RaySessions]]:
    """The bare actor, and a service of two replicas."""
    env = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="error",
            runtime_env={"env_vars": env | {"PATH": os.environ["PATH"]}},
        )  # fmt: skip
    bare = ray.remote(Bare).remote()
    sessions = start(make, ["a", "b"], service="bench", actor={"num_cpus": 1})
    yield bare, sessions
    sessions.shutdown()
    ray.shutdown()


@pytest.mark.parametrize("given", list(INPUTS))
@pytest.mark.parametrize("subject", ["bare actor", "step"])
def test_step_when_waited_for(
    benchmark: Any, both: tuple[Any, RaySessions], subject: str, given: str
) -> None:
    """One client, one session, one step after the other."""
    bare, sessions = both
    x, work_s = INPUTS[given]
    if subject == "step":
        sessions.begin("one")

        def run() -> None:
            for _ in range(CALLS):
                sessions.step("one", x, work_s)

    else:
        ray.get(bare.begin.remote("one"))

        def run() -> None:
            for _ in range(CALLS):
                ray.get(bare.step.remote("one", x, work_s))

    baseline = subject == "bare actor"
    mark(
        benchmark, f"A step with {given}", subject,
        baseline=baseline, n=CALLS, goal=None if baseline else 1.1,
    )  # fmt: skip
    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=3)
    sessions.close("one")


@pytest.mark.parametrize("subject", ["bare actor", "step"])
def test_steps_when_sixteen_sessions_are_under_way(
    benchmark: Any, both: tuple[Any, RaySessions], subject: str
) -> None:
    """Throughput: a step of each of 16 sessions is sent, then all are waited for."""
    bare, sessions = both
    names = [f"s{i}" for i in range(16)]
    for name in names:
        if subject == "step":
            sessions.begin(name)
        else:
            ray.get(bare.begin.remote(name))

    def run() -> None:
        if subject == "step":
            for pending in [sessions.submit(name, 1, 0.0) for name in names]:
                pending.result()
        else:
            ray.get([bare.step.remote(name, 1, 0.0) for name in names])

    baseline = subject == "bare actor"
    mark(benchmark, "Steps of 16 sessions at a time", subject, baseline=baseline, n=len(names))
    benchmark.pedantic(run, rounds=ROUNDS * 2, warmup_rounds=5)
    for name in names:
        sessions.close(name)


@pytest.mark.parametrize("subject", ["bare actor", "begin and close", "move"])
def test_session_when_it_begins_ends_or_moves(
    benchmark: Any, both: tuple[Any, RaySessions], subject: str
) -> None:
    """Two calls of a bare actor, against a begin and a close, and against a move and a step."""
    bare, sessions = both
    names = (f"n{i}" for i in itertools.count())
    if subject == "move":
        sessions.begin("mover")

    def run() -> None:
        name = next(names)
        if subject == "bare actor":
            ray.get(bare.begin.remote(name))
            ray.get(bare.close.remote(name))
        elif subject == "move":
            sessions.move("mover")
            sessions.step("mover", 1, 0.0)
        else:
            sessions.begin(name)
            sessions.close(name)

    mark(benchmark, "Begin, end, move", subject, baseline=subject == "bare actor")
    benchmark.pedantic(run, rounds=ROUNDS * 3, warmup_rounds=5)
    sessions.close("mover")
