"""Comparison bit for bit: types, dtypes, shapes and every byte; never "close enough".

Owns nothing of its own: what "the same" means is the affair of `statekit.testing`. That is loaded
when two values are compared: a pipeline that runs without statekit takes its digests from here.
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
    """The first difference between two values as `place: got, want`, or None if there is none."""
    from statekit.testing import compare

    found = compare(got, want, strides=strides).difference
    return None if found is None else f"{'' if found.path else ': '}{found}"


def assert_same_bits(got: Any, want: Any, what: str = "value", *, strides: bool = False) -> None:
    """Fail with the place of the first difference."""
    found = difference(got, want, strides=strides)
    assert found is None, f"{what}{found}"
