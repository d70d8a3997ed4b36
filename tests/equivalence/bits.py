"""Comparison bit for bit: types, dtypes, shapes and every byte; never "close enough".

Owns what "the same" means in the tests. NaN payloads and negative zeros count as what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["assert_same_bits", "difference", "to_bytes"]


def to_bytes(value: torch.Tensor | np.ndarray) -> bytes:
    """The elements' bytes in logical order, whatever the strides."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    return value.tobytes()


def difference(got: Any, want: Any, *, strides: bool = False) -> str | None:
    """The first difference between two values as `place: got, want`, or None if there is none.

    Follows lists, tuples and dicts; compares numbers, strings and None by type and value.
    """
    if type(got) is not type(want):
        return f": a {type(got).__name__}, want a {type(want).__name__}"
    if isinstance(want, (torch.Tensor, np.ndarray)):
        return _array_difference(got, want, strides)
    if isinstance(want, (list, tuple)):
        if len(got) != len(want):
            return f": {len(got)} entries, want {len(want)}"
        pairs: Any = enumerate(zip(got, want, strict=True))
    elif isinstance(want, dict):
        if got.keys() != want.keys():
            return f": keys {sorted(got)}, want {sorted(want)}"
        pairs = ((key, (got[key], want[key])) for key in want)
    else:
        return None if got == want else f": {got!r}, want {want!r}"
    for key, (one, other) in pairs:
        found = difference(one, other, strides=strides)
        if found is not None:
            return f"[{key!r}]{found}"
    return None


def _array_difference(got: Any, want: Any, strides: bool) -> str | None:
    aspects = ["dtype", "shape"] + (["device"] if isinstance(want, torch.Tensor) else [])
    for aspect in aspects:
        if getattr(got, aspect) != getattr(want, aspect):
            return f": {aspect} {getattr(got, aspect)}, want {getattr(want, aspect)}"
    if strides and _strides(got) != _strides(want):
        return f": strides {_strides(got)}, want {_strides(want)}"
    if to_bytes(got) != to_bytes(want):
        return f": other bits in a {want.dtype} of shape {tuple(want.shape)}"
    return None


def _strides(value: Any) -> tuple[int, ...]:
    return value.stride() if isinstance(value, torch.Tensor) else value.strides


def assert_same_bits(got: Any, want: Any, what: str = "value", *, strides: bool = False) -> None:
    """Fail with the place of the first difference."""
    found = difference(got, want, strides=strides)
    assert found is None, f"{what}{found}"
