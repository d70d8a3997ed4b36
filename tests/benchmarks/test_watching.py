"""How long a request waits for its session while somebody watches, and what a scrape takes.

The waits are 99th percentiles, as in `test_waiting`, whose baseline is the same without a watcher.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from statekit.manager import SessionStateManager
from statekit.watch.client import Client
from statekit.watch.metrics import collect
from statekit.watch.server import serve
from statekit.watch.wire import Ask
from tests.benchmarks.mark import mark
from tests.benchmarks.rollout import filled
from tests.benchmarks.test_waiting import GOAL_S, SESSIONS, waits

WATCHERS = {
    "alone": "alone",
    "scraped": "while another thread scrapes its metrics",
    "shown": "while `statekit top` asks for pictures",
}


@contextmanager
def in_a_loop(work: Callable[[], object]) -> Iterator[None]:
    """Another thread does it again and again."""
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def scraped(manager: SessionStateManager) -> Iterator[None]:
    registry = CollectorRegistry()
    with collect(manager, registry), in_a_loop(lambda: generate_latest(registry)):
        yield


@contextmanager
def shown(manager: SessionStateManager, folder: Path) -> Iterator[None]:
    with serve(manager, folder / "s") as server, Client(server.path, 60) as client:
        number = iter(range(10**9))  # a question that nobody has asked before
        with in_a_loop(lambda: client.ask(Ask(since=next(number)))):
            yield


@pytest.mark.parametrize(
    ("group", "calls", "pause_s"),
    [
        ("Wait for a session while watched, in a loop (p99)", 200_000, 0.0),
        ("Wait for a session while watched, every millisecond (p99)", 2_000, 0.001),
    ],
)
@pytest.mark.parametrize("how", WATCHERS)
def test_wait_when_watched(
    benchmark: Any, tmp_path: Path, group: str, calls: int, pause_s: float, how: str
) -> None:
    """`get_or_create_session` over 2,000 DreamZero sessions, alone and beside a watcher."""
    manager = filled(SESSIONS, 1)
    alone = how == "alone"
    mark(benchmark, group, WATCHERS[how], baseline=alone, goal_s=None if alone else GOAL_S)
    taken: list[float] = []
    tmp_path.chmod(0o700)
    watching = {"alone": nullcontext, "scraped": scraped, "shown": lambda m: shown(m, tmp_path)}

    def run() -> None:
        with watching[how](manager):  # type: ignore[operator]
            taken.extend(waits(manager, calls, pause_s))

    benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["each_s"] = taken[int(len(taken) * 0.99)]


@pytest.mark.parametrize("how", ["stats", "scrape"])
def test_scrape_when_sessions_are_unchanged(benchmark: Any, how: str) -> None:
    """A scrape of 2,000 DreamZero sessions used without leases, against `stats()`."""
    manager, registry = filled(SESSIONS, 1), CollectorRegistry()
    group = "Numbers of 2,000 sessions"
    mark(benchmark, group, "stats()" if how == "stats" else "a scrape", baseline=how == "stats")
    with collect(manager, registry):
        work = manager.stats if how == "stats" else lambda: generate_latest(registry)
        work()
        benchmark.pedantic(work, rounds=5)
