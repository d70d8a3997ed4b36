"""Writers that are killed: every finished snapshot is exact, every unfinished one is cleaned."""

from __future__ import annotations

import operator
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from statekit.snapshot_file.file import open_snapshot
from statekit.snapshot_file.sweep import sweep, unfinished
from statekit.snapshot_file.temporary import is_temporary
from tests.snapshot_file import crash_helper
from tests.snapshot_file.crash_helper import FILES, SHARED, value_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    """The helper: a command in, a number out."""
    helper = subprocess.Popen(
        [sys.executable, crash_helper.__file__, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="ascii",
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert helper.stdin is not None
    assert helper.stdout is not None
    stdin, stdout = helper.stdin, helper.stdout

    def ask(command: str) -> int:
        stdin.write(command + "\n")
        stdin.flush()
        return int(stdout.readline())

    yield ask
    stdin.close()
    assert helper.wait(60) == 0
    stdout.close()


def read(path: Path) -> int:
    """The number of a snapshot, which is read whole and holds what its writer wrote."""
    with open_snapshot(path) as snapshot:
        number: int = snapshot.about["n"]
        found, wanted = snapshot.read()["attrs"], value_of(number)["attrs"]
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        same = torch.equal if isinstance(value, torch.Tensor) else operator.eq
        assert same(found[name], value)
    return number


def finished(folder: Path) -> dict[int, int]:
    """The number of the snapshot in each file, all of which are read whole."""
    return {int(path.stem): read(path) for path in folder.glob("*.snap")}


def kill_writers(folder: Path, ask: Callable[[str], int], times: int) -> int:
    """Kill a writer so many times; how often one was in the middle of a file."""
    chance = random.Random(times)
    done = folder / "done"
    before: dict[int, int] = {}
    first = cut_off = 0
    for _ in range(times):
        pid = ask(f"loop {first}")
        time.sleep(chance.uniform(0.0, 0.06))
        os.kill(pid, signal.SIGKILL)
        assert ask(f"reap {pid}") == -signal.SIGKILL
        lines = done.read_text(encoding="ascii").split() if done.exists() else []
        said = [int(line) for line in lines if int(line) >= first]
        left = unfinished(folder)
        found = finished(folder)
        # Each file holds the last number that was said for it, or the next that was not yet said.
        wanted = before | {number % FILES: number for number in said}
        unsaid = said[-1] + 1 if said else first
        assert found in (wanted, wanted | {unsaid % FILES: unsaid})
        assert [name for name in os.listdir(folder) if is_temporary(name)] == left
        assert sweep(folder) == left
        assert not any(map(is_temporary, os.listdir(folder)))
        assert finished(folder) == found
        before = found
        cut_off += len(left)
        first = unsaid + 1
    return cut_off


def test_writer_when_killed_at_random_then_nothing_finished_is_lost(
    tmp_path: Path, ask: Callable[[str], int]
) -> None:
    """Twenty kills: whole snapshots read exactly, half ones are recognised and removed."""
    assert kill_writers(tmp_path, ask, 20) > 0


@pytest.mark.soak
def test_writer_when_killed_two_hundred_times_then_nothing_finished_is_lost(
    tmp_path: Path, ask: Callable[[str], int]
) -> None:
    """As above, for longer."""
    assert kill_writers(tmp_path, ask, 200) > 20


def test_name_when_several_processes_write_it_then_one_whole_file_is_there(
    tmp_path: Path, ask: Callable[[str], int]
) -> None:
    """A reader gets one writer's value whole; a sweep meanwhile takes nothing from the living."""
    pids = [ask(f"share {first}") for first in (100, 200, 300)]
    last: set[int] = set()
    deadline = time.monotonic() + 60
    while not last & {119, 219, 319} and time.monotonic() < deadline:
        assert sweep(tmp_path) == []
        if (tmp_path / SHARED).exists():
            last.add(read(tmp_path / SHARED))
    assert [ask(f"reap {pid}") for pid in pids] == [0, 0, 0]
    assert read(tmp_path / SHARED) in (119, 219, 319)
    assert os.listdir(tmp_path) == [SHARED]
