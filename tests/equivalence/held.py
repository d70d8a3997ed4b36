"""What a piece of state really holds, found without statekit's accounting.

Owns a second, plain way to count: attributes and containers down to tensors and arrays, and the
storage behind each. The tests compare the manager's reports with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

__all__ = ["held_bytes"]


def held_bytes(*roots: Any) -> dict[str, int]:
    """Bytes by device of the distinct storages below `roots`."""
    storages: dict[tuple[str, int], int] = {}
    todo, met = list(roots), set()
    while todo:
        value = todo.pop()
        if id(value) in met:
            continue
        met.add(id(value))
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            storages[str(storage.device), storage.data_ptr()] = storage.nbytes()
        elif isinstance(value, np.ndarray):
            while isinstance(value.base, np.ndarray):
                value = value.base
            storages["cpu", value.ctypes.data] = value.nbytes
        elif isinstance(value, Mapping):
            todo += value.values()
        elif isinstance(value, (list, tuple)):
            todo += value
        elif hasattr(value, "__dict__"):
            todo += vars(value).values()
    totals: dict[str, int] = {}
    for (device, _), nbytes in storages.items():
        totals[device] = totals.get(device, 0) + nbytes
    return {device: nbytes for device, nbytes in totals.items() if nbytes}
