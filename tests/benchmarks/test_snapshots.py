"""Writing and reading snapshots of 603 MiB, against safetensors and against the bare bytes.

What is compared is what a user would write instead: the same tensors with `safetensors.torch`, or
their bytes alone. A snapshot holds checksums, and is on the disk when it is done; the others are
measured both without that and with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from statekit.session import SessionState
from statekit.snapshot.contents import contents_of
from statekit.snapshot_file.file import open_snapshot, write_snapshot
from tests.benchmarks.mark import mark
from tests.benchmarks.test_parking import feature_map, read, write

ROUNDS = 6


def tensors() -> dict[str, torch.Tensor]:
    return {str(i): one for i, one in enumerate(feature_map()) if one is not None}


def synced(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


@pytest.mark.parametrize("fsync", [False, True], ids=["cached", "fsync"])
@pytest.mark.parametrize(
    "subject", ["safetensors.torch.save_file", "the bytes in one file", "snapshot"]
)
def test_snapshot_when_written(benchmark: Any, tmp_path: Path, subject: str, fsync: bool) -> None:
    """603 MiB into a new file in place of an old one, in the page cache or on the disk."""
    session = SessionState("robot")
    session.attrs["map"] = tensors()
    contents, path = contents_of(session), tmp_path / "file"
    held = session.attrs["map"]

    def run() -> None:
        if subject == "snapshot":
            write_snapshot(path, contents.tree, contents.about, fsync=fsync)
            return
        new = tmp_path / "new"
        if subject.startswith("safetensors"):
            save_file(held, new)
        else:
            write(new, list(held.values()))
        if fsync:
            synced(new)
        new.replace(path)

    baseline = subject.startswith("safetensors")
    group = "Write 603 MiB" + (", on the disk when done" if fsync else ", into the page cache")
    goal = 1 / 0.9 if subject == "snapshot" else None
    mark(benchmark, group, subject, baseline=baseline, goal=goal)
    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)


@pytest.mark.parametrize(
    "subject", ["safetensors.torch.load_file", "the bytes of one file", "snapshot"]
)
def test_snapshot_when_read(benchmark: Any, tmp_path: Path, subject: str) -> None:
    """603 MiB out of the page cache into memory of their own; load_file maps the file instead."""
    session = SessionState("robot")
    session.attrs["map"] = tensors()
    contents, path = contents_of(session), tmp_path / "file"
    held = list(session.attrs["map"].values())
    run: Callable[[], object]
    if subject == "snapshot":
        write_snapshot(path, contents.tree, contents.about)

        def run() -> object:
            with open_snapshot(path) as snapshot:
                return snapshot.read()
    elif subject.startswith("safetensors"):
        save_file(session.attrs["map"], path)

        def run() -> object:
            return {name: one.clone() for name, one in load_file(path).items()}
    else:
        write(path, held)

        def run() -> object:
            return read(path, held)

    baseline = subject.startswith("safetensors")
    mark(benchmark, "Read 603 MiB, into memory of its own", subject, baseline=baseline)
    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
