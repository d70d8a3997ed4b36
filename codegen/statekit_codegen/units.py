"""How numbers of bytes are written for people: one helper for every command."""

from __future__ import annotations

__all__ = ["format_nbytes"]

_UNITS = (
    ("KiB", 2**10, 1, 2**10),
    ("MiB", 2**20, 2, 2**20 // 10),
    ("GiB", 2**30, 1, 2**30),
    ("TiB", 2**40, 1, 2**40),
    ("PiB", 2**50, 1, 2**50),
    ("EiB", 2**60, 1, 2**60),
)
"""Name, bytes, decimals, and the least number of bytes that is written in it."""


def format_nbytes(nbytes: int) -> str:
    """`nbytes` in binary units, rounded half up: 500 B, 4.0 KiB, 603.28 MiB, 37.7 GiB.

    A number that would round up to the next unit is written in it: never 1024.00 MiB. From a
    tenth of a MiB on it is MiB, so that the figures of a table compare.
    """
    text = f"{nbytes} B"
    written = nbytes
    for name, size, decimals, least in _UNITS:
        if written < least:
            break
        scale = 10**decimals
        rounded = (2 * nbytes * scale + size) // (2 * size)
        text = f"{rounded // scale}.{rounded % scale:0{decimals}d} {name}"
        written = rounded * size // scale
    return text
