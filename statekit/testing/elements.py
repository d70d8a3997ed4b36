"""The elements of two arrays of one form: which differ, which first, by which bits, how far.

Owns the arithmetic on bits; knows tensors and arrays, and nothing of containers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import torch

from statekit.spec import Tolerance

__all__ = ["ArrayDifference", "Within", "as_flat_array", "first_bits", "to_bytes"]


_SMALL_NBYTES = 1 << 16


@attrs.frozen
class Within:
    """How many elements differ within the tolerance, and how far they are apart at most."""

    count: int
    max_abs: float

    def joined(self, other: Within) -> Within:
        """Of both together."""
        return Within(self.count + other.count, max(self.max_abs, other.max_abs))


@attrs.frozen
class ArrayDifference:
    """How two arrays of one dtype and shape differ.

    Attributes:
        form: dtype and shape, in words.
        index: of the first element that differs (with a tolerance: that is beyond it).
        got, want: that element of both, as a number.
        got_bits, want_bits: its bits, as hexadecimal digits.
        count: how many elements differ.
        total: of how many.
        beyond: how many of them are beyond the tolerance; `count` without one.
        max_abs: the largest distance of two numbers; None where there is none (a NaN, an infinity).
    """

    form: str
    index: tuple[int, ...]
    got: str
    want: str
    got_bits: str
    want_bits: str
    count: int
    total: int
    beyond: int
    max_abs: float | None

    def __str__(self) -> str:
        return (
            f"element {list(self.index)} of {self.form} is {self.got} ({self.got_bits}), "
            f"want {self.want} ({self.want_bits}); {self.count} of {self.total} differ"
        )


def to_bytes(value: torch.Tensor | npt.NDArray[Any]) -> bytes:
    """The elements' bytes in logical order, whatever the strides and the device."""
    return as_flat_array(value).tobytes()


def as_flat_array(value: torch.Tensor | npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The elements' bytes in logical order, one row for each element."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().resolve_conj().resolve_neg().cpu().reshape(-1).contiguous()
        itemsize = flat.element_size()
        data: npt.NDArray[np.uint8] = flat.view(torch.uint8).numpy()
    else:
        itemsize = value.dtype.itemsize
        data = np.frombuffer(value.tobytes(), np.uint8)
    return data.reshape(-1, itemsize) if itemsize else np.empty((0, 0), np.uint8)


def first_bits(
    got: Any, want: Any, form: Callable[[], str], tolerance: Tolerance | None = None
) -> ArrayDifference | Within | None:
    """The difference between two arrays of one dtype and shape; None where all bits are equal.

    With a tolerance that all differences are within: how many there are. `form` says what they
    are, and is asked where they differ.
    """
    one, other = as_flat_array(got), as_flat_array(want)
    small = one.nbytes < _SMALL_NBYTES  # then a copy takes less time than numpy's call
    if one.tobytes() == other.tobytes() if small else np.array_equal(one, other):
        return None
    differing = (one != other).any(axis=1)
    count = int(differing.sum())
    where = np.flatnonzero(differing)
    distances = _distances(_numbers(got)[where], _numbers(want)[where])
    beyond = where
    if tolerance is not None:
        wanted = np.abs(_numbers(want)[where])
        finite = np.isfinite(wanted)
        allowed = tolerance.atol + tolerance.rtol * np.where(finite, wanted, 0)
        within = finite & (distances <= allowed)  # a NaN is not
        if within.all():
            return Within(count, float(distances.max()))
        beyond = where[~within]
    first = int(beyond[0])
    known = distances[np.isfinite(distances)]
    shape = tuple(want.shape)
    return ArrayDifference(
        form=form(),
        index=tuple(int(part) for part in np.unravel_index(first, shape)) if shape else (),
        got=_number(got, first),
        want=_number(want, first),
        got_bits=_bits(one[first]),
        want_bits=_bits(other[first]),
        count=count,
        total=len(one),
        beyond=len(beyond),
        max_abs=float(known.max()) if len(known) else None,
    )


def _numbers(value: Any) -> npt.NDArray[Any]:
    """The elements as numbers that can be subtracted."""
    if isinstance(value, torch.Tensor):
        wide = torch.complex128 if value.dtype.is_complex else torch.float64
        value = value.detach().cpu().reshape(-1).to(wide).resolve_conj().resolve_neg().numpy()
    flat: npt.NDArray[Any] = np.asarray(value).reshape(-1)
    if flat.dtype.kind in "biuf":
        return flat.astype(np.float64)
    if flat.dtype.kind == "c":
        return flat.astype(np.complex128)
    return np.full(flat.shape, math.nan)  # text, dates, records: no numbers


def _distances(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
    with np.errstate(invalid="ignore", over="ignore"):
        distances: npt.NDArray[Any] = np.abs(one - other)
    return distances


def _number(value: Any, index: int) -> str:
    element = value.reshape(-1)[index]
    return repr(element.item() if hasattr(element, "item") else element)


def _bits(element: npt.NDArray[np.uint8]) -> str:
    digits = f"{int.from_bytes(element.tobytes(), sys.byteorder):0{2 * element.nbytes}x}"
    return f"0x{digits}"
