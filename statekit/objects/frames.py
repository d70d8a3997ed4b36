"""Pieces of a history along an axis: which may be joined, and which frames of them stay.

Owns what a ring of frames does to its pieces; holds nothing. A piece is a tensor or an array, or a
tuple of such with the same number of frames each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from statekit.errors import PayloadError

__all__ = ["check_piece", "frames_in", "newest_frames", "without_frames"]


def check_piece(
    item: Any, axis: int | None, newest: Sequence[Any], owner: str = "LatentBuffer"
) -> None:
    """Refuse what cannot be kept: None, and in a ring of frames what is no piece like the `newest`.

    The reader joins the pieces, so one that does not fit would make every later read fail.

    Raises:
        PayloadError: at `owner`.
    """
    if item is None:
        raise PayloadError(owner, "None", "append an item")
    if axis is None:
        return
    if not isinstance(item, (torch.Tensor, np.ndarray)):
        found = f"a {type(item).__name__}"
        raise PayloadError(owner, found, "append a tensor or an array")
    if not -item.ndim <= axis < item.ndim:
        todo = f"append an item whose axis {axis} counts frames"
        raise PayloadError(owner, f"{item.ndim} dimensions", todo)
    for last in newest:
        if not _same_form(item, last) and _kind(item, axis) != _kind(last, axis):
            raise PayloadError(
                owner,
                f"{_kind(item, axis)} after {_kind(last, axis)}",
                f"append pieces that differ along axis {axis} alone, or replace the history",
            )


def _same_form(item: Any, last: Any) -> bool:
    """Whether nothing at all differs but the content; the usual case, told fast."""
    return (
        type(item) is type(last)
        and item.shape == last.shape
        and item.dtype == last.dtype
        and (isinstance(item, np.ndarray) or item.device == last.device)
    )


def _kind(item: Any, axis: int) -> str:
    """All in which a piece must agree with those that it is joined with, for the message too."""
    shape = list(item.shape)
    shape[axis] = "frames"
    place = item.device if isinstance(item, torch.Tensor) else "numpy"
    return f"({', '.join(map(str, shape))}) {item.dtype} on {place}"


def newest_frames(items: list[Any], maxlen: int, axis: int) -> list[Any]:
    """The newest `maxlen` frames along `axis`; an item that is cut is copied.

    Items without frames are dropped, so that they can't pile up; the newest stays if all are.
    """
    full = [item for item in items if item.shape[axis]]
    gone = sum(item.shape[axis] for item in full) - maxlen
    return without_frames(full, 0, gone, axis) or items[-1:]


def frames_in(item: Any, axis: int) -> int:
    """How many frames a piece has."""
    first = item[0] if isinstance(item, tuple) else item
    frames: int = first.shape[axis]
    return frames


def without_frames(items: Sequence[Any], start: int, count: int, axis: int) -> list[Any]:
    """All but the `count` frames behind the first `start` along `axis`, in a new list.

    An item of which only a part stays is replaced by a copy of that, so that it does not hold the
    storage of the rest.
    """
    if count <= 0:
        return list(items)
    kept: list[Any] = []
    begins = 0
    for index, item in enumerate(items):
        if begins >= start + count:
            kept += items[index:]
            break
        frames = frames_in(item, axis)
        ends = begins + frames
        before = min(frames, max(0, start - begins))
        behind = min(frames - before, max(0, ends - start - count))
        if before + behind == frames:
            kept.append(item)
        elif before + behind:
            kept.append(_ends_of(item, before, behind, axis))
        begins = ends
    return kept


def _ends_of(item: Any, before: int, behind: int, axis: int) -> Any:
    """A copy of the first `before` and the last `behind` frames of `item`."""
    if isinstance(item, tuple):
        return tuple(_ends_of(part, before, behind, axis) for part in item)
    begins = item.shape[axis] - behind
    if isinstance(item, torch.Tensor):
        parts = [item.narrow(axis, 0, before), item.narrow(axis, begins, behind)]
        return torch.cat(parts, dim=axis) if before and behind else parts[not before].clone()
    index = [slice(None)] * item.ndim
    arrays = []
    for part in (slice(0, before), slice(begins, None)):
        index[axis] = part
        arrays.append(item[tuple(index)])
    return np.concatenate(arrays, axis=axis) if before and behind else arrays[not before].copy()
