"""The ledger: bytes by device over all sessions, kept up to date instead of counted anew.

Owns numbers only: intervals of addresses with how many values hold each, and sums. What a value
occupies is found out by `statekit.books.footprint`.

    L1  `totals()[d]` is the size of the union of all booked intervals on d, plus booked handles.
    L2  An interval that only one value holds is `exclusive`: giving that value up frees it.

Thread-safe, with a lock of its own that guards arithmetic alone.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping

from statekit.accounting import merge_bytes
from statekit.books.footprint import Interval

__all__ = ["Ledger"]


class Ledger:
    """Who occupies which addresses, as counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: Counter[Interval] = Counter()
        self._sorted: dict[str, list[tuple[int, int]]] = {}
        self._sums: dict[str, int] = {}
        self._overlapping: set[str] = set()
        self._handles: dict[str, int] = {}

    def rebook(
        self,
        old: Iterable[Interval],
        new: Iterable[Interval],
        old_handles: Mapping[str, int] | None = None,
        new_handles: Mapping[str, int] | None = None,
    ) -> None:
        """Book `new` in place of `old`, and bytes known by device alone likewise."""
        with self._lock:
            for interval in new:
                self._holders[interval] += 1
                if self._holders[interval] == 1:
                    self._insert(interval)
            for interval in old:
                self._holders[interval] -= 1
                if not self._holders[interval]:
                    del self._holders[interval]
                    self._remove(interval)
            for device, nbytes in (old_handles or {}).items():
                self._handles[device] -= nbytes
            merge_bytes(self._handles, new_handles or {})

    def totals(self) -> dict[str, int]:
        """Bytes by device; devices with none are left out."""
        with self._lock:
            for device in tuple(self._overlapping):
                self._sweep(device)
            total = {device: nbytes for device, nbytes in self._sums.items() if nbytes}
            return merge_bytes(total, {d: n for d, n in self._handles.items() if n})

    def exclusive(self, intervals: Iterable[Interval]) -> dict[str, int]:
        """Bytes by device of those intervals that one value alone holds."""
        total: dict[str, int] = {}
        with self._lock:
            for interval in intervals:
                if self._holders[interval] == 1:
                    device, start, end = interval
                    total[device] = total.get(device, 0) + end - start
        return total

    def _insert(self, interval: Interval) -> None:
        device, start, end = interval
        spans = self._sorted.setdefault(device, [])
        place = bisect_left(spans, (start, end))
        if (place and spans[place - 1][1] > start) or (
            place < len(spans) and spans[place][0] < end
        ):
            self._overlapping.add(device)
        insort(spans, (start, end))
        self._sums[device] = self._sums.get(device, 0) + end - start

    def _remove(self, interval: Interval) -> None:
        device, start, end = interval
        spans = self._sorted[device]
        del spans[bisect_left(spans, (start, end))]
        self._sums[device] -= end - start

    def _sweep(self, device: str) -> None:
        """Sum the union of a device's intervals; if none overlap any more, say so."""
        covered, reached, overlapping = 0, 0, False
        for start, end in self._sorted.get(device, ()):
            if start < reached:
                overlapping = True
            covered += max(0, end - max(start, reached))
            reached = max(reached, end)
        self._sums[device] = covered
        if not overlapping:
            self._overlapping.discard(device)
