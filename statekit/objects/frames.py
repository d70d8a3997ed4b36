"""Pieces of a history along an axis: which may be joined, and the newest frames of them.

Owns what a ring of frames does to tensors and arrays; holds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from statekit.errors import PayloadError

__all__ = ["check_piece", "newest_frames"]


def check_piece(item: Any, axis: int | None, newest: Sequence[Any]) -> None:
    """Refuse what cannot be kept: None, and in a ring of frames what is no piece like the `newest`.

    The reader joins the pieces, so one that does not fit would make every later read fail.
    """
    if item is None:
        raise PayloadError("LatentBuffer", "None", "append an item")
    if axis is None:
        return
    if not isinstance(item, (torch.Tensor, np.ndarray)):
        found = f"a {type(item).__name__}"
        raise PayloadError("LatentBuffer", found, "append a tensor or an array")
    if not -item.ndim <= axis < item.ndim:
        todo = f"append an item whose axis {axis} counts frames"
        raise PayloadError("LatentBuffer", f"{item.ndim} dimensions", todo)
    for last in newest:
        if not _same_form(item, last) and _kind(item, axis) != _kind(last, axis):
            raise PayloadError(
                "LatentBuffer",
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
    kept: list[Any] = []
    room = maxlen
    for item in reversed(items):
        frames = item.shape[axis]
        if frames > room:
            kept.append(_last_frames(item, room, axis))
            room = 0
        elif frames:
            kept.append(item)
            room -= frames
        if not room:
            break
    return kept[::-1] or items[-1:]


def _last_frames(item: Any, count: int, axis: int) -> Any:
    """A copy of the last `count` frames of `item`."""
    if isinstance(item, torch.Tensor):
        return item.narrow(axis, item.shape[axis] - count, count).clone()
    index = [slice(None)] * item.ndim
    index[axis] = slice(-count, None)
    return item[tuple(index)].copy()
