"""What can go wrong while a snapshot is written: `statekit.snapshot_file.temporary` and `sweep`."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit.errors import SnapshotError, UnsavableError
from statekit.snapshot_file import writing
from statekit.snapshot_file.file import open_snapshot, snapshot_bytes, write_snapshot
from statekit.snapshot_file.sweep import sweep, unfinished
from statekit.snapshot_file.temporary import is_temporary

OLD = {"x": torch.zeros(1000)}
NEW = {"x": torch.ones(3 << 20)}
TEMPORARY = f".a.snap.{'0' * 32}.tmp"


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Where a snapshot was written; it must be there, and alone, after whatever a test does."""
    path = tmp_path / "a.snap"
    write_snapshot(path, OLD, {"n": 1})
    yield path
    assert os.listdir(tmp_path) == ["a.snap"]
    with open_snapshot(path) as snapshot:
        assert torch.equal(snapshot.read()["x"], OLD["x"])


def raising(number: int) -> Callable[..., Any]:
    def fail(*args: Any, **named: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


# --- refused before anything is touched ---------------------------------------------------------


class Own:
    """A class of a model's own."""


UNSAVABLE: dict[str, tuple[Any, str]] = {
    "instance": (
        {"attrs": {"kv": [1, 2, 3, Own()]}},
        "attrs.kv[3]: an instance of tests.snapshot_file.test_file_writing.Own cannot be saved; "
        "store its parts as plain values",
    ),
    "graph": (
        {"objects": {"lat": {"a b": [torch.ones(1, requires_grad=True) * 2]}}},
        "objects.lat['a b'][0]: a tensor in an autograd graph cannot be saved; "
        "store tensor.detach()",
    ),
    "function": (
        {"attrs": {(1, 2): print}},
        "attrs[a tuple]: an instance of builtin_function_or_method cannot be saved; "
        "store its parts as plain values",
    ),
    "key": (
        {"attrs": {Own(): 1}},
        "attrs.keys(): an instance of tests.snapshot_file.test_file_writing.Own cannot be saved; "
        "store its parts as plain values",
    ),
    "root": (Own(), "the state: an instance of tests.snapshot_file.test_file_writing.Own cannot be "
             "saved; store its parts as plain values"),
    "deep key": (
        {"attrs": {__import__("functools").reduce(lambda k, _: (k,), range(300), 1): 1}},
        "attrs: it has a key or member of tuples nested too deep; "
        "store a copy, or simpler values",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("value", "message"), UNSAVABLE.values(), ids=UNSAVABLE)
def test_value_when_it_cannot_be_saved_then_it_is_named_and_nothing_touched(
    path: Path, value: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error leads to the part; no file was opened."""
    with monkeypatch.context() as patch, pytest.raises(UnsavableError) as caught:
        patch.setattr(os, "open", raising(errno.EIO))
        write_snapshot(path, value, {})
    assert str(caught.value) == message
    with pytest.raises(UnsavableError):
        snapshot_bytes(value, {})


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"a": [1, {"b": object()}]}, "about.a[1].b: is an instance of object"),
        ({"a": float("inf")}, "about.a: is inf"),
        ({"a": 2**64}, "about.a: is a number beyond 64 bits"),
        ({3: 1}, "about: has a key of type int"),
        ({"a": {"b": b"x"}}, "about.a.b: is an instance of bytes"),
        ({"a": CYCLE}, "about.a" + "[0]" * 24 + "[: is nested too deep"),
    ],
    ids=["instance", "infinity", "large_number", "number_as_key", "bytes", "cycle"],
)
def test_about_when_json_cannot_say_it_then_it_is_named(
    path: Path, about: Any, message: str
) -> None:
    """What is said of a snapshot is of the closed set too."""
    with pytest.raises(UnsavableError) as caught:
        write_snapshot(path, {}, about)
    assert str(caught.value) == (
        f"{message}; pass text, numbers, truth values, None, and lists and dicts of such"
    )


def test_head_when_longer_than_readers_take_then_it_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value of more parts than a header can name is refused before a file is made."""
    monkeypatch.setattr("statekit.snapshot_file.head_text.MAX_HEADER_NBYTES", 5000)
    with pytest.raises(UnsavableError, match="5000 is the most"):
        write_snapshot(path, list(range(1000)), {})


# --- disks --------------------------------------------------------------------------------------


def test_write_when_the_disk_is_full_then_the_old_file_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left of a file for which there was no room, at whatever byte it ended."""
    write = os.pwrite
    for limit in (0, 100, 5 << 20):

        def full(fd: int, part: memoryview, offset: int, limit: int = limit) -> int:
            if offset + len(part) > limit:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(fd, part, offset)

        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(SnapshotError) as caught:
            write_snapshot(path, NEW, {})
        assert str(caught.value) == (
            f"{path}: No space left on device; free disk space, or name a folder with more"
        )


def test_write_when_there_is_no_room_then_not_a_byte_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is too full is found out before the first byte."""
    with monkeypatch.context() as patch, pytest.raises(SnapshotError, match="free disk space"):
        patch.setattr(os, "pwrite", raising(errno.EIO))
        patch.setattr(os, "posix_fallocate", raising(errno.ENOSPC))
        write_snapshot(path, NEW, {})


def test_write_when_room_cannot_be_set_aside_then_it_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that cannot set room aside is as good as one that can."""
    monkeypatch.setattr(os, "posix_fallocate", raising(errno.EOPNOTSUPP))
    write_snapshot(tmp_path / "a", NEW, {})
    with open_snapshot(tmp_path / "a") as snapshot:
        assert torch.equal(snapshot.read()["x"], NEW["x"])


def test_write_when_the_kernel_refuses_more_then_the_old_file_is_there(path: Path) -> None:
    """A limit of the kernel's on the size of files ends a write as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6 << 20, hard))
    try:
        with pytest.raises(SnapshotError, match="File too large; free disk space"):
            write_snapshot(path, NEW, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("call", "number", "todo"),
    [
        ("open", errno.EROFS, "give this process the right"),
        ("open", errno.EACCES, "give this process the right"),
        ("open", errno.ENOENT, "name a file in a folder that is there"),
        ("fsync", errno.EIO, "check the folder and its disk"),
        ("fsync", errno.ENOSPC, "free disk space"),
        ("replace", errno.EXDEV, "check the folder and its disk"),
        ("pwrite", errno.EDQUOT, "free disk space"),
    ],
)
def test_write_when_a_call_fails_then_the_old_file_is_there(
    path: Path, call: str, number: int, todo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever step fails, the error says why and what to do."""
    with monkeypatch.context() as patch, pytest.raises(SnapshotError) as caught:
        patch.setattr(os, call, raising(number))
        write_snapshot(path, NEW, {})
    assert caught.value.place == str(path)
    assert caught.value.found == os.strerror(number)
    assert caught.value.todo.startswith(todo)


def test_write_when_writes_are_partial_then_the_file_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes and gives a few bytes at a time changes nothing."""
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda fd, part, at: write(fd, part[:70_007], at))
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at: read(fd, [parts[0][:70_009]], at))
    write_snapshot(tmp_path / "a", NEW, {})
    with open_snapshot(tmp_path / "a") as snapshot:
        assert torch.equal(snapshot.read()["x"], NEW["x"])


def test_write_when_interrupted_then_the_old_file_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt goes on to the caller, and leaves nothing behind."""

    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "write_part", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_snapshot(path, NEW, {})


def test_write_when_memory_ends_then_the_old_file_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No memory is a typed error, for a file and for bytes."""

    def none(*args: Any) -> Any:
        raise MemoryError("cannot allocate")

    monkeypatch.setattr(writing, "move_now", none)
    for write in (lambda: write_snapshot(path, NEW, {}), lambda: snapshot_bytes(NEW, {})):
        with pytest.raises(SnapshotError, match="cannot allocate; free memory"):
            write()


def test_write_when_asked_then_the_bytes_reach_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is synced before it gets its name, and the folder after."""
    steps: list[str] = []
    fsync, replace, write = os.fsync, os.replace, os.pwrite

    def note_fsync(fd: int) -> None:
        steps.append("folder" if os.path.isdir(f"/proc/self/fd/{fd}") else "file")
        fsync(fd)

    def note_replace(*args: Any, **named: Any) -> None:
        steps.append("name")
        replace(*args, **named)

    def note_write(fd: int, part: memoryview, offset: int) -> int:
        steps.append("head" if offset == 0 else "data")
        return write(fd, part, offset)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    monkeypatch.setattr(os, "pwrite", note_write)
    write_snapshot(tmp_path / "a", OLD, {})
    assert steps == ["data", "head", "file", "name", "folder"]
    del steps[:]
    write_snapshot(tmp_path / "a", OLD, {}, fsync=False)
    assert steps == ["data", "head", "name"]


def test_write_when_flushing_early_fails_then_the_old_file_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk's error comes up wherever it is told first; it is told but once."""
    monkeypatch.setattr(writing, "_FLUSH_NBYTES", 4 << 20)
    with monkeypatch.context() as patch, pytest.raises(SnapshotError, match="Input/output error"):
        patch.setattr(os, "fdatasync", raising(errno.EIO))
        write_snapshot(path, NEW, {})


def test_write_when_flushed_early_then_the_file_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flushing in between changes nothing in the file."""
    monkeypatch.setattr(writing, "_FLUSH_NBYTES", 4 << 20)
    write_snapshot(tmp_path / "a", NEW, {})
    with open_snapshot(tmp_path / "a") as snapshot:
        assert torch.equal(snapshot.read()["x"], NEW["x"])


# --- paths --------------------------------------------------------------------------------------


def test_write_when_the_name_is_a_link_then_only_the_link_is_replaced(tmp_path: Path) -> None:
    """Nothing is written through a symbolic link."""
    outside = tmp_path / "outside"
    outside.write_text("kept")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a.snap").symlink_to(outside)
    write_snapshot(inside / "a.snap", OLD, {})
    assert outside.read_text() == "kept"
    assert not (inside / "a.snap").is_symlink()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "missing/a", "folder", "a\0b", "\ud800", "x" * 256]
)
def test_write_when_the_name_cannot_be_a_file_then_nothing_is_written(
    name: str, tmp_path: Path
) -> None:
    """Folders, missing folders and names that no file can have are typed errors."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(SnapshotError):
        write_snapshot(f"{tmp_path}/{name}", OLD, {})
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(tmp_path / "folder") == []


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "new\nline", "-rf", "~", " ", "a.tmp"])
def test_write_when_the_name_is_odd_then_it_is_that_file(name: str, tmp_path: Path) -> None:
    """Any name that a file can have is one for a snapshot."""
    write_snapshot(tmp_path / name, OLD, {})
    assert os.listdir(tmp_path) == [name]
    with open_snapshot(tmp_path / name) as snapshot:
        assert torch.equal(snapshot.read()["x"], OLD["x"])


def test_write_when_the_path_has_no_folder_then_it_is_the_working_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare name is a file in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_snapshot("a.snap", OLD, {})
    assert os.listdir(tmp_path) == ["a.snap"]
    assert (tmp_path / "a.snap").stat().st_mode & 0o777 == 0o600


# --- several writers ----------------------------------------------------------------------------


def test_name_when_several_threads_write_it_then_one_whole_file_is_there(tmp_path: Path) -> None:
    """Whoever is last has the name; a reader at any time gets one writer's value whole."""
    path = tmp_path / "a.snap"
    write_snapshot(path, {"x": torch.zeros(50_000, dtype=torch.int32)}, {})
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for _ in range(10):
                value = torch.full((50_000,), number, dtype=torch.int32)
                write_snapshot(path, {"x": value}, {"n": number}, fsync=False)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    reads = 0
    while any(thread.is_alive() for thread in threads) or not reads:
        with open_snapshot(path) as snapshot:
            found = snapshot.read()["x"]
            assert found.unique().tolist() == [snapshot.about.get("n", 0)]
        sweep(tmp_path)
        reads += 1
    assert errors == []
    assert os.listdir(tmp_path) == ["a.snap"]


# --- the sweep ----------------------------------------------------------------------------------


def test_sweep_when_writers_are_dead_then_their_files_go_and_no_others(tmp_path: Path) -> None:
    """Only regular files of our form that nobody holds are removed."""
    others = ["a.snap", ".a.snap.tmp", f"a.snap.{'0' * 32}.tmp", f".a.{'0' * 31}.tmp", "notes.txt"]
    for name in others:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / TEMPORARY).write_bytes(b"half a snap")
    link, folder = f".link.{'1' * 32}.tmp", f".folder.{'2' * 32}.tmp"
    (tmp_path / link).symlink_to(tmp_path / "notes.txt")
    (tmp_path / folder).mkdir()
    os.mkfifo(tmp_path / f".pipe.{'3' * 32}.tmp")
    held = f".held.{'4' * 32}.tmp"
    with (tmp_path / held).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert unfinished(tmp_path) == [TEMPORARY]
        assert (tmp_path / TEMPORARY).exists()
        assert sweep(tmp_path) == [TEMPORARY]
        assert sweep(tmp_path) == []
    left = sorted([*others, link, folder, f".pipe.{'3' * 32}.tmp", held])
    assert sorted(os.listdir(tmp_path)) == left
    assert sweep(tmp_path) == [held]


def test_sweep_when_the_folder_is_none_then_it_is_a_typed_error(tmp_path: Path) -> None:
    """A folder that is missing, or is none, cannot be swept."""
    (tmp_path / "file").write_bytes(b"")
    for name in ("missing", "file"):
        with pytest.raises(SnapshotError, match=name):
            sweep(tmp_path / name)


def test_sweep_when_it_comes_before_the_lock_then_it_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was made and is not locked yet is not taken for one of a dead writer."""
    open_, swept = os.open, []
    sweeping = threading.Thread(target=lambda: swept.append(sweep(tmp_path)))

    def begin(name: Any, flags: int, *args: Any, **named: Any) -> int:
        fd = open_(name, flags, *args, **named)
        if flags & os.O_CREAT:
            sweeping.start()
            sweeping.join(0.05)
            assert sweeping.is_alive()
        return fd

    monkeypatch.setattr(os, "open", begin)
    write_snapshot(tmp_path / "a.snap", OLD, {})
    sweeping.join(10)
    assert swept == [[]]
    assert os.listdir(tmp_path) == ["a.snap"]


@pytest.mark.parametrize("name", ["a.snap", "x" * 255, "é" * 127, "new\nline"])
def test_temporary_name_when_made_for_any_name_then_the_sweep_knows_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a snapshot is called, its unfinished file is recognised."""
    monkeypatch.setattr(os, "replace", raising(errno.EIO))
    seen: list[str] = []
    unlink = os.unlink

    def note(name: str, *, dir_fd: int) -> None:
        seen.append(name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", note)
    with pytest.raises(SnapshotError):
        write_snapshot(tmp_path / name, OLD, {})
    assert [is_temporary(one) for one in seen] == [True]
