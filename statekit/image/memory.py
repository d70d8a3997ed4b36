"""Pieces of memory that tensors, arrays and bytes lie in, each as one tensor of bytes.

Owns the question which ranges of memory belong together: ranges that overlap are one piece, so
that what shares memory goes on sharing it. Not here: what lies in it (`statekit.image.views`).

    Y1  A piece covers each of its ranges whole; ranges that only touch are two pieces.
    Y2  The tensor of a piece is the live memory: reading it reads what the owners hold now.

Not thread-safe; one image is taken by one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import attrs
import torch

__all__ = ["NoPictureError", "Piece", "Span", "empty_bytes", "merge_spans"]


class NoPictureError(Exception):
    """A value has no picture; the caller makes the public error of it.

    `steps` lead to the value in its tree, once that is known: `(key,)` for an entry, else text.
    """

    def __init__(self, found: str, todo: str) -> None:
        super().__init__(found, todo)
        self.found, self.todo = found, todo
        self.steps: tuple[str | tuple[Any], ...] = ()


@attrs.frozen
class Span:
    """A range of memory: where, from which address, how many bytes (at least one)."""

    device: str
    start: int
    nbytes: int

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.start + self.nbytes


@attrs.frozen
class Piece:
    """The union of ranges that overlap, and the objects that keep it allocated."""

    span: Span
    owners: tuple[tuple[Span, object], ...]

    def as_bytes(self) -> torch.Tensor:
        """The whole piece as a 1-D uint8 tensor over the live memory, which it keeps allocated.

        Raises: NoPictureError.
        """
        for span, owner in self.owners:
            if span == self.span and isinstance(owner, torch.Tensor):
                view = torch.empty(0, dtype=torch.uint8, device=owner.device)
                return view.set_(owner.untyped_storage(), 0, (span.nbytes,), (1,))
        if self.span.device != "cpu":
            found = f"storages on {self.span.device} that overlap in part"
            raise NoPictureError(found, "store clones, or views of one tensor")
        # By address: asking a read-only buffer for its memory would warn or copy.
        memory: Any = (ctypes.c_uint8 * self.span.nbytes).from_address(self.span.start)
        memory.owners = self.owners
        return torch.frombuffer(memory, dtype=torch.uint8)


def merge_spans(owners: Sequence[tuple[Span, object]]) -> list[Piece]:
    """The pieces of these ranges, by device and address."""
    pieces: list[Piece] = []
    group: list[tuple[Span, object]] = []
    end = 0
    for span, owner in sorted(owners, key=lambda item: (item[0].device, item[0].start)):
        if group and (span.device != group[0][0].device or span.start >= end):
            pieces.append(_piece(group, end))
            group = []
        end = max(end, span.end) if group else span.end
        group.append((span, owner))
    if group:
        pieces.append(_piece(group, end))
    return pieces


def _piece(group: list[tuple[Span, object]], end: int) -> Piece:
    first = group[0][0]
    return Piece(Span(first.device, first.start, end - first.start), tuple(group))


def empty_bytes(nbytes: int, device: str | torch.device = "cpu") -> torch.Tensor:
    """A new uint8 tensor that owns `nbytes`, usable in and out of inference mode."""
    with torch.inference_mode(False):
        return torch.empty(nbytes, dtype=torch.uint8, device=device)
