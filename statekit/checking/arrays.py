"""The tensors and arrays of a value, and its containers, with the path to each.

Owns the order in which a value is looked through. Each container is looked into once, so that one
that holds itself ends too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

__all__ = ["arrays_of", "device_of", "dtype_of", "is_array", "parts_of"]


def is_array(value: Any) -> bool:
    """Whether `value` is a tensor or an array."""
    return isinstance(value, (torch.Tensor, np.ndarray))


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """`value` and all parts below it, each after its container, with paths such as `[2]['k']`."""
    met: set[int] = set()
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        path, part = todo.pop()
        yield path, part
        if isinstance(part, (list, tuple, deque)):
            inner: list[tuple[str, Any]] = [
                (f"{path}[{index}]", one) for index, one in enumerate(tuple(part))
            ]
        elif isinstance(part, dict):
            inner = [(f"{path}[{key!r}]", one) for key, one in tuple(part.items())]
        else:
            continue
        if id(part) not in met:
            met.add(id(part))
            todo += reversed(inner)


def arrays_of(value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors and arrays of `value`, with their paths."""
    if is_array(value):
        return iter([("", value)])
    return ((path, part) for path, part in parts_of(value) if is_array(part))


def device_of(array: Any) -> str:
    """Where it lies, as schemas say it."""
    if not isinstance(array, torch.Tensor) or array.is_cpu:
        return "cpu"
    return str(array.device)


def dtype_of(array: Any) -> str:
    """Its element type, by the name that torch and numpy share."""
    if isinstance(array, torch.Tensor):
        return str(array.dtype).removeprefix("torch.")
    return str(array.dtype.name)
