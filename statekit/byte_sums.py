"""Sums of bytes by device. Needs no torch, so that whoever only computes can add up too."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["merge_bytes"]


def merge_bytes(into: dict[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Add the bytes of `other` to `into`, device by device, and return `into`."""
    for device, nbytes in other.items():
        into[device] = into.get(device, 0) + nbytes
    return into
