"""Real processes for tests of groups: one for each rank, gloo between them, a store beside them.

Owns how they are started, how long they may take, and how their answers come back. Processes come
from a server that has loaded torch once. A rank that is killed answers nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["GONE", "Team", "free_port"]

GONE = "gone"
"""What a rank answers that was killed."""

Scene = Callable[..., Any]

_START = multiprocessing.get_context("forkserver")
_START.set_forkserver_preload(["tests.distributed.odd_scenes"])


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Team:
    """The ranks of one process group, for a `with` block; they end with it.

    Args:
        size: how many.
        store_on_rank_0: whether the store dies with rank 0; else it is this process's.
    """

    def __init__(self, size: int, *, store_on_rank_0: bool = False) -> None:
        port = free_port()
        self._store = None
        if not store_on_rank_0:
            self._store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
        self._folder = tempfile.TemporaryDirectory(prefix="statekit-ranks-")
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        for rank in range(size):
            here, there = _START.Pipe()
            args = (rank, size, port, store_on_rank_0 and rank == 0, there, self._folder.name)
            process = _START.Process(target=_serve, args=args, daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    def play(self, scene: Scene, *args: Any, limit_s: float = 60.0) -> list[Any]:
        """What `scene(rank, size, *args)` returns on each rank; GONE for one that died."""
        self.begin(scene, *args)
        return self.end(limit_s)

    def begin(self, scene: Scene, *args: Any) -> None:
        """Have all ranks begin."""
        for pipe in self._pipes:
            pipe.send((scene, args))

    def kill(self, rank: int) -> None:
        """End a rank at once, as a machine that fails would."""
        self._processes[rank].kill()

    def end(self, limit_s: float = 60.0) -> list[Any]:
        """The answers; fails where a rank takes longer, or failed."""
        answers: dict[int, Any] = {}
        ends_at = time.monotonic() + limit_s
        while len(answers) < len(self._pipes):
            waiting = [pipe for rank, pipe in enumerate(self._pipes) if rank not in answers]
            ready = wait(waiting, max(0.0, ends_at - time.monotonic()))
            if not ready:
                late = [rank for rank in range(len(self._pipes)) if rank not in answers]
                raise AssertionError(f"ranks {late} took longer than {limit_s} s")
            for rank, pipe in enumerate(self._pipes):
                if pipe in ready:
                    try:
                        answers[rank] = pipe.recv()
                    except (EOFError, ConnectionError):
                        answers[rank] = ("done", GONE)
        failed = [answers[rank][1] for rank in sorted(answers) if answers[rank][0] == "failed"]
        if failed:
            raise AssertionError("\n".join(failed))
        return [answers[rank][1] for rank in range(len(self._pipes))]

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process, pipe in zip(self._processes, self._pipes, strict=True):
            process.kill()
            process.join()
            process.close()
            pipe.close()
        self._store = None
        self._folder.cleanup()


def _serve(rank: int, size: int, port: int, host: bool, pipe: Connection, folder: str) -> None:
    torch.set_num_threads(1)
    tempfile.tempdir = folder
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a store that is lost is told in pages
    try:
        patience = timedelta(seconds=8)  # how long what was abandoned holds up the end of a group
        store = dist.TCPStore(
            "127.0.0.1", port, is_master=host, wait_for_workers=False, timeout=patience
        )
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=patience)
        while True:
            scene, args = pipe.recv()
            try:
                answer = ("done", scene(rank, size, *args))
            except BaseException:
                answer = ("failed", f"rank {rank}:\n{traceback.format_exc()}")
            pipe.send(answer)
    finally:
        os._exit(0)  # a group whose rank is gone does not end by itself
