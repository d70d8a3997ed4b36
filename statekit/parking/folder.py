"""The folder of a process's files: whose they are, and what a dead process left behind.

Owns one subfolder per owner, its lock, and the removal of both. A subfolder belongs to a living
process as long as its `lock` file is locked (`flock`): the kernel lets go when the process ends,
however it ends. Not here: what the files hold (`statekit.parking.parked_file`).

    O1  Owners are made and swept under one lock of the whole folder: nobody sees a half-made one.
    O2  Only files named as ours are removed, only in folders named as ours, and no symbolic link
        is followed: each name is looked up in a folder that is open already.
    O3  A forked child does not remove its parent's files.

POSIX only, and a local file system: `flock` over a network is not to be trusted.
Thread-safe.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import uuid
import weakref
from pathlib import Path

__all__ = ["OwnedFolder"]

_OWNER = re.compile(r"owner-[0-9]+-[0-9a-f]{32}")
_OURS = re.compile(r"[0-9a-f]{32}\.(park|tmp)")
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnedFolder:
    """A new subfolder of `parent`, this object's own until it is closed.

    Removed with all its files on `close`, when the object is garbage, at exit of the process, or
    else by the next owner that is made in the same `parent`.

    Args:
        parent: made (0700) where it is missing; several processes may share it.

    Raises:
        OSError: the folder cannot be made, read, or written.
    """

    def __init__(self, parent: str | os.PathLike[str]) -> None:
        root = Path(parent).absolute()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"owner-{os.getpid()}-{uuid.uuid4().hex}"
        self.path = root / name
        self._pid = os.getpid()
        with contextlib.ExitStack() as undo:
            root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            undo.callback(os.close, root_fd)
            gate = os.open("gate", _LOCK_FLAGS, 0o600, dir_fd=root_fd)
            try:
                fcntl.flock(gate, fcntl.LOCK_EX)
                _sweep(root_fd)
                os.mkdir(name, 0o700, dir_fd=root_fd)
                fd = os.open(name, _FOLDER_FLAGS, dir_fd=root_fd)
                undo.callback(os.close, fd)
                lock = os.open("lock", _LOCK_FLAGS, 0o600, dir_fd=fd)
                undo.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX)
            finally:
                os.close(gate)
            undo.pop_all()
        self._fd = fd
        self._close = weakref.finalize(self, _remove, root_fd, name, fd, lock, self._pid)

    @property
    def usable(self) -> bool:
        """Whether it is open, and this is the process that made it."""
        return self._close.alive and os.getpid() == self._pid

    def open(self, name: str, flags: int) -> int:
        """Open a file of this folder, never a symbolic link. Raises: OSError."""
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._fd)

    def rename(self, old: str, new: str) -> None:
        """Rename a file in one step. Raises: OSError."""
        os.replace(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """Remove a file; nothing where it is gone, or the folder closed."""
        if self.usable:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._fd)

    def close(self) -> None:
        """Remove all files and the folder; safe to repeat."""
        self._close()


def _sweep(root_fd: int) -> None:
    """Remove the owners whose lock can be taken: their processes are dead."""
    for name in os.listdir(root_fd):
        if not _OWNER.fullmatch(name):
            continue
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            fd = os.open(name, _FOLDER_FLAGS, dir_fd=root_fd)
            stack.callback(os.close, fd)
            lock = os.open("lock", _LOCK_FLAGS, 0o600, dir_fd=fd)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _empty(root_fd, name, fd)


def _empty(root_fd: int, name: str, fd: int) -> None:
    """Remove our files, the lock last, and the folder unless something of others is in it."""
    for file in os.listdir(fd):
        if _OURS.fullmatch(file):
            with contextlib.suppress(OSError):
                os.unlink(file, dir_fd=fd)
    with contextlib.suppress(OSError):
        os.unlink("lock", dir_fd=fd)
        os.rmdir(name, dir_fd=root_fd)


def _remove(root_fd: int, name: str, fd: int, lock: int, pid: int) -> None:
    if os.getpid() == pid:
        _empty(root_fd, name, fd)
    for each in (lock, fd, root_fd):
        with contextlib.suppress(OSError):
            os.close(each)
