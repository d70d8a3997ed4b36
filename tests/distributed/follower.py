"""A second rank that does what the first one says, for benchmarks: the first one is measured."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.distributed import GroupSessions
from tests.distributed.scenes import group_of

__all__ = ["SPEC", "begin", "drop", "follow", "gather"]

SPEC = DreamZeroStateAdapter.SPEC


def begin(group: GroupSessions, count: int) -> None:
    """Begin so many sessions."""
    for number in range(count):
        with group.lease(f"new-{number}", begin=SPEC):
            pass


def drop(group: GroupSessions, count: int) -> None:
    """Drop them again."""
    for number in range(count):
        group.drop_session(f"new-{number}")


def gather(group: GroupSessions, count: int) -> None:
    """So many bare collectives of the size that a group's have."""
    send = torch.zeros(1024, dtype=torch.uint8)
    receive = [torch.zeros(1024, dtype=torch.uint8) for _ in range(group.size)]
    for _ in range(count):
        dist.all_gather(receive, send)


def follow(rank: int, size: int, port: int, pipe: Connection, folder: Path) -> None:
    """Be a rank, until told to end."""
    torch.set_num_threads(1)
    group = join(rank, size, port, folder)
    acts: Any = {"begin": begin, "drop": drop, "gather": gather}
    while True:
        act, count = pipe.recv()
        if act == "end":
            return
        acts[act](group, count)


def join(rank: int, size: int, port: int, folder: Path) -> GroupSessions:
    """Come to the others."""
    store = dist.TCPStore("127.0.0.1", port, is_master=rank == 0, wait_for_workers=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    return group_of(rank, size, {"cpu": 1 << 50}, max_sessions=512, folder=folder)
