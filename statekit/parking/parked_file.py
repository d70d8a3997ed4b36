"""One file of parked bytes: a head with its identity, then the bytes as they were in memory.

Owns the layout, and the reading and writing of a head. Not here: names and folders
(`statekit.parking.folder`), the bytes (`statekit.bulk`), threads (`statekit.parking.disk`).

    F1  A file is read only if it is the one that was written: its length, the identity in its
        head and the checksum of its bytes are known to the process, not to the file.

There is no `fsync`: a crash of the machine ends the process too, and with it the recipe without
which the bytes mean nothing.
"""

from __future__ import annotations

import os
import stat
import struct

from statekit.bulk.parts import DamagedFileError, read_part, write_part

__all__ = ["HEAD_NBYTES", "check_head", "write_head"]

HEAD_NBYTES = 4096  # a page, so that the bytes behind it are aligned
_HEAD = struct.Struct("<8s16sQ")
_MAGIC = b"statekit"


def write_head(fd: int, identity: bytes, nbytes: int) -> None:
    """Write the head of a file for `nbytes`. Raises: OSError."""
    head = _HEAD.pack(_MAGIC, identity, nbytes).ljust(HEAD_NBYTES, b"\0")
    write_part(fd, memoryview(head), 0)


def check_head(fd: int, identity: bytes, nbytes: int) -> None:
    """Return if this is the file that was written.

    Raises:
        DamagedFileError: it is another file, or too short or too long.
        OSError: from the disk.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise DamagedFileError("it is no regular file")
    if status.st_size != HEAD_NBYTES + nbytes:
        wanted = HEAD_NBYTES + nbytes
        raise DamagedFileError(f"it has {status.st_size} bytes, {wanted} were written")
    head = bytearray(HEAD_NBYTES)
    read_part(fd, memoryview(head), 0)
    if _HEAD.unpack_from(head) != (_MAGIC, identity, nbytes):
        raise DamagedFileError("it is another file")
