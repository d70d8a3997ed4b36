"""Parts: the writing and reading of one piece of memory at one place of a file.

Owns the loops around what a system call may do half. Which memory is one part says
`statekit.bulk.cutting`; which thread moves it, `statekit.bulk.moving`. Needs no torch.

    C1  Bytes are read into the memory where they stay, and written from where they lie.
"""

from __future__ import annotations

import os

__all__ = ["DamagedFileError", "read_part", "write_part"]


class DamagedFileError(Exception):
    """A file is not what was written; who reads it makes the public error of it."""


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
