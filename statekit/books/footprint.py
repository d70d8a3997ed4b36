"""Footprint: the memory of one value, remembered, and looked at again only when it changed.

Owns the intervals that a value occupies and the cheap test whether they still hold. A full walk
of a DreamZero session takes tens of microseconds, and a server polls thousands; the test takes a
few hundred nanoseconds a value.

    F1  A footprint holds no value alive: it keeps weak references and numbers.
    F2  The test sees every assignment, every change of a list's or tuple's entries, and every
        write of a StateObject; what else a model does inside a value has to be declared `in_place`,
        and is then walked each time.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import torch

from statekit.accounting import SeenStorages, device_bytes

__all__ = ["Footprint", "Interval"]

Interval = tuple[str, int, int]
"""Device, first address, address behind the last."""

_SCALARS = (type(None), bool, int, float, str)


class Footprint:
    """The memory of one value as of the last look."""

    __slots__ = ("_kind", "_parts", "handles", "intervals")

    def __init__(self) -> None:
        self.intervals: tuple[Interval, ...] = ()
        self.handles: dict[str, int] = {}
        self._kind: type | None = None
        self._parts: Any = None

    def refresh(self, value: Any) -> bool:
        """Look again if `value` is not what was seen last; whether anything was recorded anew."""
        if self.holds(value):
            return False
        seen = SeenStorages()
        total = device_bytes(value, seen)
        intervals = tuple(
            (device, edges[i], edges[i + 1])
            for device, edges in seen._edges.items()
            for i in range(0, len(edges), 2)
        )
        for device, start, end in intervals:
            total[device] -= end - start
        self.handles = {device: count for device, count in total.items() if count}
        changed = intervals != self.intervals
        self.intervals = intervals
        self._remember(value)
        return changed

    def _remember(self, value: Any) -> None:
        kind = type(value)
        self._kind, self._parts = kind, None
        if kind is torch.Tensor:
            self._parts = ref(value)
        elif kind in (list, tuple):
            if all(type(part) is torch.Tensor or part is None for part in value):
                self._parts = [None if part is None else ref(part) for part in value]
            else:
                self._kind = None
        elif kind not in _SCALARS:
            self._kind = None

    def holds(self, value: Any) -> bool:
        """Whether `value` is what was seen last, as far as can be told without looking into it."""
        kind = type(value)
        if kind is not self._kind:
            return kind in _SCALARS and not self.intervals and self._kind in _SCALARS
        if kind is torch.Tensor:
            return self._parts() is value
        if kind in _SCALARS:
            return True
        parts = self._parts
        if len(parts) != len(value):
            return False
        return all(
            (None if part is None else part()) is now
            for part, now in zip(parts, value, strict=False)  # may change meanwhile
        )
