"""Every kind of object, with payloads for it: the table that the contract is asked of.

Owns one line for each kind, and for each way of allocating it that changes what it does. The next
kind is one more line; the tests are `tests/test_objects_contract.py` (life and bytes),
`tests/capture/test_kinds.py` (steps, forks, snapshots) and `tests/parking/test_kinds.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from statekit.objects import (
    Cast,
    EncodeOnce,
    FixedState,
    HeldValue,
    LatentBuffer,
    RetrievalStore,
    WindowedKV,
)

__all__ = ["FRAME", "KINDS", "Kind", "copied", "each_kind"]

FRAME = 3 * 4
"""Bytes of one frame of a payload: 3 elements of 4 bytes."""


def tensor(start: int) -> torch.Tensor:
    """2 frames, which no other payload of another `start` has."""
    return torch.arange(start, start + 6, dtype=torch.float32).reshape(2, 3)


def array(start: int) -> Any:
    """As `tensor`, of numpy."""
    return tensor(start).numpy()


def parts(start: int) -> dict[str, torch.Tensor]:
    """By name."""
    return {"one": tensor(start), "two": tensor(start + 50)}


def pair(start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values."""
    return tensor(start), tensor(start + 50)


def entry(start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A key of one frame, and a value."""
    return tensor(start)[0].clone(), tensor(start + 50)


@attrs.frozen
class Kind:
    """One kind of object, allocated in one way, and payloads for it.

    Attributes:
        new: makes an unallocated one.
        sizes: what it is allocated with.
        payload: one payload; as large as all others.
        nbytes: bytes of one, committed.
        own: those of them that belong to the object, also where the payload is another's.
        listed: whether the view is a list of payloads, not the newest one.
        once: whether a second payload is refused.
        starts_full: whether it holds zeros before the first payload.
    """

    new: Callable[[], Any]
    sizes: dict[str, Any] = attrs.field(factory=dict)
    payload: Callable[[int], Any] = tensor
    nbytes: int = 2 * FRAME
    own: int = 0
    listed: bool = False
    once: bool = False
    starts_full: bool = False

    def make(self, **more: Any) -> Any:
        """One that is allocated and empty."""
        return self.new().allocate(**{**self.sizes, **more})

    def full(self) -> Any:
        """One with committed data and, where that may be, staged data."""
        obj = self.make()
        obj.append(self.payload(1))
        if not self.once:
            obj.stage(self.payload(2))
        return obj

    def write(self, obj: Any, value: int) -> None:
        """Change what it holds."""
        if self.once:
            obj.clear()
        obj.append(self.payload(value))

    @property
    def empty(self) -> Any:
        """The view of one that is empty."""
        if self.starts_full:
            return torch.zeros(2, 3)
        return [] if self.listed else None

    @property
    def empty_nbytes(self) -> int:
        """Bytes of one that is empty."""
        return self.nbytes if self.starts_full else 0

    def shown(self, payload: Any) -> Any:
        """The view of one with one payload."""
        return [payload] if self.listed else payload


SHAPED = {"shape": (2, 3), "dtype": torch.float32}
HALF = Cast(torch.float16)

KINDS = {
    "buffer_unbounded": Kind(LatentBuffer, listed=True),
    "buffer_ring_of_items": Kind(LatentBuffer, {"maxlen": 2}, listed=True),
    "buffer_ring_of_frames_torch": Kind(LatentBuffer, {"maxlen": 3, "axis": 0}, listed=True),
    "buffer_ring_of_frames_numpy": Kind(
        LatentBuffer, {"maxlen": 3, "axis": -2}, array, listed=True
    ),
    "buffer_changed_in_place": Kind(LatentBuffer, {"update": "in_place"}, listed=True),
    "encode_once": Kind(EncodeOnce, once=True),
    "held_replaced": Kind(HeldValue),
    "held_entries": Kind(HeldValue, {"update": "entries"}),
    "held_in_place": Kind(HeldValue, {"update": "in_place"}),
    "fixed_state": Kind(FixedState, SHAPED, own=2 * FRAME, starts_full=True),
    "fixed_state_sized_by_payload": Kind(FixedState, own=2 * FRAME),
    "fixed_state_of_parts": Kind(FixedState, {}, parts, 4 * FRAME, own=4 * FRAME),
    "window_unbounded": Kind(WindowedKV),
    "window_of_tensors": Kind(WindowedKV, {"bound": 3, "sink": 1}),
    "window_of_pairs": Kind(WindowedKV, {"bound": 3, "axis": -2}, pair, 4 * FRAME),
    "store_unbounded": Kind(RetrievalStore, {}, entry, 3 * FRAME, listed=True),
    "store_of_items": Kind(RetrievalStore, {"bound": 2}, entry, 3 * FRAME, listed=True),
    "store_of_bytes": Kind(RetrievalStore, {"nbytes": 80}, entry, 3 * FRAME, listed=True),
    "store_in_half": Kind(
        RetrievalStore, {"codec": HALF}, entry, 2 * FRAME, own=FRAME, listed=True
    ),
}

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def copied(value: Any) -> Any:
    """The value with copies of its tensors and arrays."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(copied, value))
    return value
