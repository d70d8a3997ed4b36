"""Footprint: the memory of one value, remembered, and looked at again only when it changed.

Owns the intervals that a value occupies and the cheap test whether they still hold. A full walk
of a DreamZero session takes tens of microseconds, and a server polls thousands; the test takes a
few hundred nanoseconds a value.

    F1  A footprint keeps no value alive: it has ids, addresses, and weak references that say when
        an id may belong to something else.
    F2  The test sees every assignment, every write of a StateObject, every change of the entries of
        a list, tuple or dict of tensors, and every tensor among them that was given other memory.
        Values of other makes are walked each time: those of deeper structure, tensors of an
        autograd graph, arrays (which numpy cannot resize any more once a weak reference exists).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from weakref import ref

import numpy as np
import torch

from statekit.accounting import SeenStorages, device_bytes
from statekit.walk.torch_memory import data_address, memory_of

__all__ = ["HOLD_NO_MEMORY", "Footprint", "Interval"]

Interval = tuple[str, int, int]
"""Device, first address, address behind the last."""

HOLD_NO_MEMORY: Final = frozenset({type(None), bool, int, float, str})
"""Types of values of which nothing is recorded."""


class Footprint:
    """The memory of one value as of the last look."""

    __slots__ = (
        "_addresses",
        "_gone",
        "_ids",
        "_kind",
        "_refs",
        "handles",
        "intervals",
        "written",
    )

    def __init__(self) -> None:
        self.intervals: tuple[Interval, ...] = ()
        self.handles: dict[str, int] = {}
        self.written: object | None = None
        """`StateObject.written` as of the last look, where that alone tells whether it changed."""
        self._kind: type | None = type(None)
        self._ids: list[int] = []
        self._addresses: list[int] = []
        self._refs: list[ref[torch.Tensor]] = []
        self._gone: list[object] = []

    def refresh(self, value: Any, written: object | None = None) -> bool:
        """Look again if `value` is not what was seen last; whether anything was recorded anew.

        Args:
            written: `StateObject.written`, read before `value` was.
        """
        if self.holds(value, written):
            return False
        # What is remembered must be what is counted, whoever changes the value meanwhile.
        counted = value.copy() if type(value) in (list, dict) else value
        parts = _parts(counted)
        tensors = None if parts is None else [part for part in parts if part is not None]
        plain = tensors is not None and all(map(_is_plain, tensors))
        if tensors is not None and plain:
            intervals, handles = _intervals_of(tensors), dict[str, int]()
        else:
            intervals, handles = _count(counted)
        changed = (intervals, handles) != (self.intervals, self.handles)
        self.intervals, self.handles = intervals, handles
        self._kind, self.written, self._gone, self._refs = None, None, [], []
        if type(value) in HOLD_NO_MEMORY:
            self._kind = type(value)
        elif parts is None or tensors is None:
            pass
        elif written is not None and all(_is_plain(one) or _is_array(one) for one in tensors):
            self._kind, self.written = type(value), written
        elif plain:
            self._kind = type(value)
            self._ids = [*map(id, parts)]
            self._addresses = [*map(data_address, tensors)]
            gone = self._gone.append
            self._refs = [ref(tensor, gone) for tensor in tensors]
        return changed

    def holds(self, value: Any, written: object | None = None) -> bool:
        """Whether `value` is what was seen last, as far as can be told without looking into it."""
        kind = type(value)
        if kind in HOLD_NO_MEMORY:
            return self._kind in HOLD_NO_MEMORY
        if kind is not self._kind:
            return False
        if self.written is not None:
            return written is self.written
        if kind is torch.Tensor:
            parts: tuple[Any, ...] = (value,)
        else:
            parts = tuple(value.values() if kind is dict else value)
        # An id is only good as long as its first owner lives: asked while `parts` hold the present
        # ones, so that none can come to such an id between the two questions.
        return (
            self._ids == [*map(id, parts)]
            and not self._gone
            and self._addresses == [data_address(part) for part in parts if part is not None]
        )

    def unchanged(self, value: Any) -> bool:
        """Whether `value` is what was seen last, with a look into it where nothing else tells."""
        return not self.refresh(value) if self._kind is None else self.holds(value)


def _parts(value: Any) -> tuple[Any, ...] | None:
    """A tensor, or the entries of a list, tuple or dict; None for other kinds."""
    kind = type(value)
    if kind is torch.Tensor:
        return (value,)
    if kind is list or kind is tuple:
        return tuple(value)
    if kind is dict and all(type(key) is str for key in value):
        return tuple(value.values())
    return None


def _is_plain(value: Any) -> bool:
    """Whether a tensor's storage is all the memory that it leads to."""
    return (
        type(value) is torch.Tensor
        and value.layout is torch.strided
        and not value.requires_grad
        and value.grad is None
        and not value.__dict__
    )


def _is_array(value: Any) -> bool:
    return type(value) is np.ndarray and not value.dtype.hasobject


def _intervals_of(tensors: Iterable[torch.Tensor]) -> tuple[Interval, ...]:
    """The storages; those that overlap as one, those that only touch apart, as others hold them."""
    merged: list[Interval] = []
    for device, start, end in sorted({memory_of(one, one.untyped_storage()) for one in tensors}):
        if merged and merged[-1][0] == device and start < merged[-1][2]:
            merged[-1] = (device, merged[-1][1], max(end, merged[-1][2]))
        elif start:
            merged.append((device, start, end))
    return tuple(merged)


def _count(value: Any) -> tuple[tuple[Interval, ...], dict[str, int]]:
    """The intervals of any value, and bytes that are known by device alone."""
    seen = SeenStorages()
    total = device_bytes(value, seen)
    intervals = tuple(
        (device, edges[i], edges[i + 1])
        for device, edges in seen._edges.items()
        for i in range(0, len(edges), 2)
    )
    for device, start, end in intervals:
        total[device] -= end - start
    return intervals, {device: count for device, count in total.items() if count}
