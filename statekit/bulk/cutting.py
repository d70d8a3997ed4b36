"""Cutting: storages as parts of one size, each to be moved and summed in one go.

Owns where a storage is cut. Not here: the moving (`statekit.bulk.moving`).

    D1  Every storage begins a part of its own, and only its last one is shorter than
        `PART_NBYTES`: wherever the pieces lie in memory, parts and checksums are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from statekit.bulk.checksum import PART_NBYTES

__all__ = ["cut", "part_count"]


def part_count(nbytes: int) -> int:
    """How many parts a storage is cut into."""
    return -(-nbytes // PART_NBYTES)


def cut(
    storages: Iterable[Iterable[torch.Tensor]], offset: int
) -> Iterator[tuple[int, memoryview]]:
    """Place in the file and memory of each part, for storages that begin at `offset`.

    Wherever the storages, given in pieces, are cut: checksums are per part.
    """
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
