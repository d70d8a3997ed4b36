"""Part: one tensor or array, looked at once, and the cheap test whether it is still the same.

Owns what is seen of it without touching a byte: element type, shape, the memory that holds it and
how much of that it shows. Keeps nothing alive: a tensor is known by a weak reference, an array by
its id and place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import torch

from statekit.books.footprint import Interval
from statekit.checking.arrays import dtype_of
from statekit.walk.torch_memory import data_address, memory_of

__all__ = ["Part", "Shape", "part_of"]

Shape = tuple[int, ...]
WhenGone = Callable[[object], None]


class Part:
    """One tensor or array, as of when it was looked at."""

    __slots__ = ("_id", "_ref", "address", "dtype", "interval", "nbytes", "shape", "view")

    def __init__(
        self,
        array: Any,
        interval: Interval | None,
        nbytes: int,
        view: object,
        address: int,
        when_gone: WhenGone | None,
    ) -> None:
        self.interval = interval
        self.nbytes = nbytes
        self.view = view
        self.shape: Shape = tuple(array.shape)
        self.dtype = dtype_of(array)
        self.address = address
        # numpy cannot resize an array that there is a weak reference to
        self._ref: ref[Any] | None = (
            ref(array, when_gone) if isinstance(array, torch.Tensor) else None
        )
        self._id = id(array)

    @property
    def is_tensor(self) -> bool:
        """Whether it is known by a weak reference."""
        return self._ref is not None

    def holds(self, array: Any) -> bool:
        """Whether this is about `array` as it is now."""
        if self._ref is not None:
            return (
                bool(self._ref() is array)
                and data_address(array) == self.address
                and array.shape == self.shape
                and not array.requires_grad
            )
        return (
            self._id == id(array)
            and type(array) is np.ndarray
            and array.shape == self.shape
            and array.dtype.name == self.dtype
            and _address_of(array) == self.address
        )


def part_of(
    array: Any, when_gone: WhenGone | None = None, *, all_makes: bool = False
) -> Part | None:
    """The part that `array` is; None where its own memory is not all that it leads to.

    Args:
        when_gone: called when a tensor is freed.
        all_makes: what has no plain memory is a part as well, without an interval.
    """
    if type(array) is torch.Tensor:
        plain = (
            array.layout is torch.strided
            and not array.requires_grad
            and array.grad is None
            and not array.__dict__
        )
        if not plain and not all_makes:
            return None
        nbytes = array.numel() * array.element_size()
        if array.layout is not torch.strided:
            return Part(array, None, nbytes, None, 0, when_gone)
        device, start, end = memory_of(array, array.untyped_storage())
        view = (device, start, array.storage_offset(), array.shape, array.stride())
        return Part(array, (device, start, end) if start else None, nbytes, view, start, when_gone)
    if type(array) is np.ndarray and (all_makes or not array.dtype.hasobject):
        owner: Any = array
        while type(owner.base) is np.ndarray:
            owner = owner.base
        here, interval = _address_of(array), None
        if owner.base is None and owner.nbytes and (owner.flags.forc or owner is array):
            start = _address_of(owner)
            interval = ("cpu", start, start + owner.nbytes)
        elif not all_makes and array.nbytes:
            return None
        return Part(array, interval, array.nbytes, (here, array.shape, array.strides), here, None)
    return Part(array, None, getattr(array, "nbytes", 0), None, 0, when_gone) if all_makes else None


def _address_of(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
