"""Parking a DreamZero session of 603 MiB and bringing it back, against the bare file.

Everything that a manager does for it is in the figure: the plan, the image, the checksums, and the
removal of the file. The bare side writes and reads the same bytes in one file, and no more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.benchmarks.mark import mark

NBYTES = 632_586_240  # of vae_enc_feat_map at 352 x 640
ROUNDS = 5
GOAL = 1 / 0.8
PARK, RESTORE = "Park 603 MiB on disk", "Bring 603 MiB back from disk"


def feature_map() -> list[torch.Tensor | None]:
    """Tensors of different sizes, as the encoder has them, and two None."""
    tensors = [torch.full((size * NBYTES // 300,), 7, dtype=torch.uint8) for size in range(1, 24)]
    rest = NBYTES - sum(tensor.numel() for tensor in tensors)
    return [*tensors, torch.full((rest,), 7, dtype=torch.uint8), None, None]


def write(path: Path, tensors: list[torch.Tensor | None]) -> None:
    with path.open("wb", buffering=0) as file:
        for tensor in tensors:
            part = memoryview(b"") if tensor is None else tensor.numpy().data
            while part:
                part = part[file.write(part) or 0 :]


def read(path: Path, tensors: list[torch.Tensor | None]) -> list[torch.Tensor]:
    found = []
    with path.open("rb", buffering=0) as file:
        for tensor in tensors:
            if tensor is not None:
                found.append(torch.empty(tensor.numel(), dtype=torch.uint8))
                part = found[-1].numpy().data
                while part:
                    part = part[file.readinto(part) or 0 :]
    return found


class Session:
    """One session under a budget that it exceeds whenever it is not in use."""

    def __init__(self, folder: Path) -> None:
        self.manager = SessionStateManager(budgets={"cpu": 4 * NBYTES}, park_folder=folder)
        self.limits: Any = self.manager.budgets  # changed in place, which no user should do
        self.lease = self.manager.lease("robot", begin=DreamZeroStateAdapter.SPEC)
        self.lease.begin()
        DreamZeroStateAdapter("robot", self.manager).vae_enc_feat_map = feature_map()  # type: ignore[assignment]

    def park(self) -> None:
        self.limits["cpu"] = 1 << 20
        self.lease.end()

    def restore(self) -> None:
        self.limits["cpu"] = 4 * NBYTES
        self.lease = self.manager.lease("robot")
        self.lease.begin()


@pytest.mark.parametrize("group", [PARK, RESTORE])
@pytest.mark.parametrize("baseline", [True, False], ids=["bare", "manager"])
def test_park_when_a_session_is_over_budget(
    benchmark: Any, tmp_path: Path, group: str, baseline: bool
) -> None:
    """There and back, `ROUNDS` times; the fastest of each way counts."""
    subject = "the bytes in one file" if baseline else "a session under a budget"
    mark(benchmark, group, subject, baseline=baseline, goal=None if baseline else GOAL)
    times: dict[str, list[float]] = {PARK: [], RESTORE: []}

    def timed(way: str, do: Callable[[], object]) -> None:
        start = time.perf_counter()
        kept = do()
        times[way].append(time.perf_counter() - start)
        del kept  # to free it is no part of the reading

    if baseline:
        tensors, path = feature_map(), tmp_path / "bare"

        def there_and_back() -> None:
            timed(PARK, lambda: write(path, tensors))
            timed(RESTORE, lambda: read(path, tensors))
            os.unlink(path)
    else:
        session = Session(tmp_path)

        def there_and_back() -> None:
            timed(PARK, session.park)
            assert session.manager.stats()["parked_nbytes:disk"] > NBYTES
            timed(RESTORE, session.restore)

    benchmark.pedantic(there_and_back, rounds=ROUNDS)
    benchmark.extra_info["each_s"] = min(times[group])
