"""Whose files they are, also after a death: `statekit.parking.folder`."""

from __future__ import annotations

import gc
import os
import random
import signal
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit.image.taking import take_image
from statekit.parking.disk import DiskTier
from statekit.parking.folder import OwnedFolder

REPOSITORY = Path(__file__).resolve().parents[2]
DEAD = "owner-1-" + "0" * 32
FILE = "f" * 32 + ".park"


def owners(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("owner-"))


def dead_owner(folder: Path) -> Path:
    left = folder / DEAD
    left.mkdir()
    (left / "lock").touch()
    (left / FILE).write_bytes(b"x" * 100)
    (left / ("e" * 32 + ".tmp")).write_bytes(b"x")
    return left


def test_folder_when_made_then_only_its_user_can_read_it(tmp_path: Path) -> None:
    """Folders are 0700 and files 0600, whatever the umask."""
    before = os.umask(0)
    try:
        tier = DiskTier(tmp_path / "new" / "deep")
        parked = tier.begin_park(take_image(torch.ones(3))).finish()
    finally:
        os.umask(before)
    made = tier._folder.path
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (made.parent, made)}
    assert set(modes.values()) == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()} == {0o600}
    assert parked.nbytes_by_device() == {"disk": 4096 + 12}
    tier.close()


def test_owner_when_dead_then_the_next_one_removes_its_files(tmp_path: Path) -> None:
    """A subfolder whose lock can be taken is removed; those of living owners are not."""
    living = OwnedFolder(tmp_path)
    left = dead_owner(tmp_path)
    new = OwnedFolder(tmp_path)
    assert not left.exists()
    assert living.path.exists()
    assert owners(tmp_path) == sorted([living.path.name, new.path.name])
    new.close()
    living.close()
    assert owners(tmp_path) == []


def test_owner_when_it_died_while_it_was_removed_then_the_rest_is_removed(tmp_path: Path) -> None:
    """A subfolder without its lock file is one whose removal was cut short."""
    (tmp_path / DEAD).mkdir()
    OwnedFolder(tmp_path).close()
    assert owners(tmp_path) == []


def test_sweep_when_other_files_are_there_then_they_stay(tmp_path: Path) -> None:
    """Only what is named as ours is removed, in folders and in the folder of folders."""
    left = dead_owner(tmp_path)
    (left / "notes.txt").write_text("mine")
    (tmp_path / "owner-of-this.txt").write_text("mine")
    OwnedFolder(tmp_path).close()
    assert [path.name for path in left.iterdir()] == ["notes.txt"]
    assert (tmp_path / "owner-of-this.txt").read_text() == "mine"


def test_sweep_when_links_lead_out_of_the_folder_then_nothing_there_is_touched(
    tmp_path: Path,
) -> None:
    """Symbolic links planted as an owner or as a lock are not followed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / FILE).write_text("precious")
    (outside / "lock").touch()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / DEAD).symlink_to(outside)
    second = folder / ("owner-2-" + "0" * 32)
    second.mkdir()
    (second / "lock").symlink_to(outside / "planted")
    (second / FILE).symlink_to(outside / FILE)
    OwnedFolder(folder).close()
    assert sorted(path.name for path in outside.iterdir()) == [FILE, "lock"]
    assert (outside / FILE).read_text() == "precious"


def test_folder_when_it_is_garbage_then_it_is_removed(tmp_path: Path) -> None:
    """A tier that nobody holds leaves nothing behind."""
    tier: Any = DiskTier(tmp_path)
    del tier
    gc.collect()
    assert owners(tmp_path) == []


def test_fork_when_the_child_ends_then_the_parents_files_stay(tmp_path: Path) -> None:
    """A child removes nothing of its parent's, neither by closing nor at its end."""
    tier = DiskTier(tmp_path)
    parked = tier.begin_park(take_image(torch.ones(3))).finish()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        parked.discard()
        tier.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    OwnedFolder(tmp_path).close()  # the parent's lock holds
    assert parked.begin_restore().finish().tolist() == [1, 1, 1]
    tier.close()


def test_process_when_killed_while_parking_then_its_files_are_removed_and_no_others(
    tmp_path: Path,
) -> None:
    """Ten children killed at random moments: each one's files go, those of the living stay."""
    mine = DiskTier(tmp_path)
    value = torch.arange(5000)
    parked = mine.begin_park(take_image(value)).finish()
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("kill_helper.py")), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as helper:
        assert helper.stdin is not None
        assert helper.stdout is not None

        def ask(command: str) -> str:
            print(command, file=helper.stdin, flush=True)
            answer = helper.stdout.readline().strip()  # type: ignore[union-attr]
            assert answer, f"no answer to {command}"
            return answer

        seen_files = 0
        for _ in range(10):
            child = ask("fork")
            time.sleep(random.uniform(0, 0.02))
            os.kill(int(child), signal.SIGKILL)
            assert ask(f"reap {child}") == "reaped"
            left = [name for name in owners(tmp_path) if name.startswith(f"owner-{child}-")]
            assert len(left) == 1
            seen_files += len(list((tmp_path / left[0]).iterdir())) - 1
            OwnedFolder(tmp_path).close()
            assert owners(tmp_path) == [mine._folder.path.name]
            assert torch.equal(parked.begin_restore().finish(), value)
        assert seen_files >= 10  # at the least the file that each had finished
        theirs = Path(ask("own"))
        OwnedFolder(tmp_path).close()
        assert ask("check") == "good"
        assert theirs.is_dir()
        helper.stdin.close()
        assert helper.wait(20) == 0
    assert owners(tmp_path) == [mine._folder.path.name]  # the helper's end removed its own
    mine.close()


def test_folder_when_it_cannot_be_made_then_the_error_names_it(tmp_path: Path) -> None:
    """A folder under a file is refused with its path."""
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match=r"open .*file/x \(disk tier\): Not a directory; "):
        DiskTier(tmp_path / "file" / "x")
