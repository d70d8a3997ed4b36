"""Codec: the form in which a store keeps its values, and the way back.

Owns the protocol, and the one codec that a schema can name. Others may be written by whoever builds
a store by hand; a snapshot refuses those, because nothing says how to read their form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import attrs
import numpy as np
import torch

from statekit.errors import PayloadError

__all__ = ["Cast", "Codec"]


class Codec(Protocol):
    """How values are kept."""

    def encode(self, value: Any, /) -> Any:
        """The form of `value` that is kept; it may share memory with it."""

    def decode(self, kept: Any, /) -> Any:
        """The value of that form; `kept` stays as it is."""


def _require_floating(cast: Cast, attribute: Any, dtype: Any) -> None:
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype must be a torch.dtype, got {dtype!r}")
    if not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating-point type, got {dtype}")


@attrs.frozen
class Cast:
    """Keeps floating-point tensors and arrays in another dtype; all else as it is.

    What is read has the dtype that was stored, and its bits, where the other dtype has all of its
    numbers; else they are rounded as a conversion in torch rounds them. Follows (named) tuples,
    lists and dicts.

    Raises:
        TypeError: `dtype` is no torch dtype.
        ValueError: it is no floating-point one.
    """

    dtype: torch.dtype = attrs.field(validator=_require_floating)

    def encode(self, value: Any, /) -> tuple[Any, tuple[Any, ...]]:
        """The value in the dtype, and the dtypes that its parts had, in order.

        Raises:
            PayloadError: numpy has no such dtype.
        """
        dtypes: list[Any] = []

        def cast(part: Any) -> Any:
            dtypes.append(part.dtype if isinstance(part, torch.Tensor) else part.dtype.str)
            if isinstance(part, torch.Tensor):
                return part.to(self.dtype)
            return part.astype(_array_dtype(self.dtype), copy=False)

        return _mapped(value, cast), tuple(dtypes)

    def decode(self, kept: tuple[Any, tuple[Any, ...]], /) -> Any:
        """The value in the dtypes that it had."""
        value, dtypes = kept
        left = iter(dtypes)

        def back(part: Any) -> Any:
            dtype = next(left)
            return part.to(dtype) if isinstance(part, torch.Tensor) else part.astype(dtype)

        return _mapped(value, back)

    def made(self, kept: Any) -> bool:
        """Whether `kept`, which comes from a file, is a form that `encode` makes."""
        if type(kept) is not tuple or len(kept) != 2 or type(kept[1]) is not tuple:
            return False
        value, dtypes = kept
        parts = list(_floating(value))
        if len(parts) != len(dtypes):
            return False
        for part, dtype in zip(parts, dtypes, strict=True):
            if isinstance(part, torch.Tensor):
                was_floating = isinstance(dtype, torch.dtype) and dtype.is_floating_point
                fits = part.dtype == self.dtype and was_floating
            else:
                fits = part.dtype == _array_dtype(self.dtype) and dtype in _ARRAY_DTYPES
            if not fits:
                return False
        return True


_ARRAY_DTYPES = frozenset({f"{order}f{size}" for order in "<>" for size in (2, 4, 8)})


def _array_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    name = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(name)
    except TypeError:
        found = f"an array, and numpy has no {name}"
        raise PayloadError("Cast", found, "store tensors, or cast to float16") from None


def _is_floating(part: Any) -> bool:
    if isinstance(part, torch.Tensor):
        return part.dtype.is_floating_point
    return isinstance(part, np.ndarray) and part.dtype.str in _ARRAY_DTYPES


def _floating(value: Any) -> Iterator[Any]:
    """The parts of `value` that a cast changes, in order."""
    found: list[Any] = []

    def note(part: Any) -> Any:
        found.append(part)
        return part

    _mapped(value, note)
    return iter(found)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` in place of each floating-point part."""
    if _is_floating(value):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(part, change) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [_mapped(part, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
