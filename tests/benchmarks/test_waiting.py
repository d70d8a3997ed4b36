"""How long a request waits for its session while a metrics endpoint polls without pause.

What counts is the wait that one request in a hundred exceeds, so the figure is no minimum: it is
the 99th percentile of many calls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from statekit.manager import SessionStateManager
from tests.benchmarks.mark import mark
from tests.benchmarks.rollout import filled, ids

SESSIONS = 2_000
GOAL_S = 200e-6


@contextmanager
def polled(manager: SessionStateManager) -> Iterator[None]:
    """Another thread asks for `stats()`, and again as soon as it has the answer."""
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            manager.stats()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def waits(manager: SessionStateManager, calls: int, pause_s: float) -> list[float]:
    """Seconds that each call took, in rising order."""
    names = ids(SESSIONS)
    taken = []
    for call in range(calls):
        name = names[call % SESSIONS]
        start = time.perf_counter()
        manager.get_or_create_session(name)
        taken.append(time.perf_counter() - start)
        if pause_s:
            time.sleep(pause_s)
    return sorted(taken)


@pytest.mark.parametrize(
    ("group", "calls", "pause_s"),
    [
        ("Wait for a session, in a loop (p99)", 200_000, 0.0),
        ("Wait for a session, every millisecond (p99)", 2_000, 0.001),
    ],
)
@pytest.mark.parametrize("poll", [False, True], ids=["alone", "polled"])
def test_wait_when_stats_are_polled(
    benchmark: Any, group: str, calls: int, pause_s: float, poll: bool
) -> None:
    """`get_or_create_session` over 2,000 DreamZero sessions, alone and beside the poll."""
    manager = filled(SESSIONS, 1)
    subject = "while another thread polls stats()" if poll else "alone"
    mark(benchmark, group, subject, baseline=not poll, goal_s=GOAL_S if poll else None)
    taken: list[float] = []

    def run() -> None:
        if poll:
            with polled(manager):
                taken.extend(waits(manager, calls, pause_s))
        else:
            taken.extend(waits(manager, calls, pause_s))

    benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["each_s"] = taken[int(len(taken) * 0.99)]
