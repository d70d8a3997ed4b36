"""Coverage: how many intervals lie over each address of a device, and how many bytes lie under any.

Owns the counts, as steps: the addresses at which the number changes, and the number from there on.
Not here: whose the intervals are (`statekit.books.ledger`).

    C1  `nbytes` is the size of the union of the intervals, `doubled` that of where two or more lie.
    C2  A change costs a few look-ups and insertions into short lists, however many intervals there
        are, and grows with the number of others that it overlaps alone.

Not thread-safe; the ledger's lock guards it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

__all__ = ["Coverage"]

_REGION_BITS = 20  # steps are kept in lists by region of 1 MiB


class Coverage:
    """The intervals of one device."""

    __slots__ = ("_after", "_regions", "_steps", "doubled", "nbytes")

    def __init__(self) -> None:
        self.nbytes = 0
        self.doubled = 0
        self._after: dict[int, int] = {}  # step to the number of intervals behind it
        self._steps: dict[int, list[int]] = {}  # region to its steps, rising
        self._regions: list[int] = []  # those that have steps, rising

    def add(self, start: int, end: int) -> None:
        """Lay an interval of at least one byte over what there is."""
        self._change(start, end, 1)

    def remove(self, start: int, end: int) -> None:
        """Take an interval away that was added."""
        self._change(start, end, -1)

    def covered(self, start: int, end: int, times: int) -> int:
        """How many bytes from `start` to `end` lie under exactly `times` intervals."""
        total = 0
        first = start if start in self._after else self._before(start)
        for step, following in self._ranges(start if first is None else first):
            if step >= end:
                break
            if self._after[step] == times:
                total += max(0, min(end, following) - max(start, step))
        return total

    def _change(self, start: int, end: int, by: int) -> None:
        after = self._after
        self._split(start)
        self._split(end)
        for step, following in self._ranges(start):
            if step == end:
                break
            count = after[step]
            after[step] = count + by
            more = max(count, count + by)
            if more == 1:
                self.nbytes += by * (following - step)
            elif more == 2:
                self.doubled += by * (following - step)
        self._join(start)
        self._join(end)

    def _before(self, address: int) -> int | None:
        """The last step before `address`."""
        region = address >> _REGION_BITS
        steps = self._steps.get(region)
        if steps and steps[0] < address:
            return steps[bisect_left(steps, address) - 1]
        place = bisect_left(self._regions, region)
        return self._steps[self._regions[place - 1]][-1] if place else None

    def _ranges(self, start: int) -> Iterator[tuple[int, int]]:
        """Each step from `start`, which is one or has none before it, with the step behind it."""
        place = bisect_left(self._regions, start >> _REGION_BITS)
        last: int | None = None
        while place < len(self._regions):
            steps = self._steps[self._regions[place]]
            for index in range(bisect_left(steps, start), len(steps)):
                if last is not None:
                    yield last, steps[index]
                last = steps[index]
            place += 1

    def _split(self, address: int) -> None:
        if address in self._after:
            return
        before = self._before(address)
        self._after[address] = 0 if before is None else self._after[before]
        region = address >> _REGION_BITS
        steps = self._steps.get(region)
        if steps is None:
            self._steps[region] = [address]
            insort(self._regions, region)
        else:
            insort(steps, address)

    def _join(self, address: int) -> None:
        """Forget a step at which the number does not change."""
        before = self._before(address)
        if self._after[address] != (0 if before is None else self._after[before]):
            return
        del self._after[address]
        region = address >> _REGION_BITS
        steps = self._steps[region]
        del steps[bisect_left(steps, address)]
        if not steps:
            del self._steps[region]
            del self._regions[bisect_left(self._regions, region)]
