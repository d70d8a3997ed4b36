"""What a group costs: a forward that changes no decision, and a begin, for which ranks meet."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.benchmarks.mark import mark
from tests.benchmarks.rollout import forward, ids
from tests.distributed import follower
from tests.distributed.ranks import free_port

SPEC = follower.SPEC
MANY = 64
BEGINS = 16


class Pair:
    """This process as rank 0, and another one that follows it."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        start = multiprocessing.get_context("spawn")
        self._pipe, there = start.Pipe()
        self._other = start.Process(
            target=follower.follow, args=(1, 2, port, there, folder), daemon=True
        )
        self._other.start()
        self.group = follower.join(0, 2, port, folder)

    def do(self, act: Callable[[Any, int], None], count: int) -> None:
        """Do it on both ranks."""
        self.tell(act, count)
        act(self.group, count)

    def tell(self, act: Callable[[Any, int], None], count: int) -> None:
        """Have the other rank do it."""
        self._pipe.send((act.__name__, count))

    def end(self) -> None:
        self._pipe.send(("end", 0))
        self._other.join()
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("parked"))
    yield made
    made.end()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Any]:
    """A group of one rank: what a forward costs does not depend on how many there are."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    group = follower.group_of(0, 1, {"cpu": 1 << 50}, look_every=1 << 30, folder=tmp_path)
    for name in ids(MANY)[:63]:
        with group.lease(name, begin=SPEC):
            forward(DreamZeroStateAdapter(name, group.manager))
    yield group
    dist.destroy_process_group()


def test_forward_when_in_a_managers_lease(benchmark: Any) -> None:
    """The baseline: one manager with a budget that holds."""
    mark(benchmark, "Go on with a session of a group", "a manager's lease", baseline=True, n=63)
    manager = SessionStateManager(MANY, budgets={"cpu": 1 << 50})
    names = ids(MANY)[:63]
    for name in names:
        with manager.lease(name, begin=SPEC):
            forward(DreamZeroStateAdapter(name, manager))

    def use_all() -> None:
        for name in names:
            with manager.lease(name):
                pass

    benchmark(use_all)


def test_forward_when_in_a_groups_lease(benchmark: Any, alone: Any) -> None:
    """The same by a group: it meets nobody."""
    mark(benchmark, "Go on with a session of a group", "a group's lease", n=63, goal=1.5)
    names, before = ids(MANY)[:63], alone.collectives

    def use_all() -> None:
        for name in names:
            with alone.lease(name):
                pass

    benchmark(use_all)
    assert alone.collectives == before


def test_begin_when_a_bare_collective(benchmark: Any, pair: Pair) -> None:
    """The baseline: one all_gather of a kilobyte between two processes."""
    group = "Begin a session on two ranks"
    mark(benchmark, group, "a bare all_gather", baseline=True, n=BEGINS)
    benchmark.pedantic(
        lambda: follower.gather(pair.group, BEGINS),
        setup=lambda: pair.tell(follower.gather, BEGINS),
        rounds=20,
    )


def test_begin_when_decided_by_two_ranks(benchmark: Any, pair: Pair) -> None:
    """A begin with its lease: a collective, an entry in the store, and the manager's own work."""
    group = "Begin a session on two ranks"
    mark(benchmark, group, "begun, and the lease ended", n=BEGINS, goal=5.0)

    def ready() -> None:
        pair.do(follower.drop, BEGINS)
        pair.tell(follower.begin, BEGINS)

    benchmark.pedantic(lambda: follower.begin(pair.group, BEGINS), setup=ready, rounds=20)
