"""Files as a tier, and all that can happen to them: `statekit.parking.disk`."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit.errors import ParkError
from statekit.image.taking import take_image
from statekit.parking.disk import DiskParked, DiskTier
from tests.parking.trees import assert_same

VALUE = [torch.arange(300_000, dtype=torch.int32), torch.ones(7, dtype=torch.bfloat16), None]


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[DiskTier]:
    tier = DiskTier(tmp_path)
    yield tier
    tier.close()


def park(tier: DiskTier, value: Any = VALUE) -> DiskParked:
    return tier.begin_park(take_image(value)).finish()


def files(tier: DiskTier) -> list[Path]:
    return sorted(path for path in tier._folder.path.iterdir() if path.name != "lock")


def test_file_when_parked_then_it_is_one_with_a_finished_name(tier: DiskTier) -> None:
    """One parked value is one file, and no temporary one is left."""
    parked = park(tier)
    assert [path.suffix for path in files(tier)] == [".park"]
    parked.discard()
    assert files(tier) == []


def test_file_when_not_finished_then_its_name_says_so(tier: DiskTier) -> None:
    """Until `finish` the file has a temporary name."""
    parking = tier.begin_park(take_image(VALUE))
    assert [path.suffix for path in files(tier)] == [".tmp"]
    parking.abort()
    assert files(tier) == []


def test_parked_when_it_is_garbage_then_its_file_is_removed(tier: DiskTier) -> None:
    """A parked value that nobody holds leaves no file behind."""
    parked: Any = park(tier)
    del parked
    gc.collect()
    assert files(tier) == []


# --- damage -----------------------------------------------------------------------------------


def _flip(path: Path, other: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def _swap_words(path: Path, other: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:4104], data[4104:4112] = data[4104:4112], data[4096:4104]
    path.write_bytes(data)


def _zero_sector(path: Path, other: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8192:8704] = bytes(512)
    path.write_bytes(data)


def _truncate(path: Path, other: Path) -> None:
    os.truncate(path, 5000)


def _lengthen(path: Path, other: Path) -> None:
    os.truncate(path, path.stat().st_size + 1)


def _swap(path: Path, other: Path) -> None:
    os.replace(other, path)


def _empty(path: Path, other: Path) -> None:
    path.write_bytes(b"")


def _pipe(path: Path, other: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, other: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (_flip, "its bytes have changed"),
        (_swap_words, "its bytes have changed"),
        (_zero_sector, "its bytes have changed"),
        (_truncate, "it has 5000 bytes, 1204110 were written"),
        (_lengthen, "it has 1204111 bytes, 1204110 were written"),
        (_empty, "it has 0 bytes, 1204110 were written"),
        (_swap, "it is another file"),
        (_pipe, "it is no regular file"),
        (_folder, "it is no regular file"),
    ],
)
def test_file_when_damaged_then_a_restore_says_what_happened(
    tier: DiskTier, harm: Callable[[Path, Path], None], found: str
) -> None:
    """A file that is not what was written is never built into a value."""
    parked = park(tier)
    (path,) = files(tier)
    other = park(tier, [torch.zeros_like(VALUE[0]), torch.ones(7, dtype=torch.bfloat16), None])
    harm(path, next(file for file in files(tier) if file != path))
    with pytest.raises(ParkError) as caught:
        parked.begin_restore().finish()
    assert caught.value.found == f"{path} is damaged: {found}"
    assert caught.value.operation == "restore"
    del other


def test_file_when_removed_by_others_then_a_restore_says_so(tier: DiskTier) -> None:
    """A file that is gone is a ParkError, at the beginning."""
    parked = park(tier)
    files(tier)[0].unlink()
    with pytest.raises(ParkError, match=r"restore .*: No such file .*; keep other programs from"):
        parked.begin_restore()


def test_file_when_replaced_by_a_link_then_it_is_not_followed(
    tier: DiskTier, tmp_path: Path
) -> None:
    """A symbolic link in place of the file is refused, even to the very bytes."""
    parked = park(tier)
    (path,) = files(tier)
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    with pytest.raises(ParkError, match="Too many levels of symbolic links"):
        parked.begin_restore()


def test_restore_when_the_right_to_read_is_lost_then_it_can_be_had_again(
    tier: DiskTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without permission the error says what to give; with it the value is there."""
    parked = park(tier)

    def refuse(*args: Any, **kwargs: Any) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(ParkError, match="Permission denied; give this process the right to"):
            parked.begin_restore()
        with pytest.raises(ParkError, match=r"park .*: Permission denied; give this process"):
            tier.begin_park(take_image(VALUE))
    assert_same(VALUE, parked.begin_restore().finish())


def test_park_when_the_disk_is_full_then_nothing_is_left_and_the_original_is_good(
    tier: DiskTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk in the middle of a file is a ParkError that names the cure."""
    write, written = os.pwrite, [0]

    def full(fd: int, part: memoryview, offset: int) -> int:
        if written[0] > 4096:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(fd, part[: 1 << 19], offset)
        written[0] += count
        return count

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(ParkError) as caught:
            park(tier)
    assert str(caught.value) == (
        "park (disk tier): No space left on device; "
        "free disk space, or give the tier a folder with more"
    )
    assert files(tier) == []
    assert_same(VALUE, park(tier).begin_restore().finish())


def test_park_when_one_thread_fails_then_its_error_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is reported, not that the other threads stopped because of it."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    tier = DiskTier(tmp_path)
    write, failed = os.pwrite, threading.Event()

    def fail(fd: int, part: memoryview, offset: int) -> int:
        if offset > 4096:
            failed.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if offset == 4096:
            assert failed.wait(10)
        return write(fd, part, offset)

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(ParkError, match="No space left on device"):
        park(tier)
    tier.close()


def test_park_when_writes_are_partial_then_the_file_is_whole(
    tier: DiskTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes and gives a few bytes at a time changes nothing."""
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda fd, part, at: write(fd, part[:10_007], at))
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at: read(fd, [parts[0][:10_009]], at))
    assert_same(VALUE, park(tier).begin_restore().finish())


def test_rename_when_it_fails_then_no_file_is_left(
    tier: DiskTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A park that fails at its last step leaves nothing."""

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ParkError, match="Input/output error; check the folder and its disk"):
        park(tier)
    assert files(tier) == []


# --- stopping ---------------------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Writes that wait: one event says that the first has begun, one lets all go on."""
    begun, go_on = threading.Event(), threading.Event()
    write = os.pwrite

    def wait(fd: int, part: memoryview, offset: int) -> int:
        begun.set()
        assert go_on.wait(10)
        return write(fd, part, offset)

    monkeypatch.setattr(os, "pwrite", wait)
    return begun, go_on


def test_begin_park_when_the_disk_is_slow_then_it_returns_at_once(
    tier: DiskTier, slow: tuple[threading.Event, threading.Event]
) -> None:
    """The caller does not wait for the disk before `finish`."""
    begun, go_on = slow
    parking = tier.begin_park(take_image(VALUE))
    assert begun.wait(10)
    go_on.set()
    assert_same(VALUE, parking.finish().begin_restore().finish())


def test_abort_when_a_part_is_being_written_then_it_waits_for_that_part(
    tier: DiskTier, slow: tuple[threading.Event, threading.Event]
) -> None:
    """After `abort` no thread reads the original's memory any more, and no file is left."""
    begun, go_on = slow
    parking = tier.begin_park(take_image(VALUE))
    assert begun.wait(10)
    aborting = threading.Thread(target=parking.abort)
    aborting.start()
    aborting.join(0.05)
    assert aborting.is_alive()
    go_on.set()
    aborting.join(10)
    assert not aborting.is_alive()
    assert files(tier) == []


def test_close_when_a_park_is_under_way_then_it_ends_as_a_failure(
    tier: DiskTier, slow: tuple[threading.Event, threading.Event]
) -> None:
    """Closing stops a park at its next part; the original is good, nothing hangs or is left."""
    begun, go_on = slow
    parking = tier.begin_park(take_image(VALUE))
    waiting = tier.begin_park(take_image(VALUE))
    assert begun.wait(10)
    closing = threading.Thread(target=tier.close)
    closing.start()
    while not tier._closing.is_set():
        pass
    go_on.set()
    closing.join(10)
    for each in (parking, waiting):
        with pytest.raises(ParkError, match="the tier was closed meanwhile; open another one"):
            each.finish()
    assert not tier._folder.path.exists()


def test_tier_when_closed_then_it_takes_and_gives_nothing(tier: DiskTier) -> None:
    """After `close` the folder is gone, and every use says so."""
    parked = park(tier)
    tier.close()
    tier.close()
    assert not tier._folder.path.exists()
    for use in (parked.begin_restore, lambda: tier.begin_park(take_image(VALUE))):
        with pytest.raises(ParkError, match="the tier is closed, or belongs to the parent"):
            use()
    parked.discard()


def test_begin_restore_when_the_loads_are_many_then_all_come_back(tier: DiskTier) -> None:
    """Restores and parks that overlap in time do not mix their bytes."""
    values = [[torch.full((50_000,), n)] for n in range(8)]
    parkings = [tier.begin_park(take_image(value)) for value in values]
    all_parked = [parking.finish() for parking in parkings]
    restorings = [parked.begin_restore() for parked in all_parked]
    for value, restoring in zip(values, restorings, strict=True):
        assert_same(value, restoring.finish())
