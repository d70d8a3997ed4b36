"""A file that is written beside the one it will replace, and is never seen half done.

Owns the temporary file's name, its lock and its end. As long as its writer lives it holds a lock
(`flock`) on it; the kernel lets go when the writer dies, however it dies, and `sweep` knows it by
that. Files are made and swept under one lock of the folder: no sweep sees one that has no lock yet.

    W1  The name is there with all its bytes on the disk, or as it was before.
    W2  What raises leaves no file behind; what is killed leaves one that `is_temporary` names.
    W3  The folder is opened once; nothing outside it is made, and no symbolic link written through.

POSIX only. Thread-safe: each file has one owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import uuid
from collections.abc import Callable, Iterator

from statekit.snapshot_file.source import failed

__all__ = ["gate", "is_temporary", "replace_file"]

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp", re.DOTALL)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_STEM = 200  # of 255 bytes that a name can have


def is_temporary(name: str) -> bool:
    """Whether a file of that name is one that was being written."""
    return _TEMPORARY.fullmatch(name) is not None


def replace_file(path: str, write: Callable[[int], None], *, fsync: bool) -> None:
    """Put a new file at `path`, made by `write` through a descriptor.

    Only the owner may read it. With `fsync` it survives a crash of the machine from now on.

    Raises:
        SnapshotError: it could not be written; what was at `path` is still there. Where only the
            folder could not be synced the new file is, and a crash of the machine can undo it.
    """
    folder, name = os.path.split(path)
    try:
        with contextlib.ExitStack() as stack:
            folder_fd = os.open(folder or ".", _FOLDER)
            stack.callback(os.close, folder_fd)
            _write(folder_fd, name, write, fsync)
    except (OSError, MemoryError, RuntimeError) as error:
        raise failed(path, error) from error
    except ValueError as error:  # a NUL, or a surrogate that the file system cannot say
        raise failed(repr(path), OSError(22, str(error))) from None


def _write(folder_fd: int, name: str, write: Callable[[int], None], fsync: bool) -> None:
    fd, temporary = _open_locked(folder_fd, name)
    try:
        write(fd)
        if fsync:
            os.fsync(fd)
        os.replace(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder_fd)
        raise
    finally:
        os.close(fd)
    if fsync:
        os.fsync(folder_fd)


def _open_locked(folder_fd: int, name: str) -> tuple[int, str]:
    """A new file that is locked before any sweep can see it."""
    stem = os.fsdecode(os.fsencode(name)[:_MAX_STEM])
    temporary = f".{stem}.{uuid.uuid4().hex}.tmp"
    with gate(folder_fd, fcntl.LOCK_SH):
        fd = os.open(temporary, _NEW, 0o600, dir_fd=folder_fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder_fd)
            raise
    return fd, temporary


@contextlib.contextmanager
def gate(folder_fd: int, how: int) -> Iterator[None]:
    """Hold the folder's lock: shared to make a file, alone to sweep. Raises: OSError."""
    fcntl.flock(folder_fd, how)
    try:
        yield
    finally:
        fcntl.flock(folder_fd, fcntl.LOCK_UN)
