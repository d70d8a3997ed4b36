"""Dice: random numbers that are the same on every machine, with every version of Python and numpy.

Owns the stream and the two distributions. Only what is fixed everywhere is used: the raw words of
a PCG64 generator, whole numbers, and the four operations of IEEE arithmetic. A logarithm of the
system's library may differ in its last bit, which is enough to swap two events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dice"]

_Floats = NDArray[np.float64]
_Whole = NDArray[np.int64]

_LN2 = 0.6931471805599453
_ROOT = 0.7071067811865476
_TERMS = 12


class Dice:
    """A stream of random numbers; the same seed gives the same stream."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def uniform(self, count: int) -> _Floats:
        """So many numbers between 0 and 1, neither of them included."""
        words: Any = self._bits.random_raw(count)
        found: _Floats = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return found

    def exponential(self, count: int, mean: float) -> _Whole:
        """So many whole numbers, exponentially distributed, with this mean."""
        found: _Whole = np.floor(_minus_ln(self.uniform(count)) * mean).astype(np.int64)
        return found

    def geometric(self, count: int, mean: float) -> _Whole:
        """So many whole numbers from 1 on, geometrically distributed, with this mean."""
        if mean <= 1:
            return np.ones(count, dtype=np.int64)
        rate = float(_minus_ln(np.array([1.0 - 1.0 / mean]))[0])
        found: _Whole = 1 + np.floor(_minus_ln(self.uniform(count)) / rate).astype(np.int64)
        return found

    def choice(self, count: int, parts: list[int]) -> _Whole:
        """So many places in `parts`, each as often as its part says."""
        edges = np.cumsum(np.array(parts, dtype=np.int64))
        drawn = np.floor(self.uniform(count) * float(edges[-1])).astype(np.int64)
        found: _Whole = np.searchsorted(edges, drawn, side="right").astype(np.int64)
        return found


def _minus_ln(numbers: _Floats) -> _Floats:
    """The negative logarithm of numbers between 0 and 1."""
    parts, powers = np.frexp(numbers)
    low = parts < _ROOT
    parts = np.where(low, parts * 2.0, parts)
    powers = np.where(low, powers - 1, powers)
    ratio = (parts - 1.0) / (parts + 1.0)
    square = ratio * ratio
    total = np.zeros_like(ratio)
    for term in range(_TERMS, -1, -1):  # ln m = 2 (r + r^3/3 + r^5/5 + ...)
        total = total * square + 1.0 / (2 * term + 1)
    found: _Floats = -(powers.astype(np.float64) * _LN2 + 2.0 * ratio * total)
    return found
