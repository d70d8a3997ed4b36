"""The ledger: bytes by device over all sessions, kept up to date instead of counted anew.

Owns numbers only: intervals of addresses with how many values hold each, and sums. What a value
occupies is found out by `statekit.books.footprint`.

    L1  `totals()[d]` is the size of the union of all booked intervals on d, plus booked handles.
    L2  What only the values in question hold is `exclusive`: giving them all up frees it.

Thread-safe, with a lock of its own that guards arithmetic alone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

from statekit.accounting import merge_bytes
from statekit.books.coverage import Coverage
from statekit.books.footprint import Interval

__all__ = ["Ledger"]


class Ledger:
    """Who occupies which addresses, as counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[Interval, int] = {}
        self._shared: set[Interval] = set()
        self._coverage: dict[str, Coverage] = {}
        self._handles: dict[str, int] = {}

    def rebook(
        self,
        old: Iterable[Interval],
        new: Iterable[Interval],
        old_handles: Mapping[str, int] | None = None,
        new_handles: Mapping[str, int] | None = None,
    ) -> None:
        """Book `new` in place of `old`, and bytes known by device alone likewise."""
        change = Counter(new)
        change.subtract(Counter(old))
        with self._lock:
            # What goes first: what comes may lie where it was.
            for interval, count in change.items():
                if count < 0:
                    self._book(interval, count)
            for interval, count in change.items():
                if count > 0:
                    self._book(interval, count)
            for device, nbytes in (old_handles or {}).items():
                self._handles[device] -= nbytes
            merge_bytes(self._handles, new_handles or {})

    def totals(self) -> dict[str, int]:
        """Bytes by device; devices with none are left out."""
        with self._lock:
            total = {device: one.nbytes for device, one in self._coverage.items() if one.nbytes}
            return merge_bytes(total, {d: n for d, n in self._handles.items() if n})

    def holds_alone(self, intervals: frozenset[Interval]) -> bool:
        """Whether each of these, which are booked, is held once and overlaps with nothing."""
        with self._lock:
            if not self._shared.isdisjoint(intervals):
                return False
            if not any(one.doubled for one in self._coverage.values()):
                return True
            return all(
                self._coverage[device].covered(start, end, 1) == end - start
                for device, start, end in intervals
            )

    def exclusive(self, intervals: Iterable[Interval]) -> dict[str, int]:
        """Bytes by device that nothing but these holds, each as often as it is named here."""
        total: dict[str, int] = {}
        with self._lock:
            edges: dict[str, Counter[int]] = {}
            for interval, count in Counter(intervals).items():
                if self._holders.get(interval) == count:
                    device, start, end = interval
                    edges.setdefault(device, Counter()).update({start: 1})
                    edges[device].subtract({end: 1})
            for device, steps in edges.items():
                coverage, mine, start = self._coverage[device], 0, 0
                for end in sorted(steps):
                    if mine:
                        nbytes = coverage.covered(start, end, mine)
                        total[device] = total.get(device, 0) + nbytes
                    mine, start = mine + steps[end], end
        return {device: nbytes for device, nbytes in total.items() if nbytes}

    def _book(self, interval: Interval, count: int) -> None:
        """So many values more hold the interval."""
        device, start, end = interval
        before = self._holders.get(interval, 0)
        after = before + count
        if after:
            self._holders[interval] = after
        else:
            del self._holders[interval]
        if not before:
            self._coverage.setdefault(device, Coverage()).add(start, end)
        elif not after:
            self._coverage[device].remove(start, end)
        if after > 1:
            self._shared.add(interval)
        else:
            self._shared.discard(interval)
