"""Where a snapshot is read from: a file that stays open, or bytes in memory.

Owns the opening and what may be opened. Not here: what the bytes mean (`head`).
Needs no torch.

    S1  Only a regular file that is named itself is opened: no symbolic link, pipe or device, and
        opening never waits. A file that is replaced later is read on as it was.
    S2  Nothing is read beyond the length that the source had when it was opened.
"""

from __future__ import annotations

import errno
import os
import stat
import weakref
from typing import Protocol

from statekit.bulk.parts import DamagedFileError, read_part
from statekit.errors import DamagedSnapshotError, SnapshotError

__all__ = ["Given", "Source", "damaged", "failed", "open_source"]

Given = str | os.PathLike[str] | bytes | bytearray | memoryview
"""A path, or the bytes of a snapshot."""

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_DAMAGED = "restore another snapshot; this one is not as it was written"


class Source(Protocol):
    """Bytes of a known number; any thread may read."""

    place: str
    nbytes: int

    def read(self, part: memoryview, offset: int) -> None:
        """Fill all of `part` from `offset` on. Raises: OSError, DamagedFileError."""

    def close(self) -> None:
        """Let go of it; safe to repeat."""


class _FileSource:
    def __init__(self, path: str) -> None:
        self.place = path
        self._fd = _open(path)
        self.close = weakref.finalize(self, os.close, self._fd)
        status = os.fstat(self._fd)
        self.nbytes = status.st_size
        if not stat.S_ISREG(status.st_mode):
            self.close()
            found = f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'no regular file')}"
            raise DamagedSnapshotError(path, found, "name the file of a snapshot")

    def read(self, part: memoryview, offset: int) -> None:
        if not self.close.alive:
            raise SnapshotError(self.place, "it was closed", "open it again")
        read_part(self._fd, part, offset)


class _MemorySource:
    place = "the given bytes"

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data: memoryview | None = memoryview(data).cast("B")
        self.nbytes = len(self._data)

    def read(self, part: memoryview, offset: int) -> None:
        if self._data is None:
            raise SnapshotError(self.place, "they were closed", "open them again")
        found = self._data[offset : offset + len(part)]
        if len(found) != len(part):
            raise DamagedFileError("it ends too early")
        part[:] = found

    def close(self) -> None:
        self._data = None


def open_source(given: Given) -> Source:
    """The source, open.

    Raises:
        DamagedSnapshotError: it is no regular file.
        SnapshotError: it is not there, or not to be read.
    """
    if isinstance(given, bytes | bytearray | memoryview):
        return _MemorySource(given)
    return _FileSource(os.fspath(given))


def _open(path: str) -> int:
    try:
        return os.open(path, _FLAGS)
    except ValueError as error:  # a NUL, or a surrogate that the file system cannot say
        raise SnapshotError(repr(path), str(error), "name a file that can be") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            found = "it is a symbolic link"
            raise DamagedSnapshotError(path, found, "name the file that it leads to") from None
        raise failed(path, error) from None


def damaged(place: str, found: str) -> DamagedSnapshotError:
    """The error of a snapshot that is not as it was written."""
    return DamagedSnapshotError(place, found, _DAMAGED)


def failed(place: str, error: BaseException) -> SnapshotError:
    """What a failure of the disk or of memory means to whoever reads the log."""
    if not isinstance(error, OSError):
        found = str(error).strip().split("\n")[0] or type(error).__name__
        return SnapshotError(place, found, "free memory, and try again")
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        todo = "free disk space, or name a folder with more"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        todo = "give this process the right to use the folder and the file"
    elif error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG):
        todo = "name a file in a folder that is there"
    else:
        todo = "check the folder and its disk"
    return SnapshotError(place, error.strerror or str(error), todo)
