"""One file of parked bytes: a head with its identity, then the bytes as they were in memory.

Owns the layout, and the reading and writing of a head and of a part. Not here: names and folders
(`statekit.parking.folder`), checksums (`statekit.parking.checksum`), threads
(`statekit.parking.disk`).

    F1  A file is read only if it is the one that was written: its length, the identity in its
        head and the checksum of its bytes are known to the process, not to the file.
    F2  Bytes are read into the memory where they stay, and written from where they lie.

There is no `fsync`: a crash of the machine ends the process too, and with it the recipe without
which the bytes mean nothing.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Sequence

import torch

from statekit.parking.checksum import PART_NBYTES

__all__ = [
    "HEAD_NBYTES",
    "DamagedFileError",
    "check_head",
    "cut",
    "read_part",
    "write_head",
    "write_part",
]

HEAD_NBYTES = 4096  # a page, so that the bytes behind it are aligned
_HEAD = struct.Struct("<8s16sQ")
_MAGIC = b"statekit"


class DamagedFileError(Exception):
    """A file is not what was written; the tier makes the public error of it."""


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


def write_part(fd: int, part: memoryview, offset: int) -> None:
    """Write all of `part` at `offset`. Raises: OSError."""
    while part:
        count = os.pwrite(fd, part, offset)
        part, offset = part[count:], offset + count


def read_part(fd: int, part: memoryview, offset: int) -> None:
    """Fill all of `part` from `offset` on. Raises: OSError, DamagedFileError."""
    while part:
        count = os.preadv(fd, [part], offset)
        if not count:
            raise DamagedFileError("it ends too early")
        part, offset = part[count:], offset + count


def cut(storages: Sequence[Sequence[torch.Tensor]]) -> Iterator[tuple[int, memoryview]]:
    """Place in the file and memory of each part: every storage in parts of one size.

    Wherever the storages, given in pieces, are cut: checksums are per part.
    """
    offset = HEAD_NBYTES
    for pieces in storages:
        begun: list[torch.Tensor] = []
        room = PART_NBYTES
        for piece in pieces:
            while piece.numel():
                begun.append(piece[:room])
                room -= begun[-1].numel()
                piece = piece[begun[-1].numel() :]
                if not room:
                    yield offset, _join(begun)
                    offset += PART_NBYTES
                    begun, room = [], PART_NBYTES
        if begun:
            yield offset, _join(begun)
            offset += PART_NBYTES - room


def _join(pieces: list[torch.Tensor]) -> memoryview:
    """The live memory where it is in one piece, else a copy."""
    whole = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
    return whole.numpy().data
