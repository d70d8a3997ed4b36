"""Whether two tensors or arrays share an element's memory: exactly, strides included.

Owns the question alone. numpy answers it from addresses and strides; nothing is read there, so
addresses of any device will do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["Bounds", "bounds_of", "share_an_element"]

Bounds = tuple[int, int]
"""The first address of a value's elements, and the end of the last one."""


class _Outline:
    """Where the elements of a tensor or an array lie, as numpy asks for it."""

    def __init__(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            nbytes, address = value.element_size(), value.data_ptr()
            self.strides = tuple(stride * nbytes for stride in value.stride())
        else:
            nbytes, address, self.strides = value.itemsize, value.ctypes.data, value.strides
        self.shape, self.nbytes, self.address = tuple(value.shape), nbytes, address
        self.__array_interface__ = {
            "version": 3,
            "shape": self.shape,
            "strides": self.strides,
            "typestr": f"|V{nbytes}",
            "data": (address, True),
        }


def bounds_of(value: Any) -> Bounds | None:
    """The bounds of a tensor or an array; None where it has no elements or no one storage."""
    try:
        if type(value) is torch.Tensor and value.layout is torch.strided and value.is_contiguous():
            address, nbytes = value.data_ptr(), value.numel() * value.element_size()
            return (address, address + nbytes) if address and nbytes else None
        outline = _Outline(value)
    except (RuntimeError, NotImplementedError):  # sparse layouts, wrappers
        return None
    if not outline.address or 0 in outline.shape or not outline.nbytes:
        return None
    reach = [
        (extent - 1) * stride for extent, stride in zip(outline.shape, outline.strides, strict=True)
    ]
    first = outline.address + sum(one for one in reach if one < 0)
    return first, outline.address + sum(one for one in reach if one > 0) + outline.nbytes


def share_an_element(one: Any, other: Any) -> bool:
    """Whether a write into one may change the other; both have bounds."""
    try:
        return bool(np.shares_memory(_array(one), _array(other), max_work=10_000))  # type: ignore[arg-type]
    except RuntimeError:  # too hard to tell
        return True


def _array(value: Any) -> npt.NDArray[Any]:
    return np.asarray(_Outline(value))
