"""The sweep of a folder: files that a dead writer left unfinished.

Owns what may be removed: files named as `temporary` names them, whose lock can be taken, so that
nobody is writing them. Finished snapshots and everything of others stay.

POSIX only, and a local file system: `flock` over a network is not to be trusted. Any number of
processes may sweep, write and read one folder at once. A child that was forked while a file was
written holds its lock too: such a file is swept when the child has ended as well.
"""

from __future__ import annotations

import fcntl
import os
import stat

from statekit.snapshot_file.source import failed
from statekit.snapshot_file.temporary import gate, is_temporary

__all__ = ["sweep", "unfinished"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def unfinished(folder: str | os.PathLike[str]) -> list[str]:
    """The names of unfinished files whose writer is dead; nothing is removed.

    Raises:
        SnapshotError: the folder cannot be read.
    """
    return _find(folder, remove=False)


def sweep(folder: str | os.PathLike[str]) -> list[str]:
    """Remove unfinished files whose writer is dead, and return their names.

    A file that this process may not remove stays.

    Raises:
        SnapshotError: the folder cannot be read.
    """
    return _find(folder, remove=True)


def _find(folder: str | os.PathLike[str], *, remove: bool) -> list[str]:
    try:
        folder_fd = os.open(folder, _FOLDER)
        try:
            with gate(folder_fd, fcntl.LOCK_EX):
                names = sorted(filter(is_temporary, os.listdir(folder_fd)))
                return [name for name in names if _take(folder_fd, name, remove=remove)]
        finally:
            os.close(folder_fd)
    except OSError as error:
        raise failed(os.fspath(folder), error) from None


def _take(folder_fd: int, name: str, *, remove: bool) -> bool:
    """Whether it was nobody's any more; False too if it is gone, or may not be removed."""
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode):
            return False
        fd = os.open(name, _FILE, dir_fd=folder_fd)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        now, held = os.stat(name, dir_fd=folder_fd, follow_symlinks=False), os.fstat(fd)
        if (now.st_dev, now.st_ino) != (held.st_dev, held.st_ino):  # finished since
            return False
        if remove:
            os.unlink(name, dir_fd=folder_fd)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
