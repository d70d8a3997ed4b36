"""Facts: what one value is at one moment, as far as can be seen without touching a byte of it.

Owns the look at tensors and arrays: element type, shape, device, the memory that holds them and
the part of it that they show. A tensor, an array, and a list or tuple of them, is looked at part by
part, and each part once: a history that grows costs no more than what was added. Other makes have
the bytes of `statekit.books.footprint`, and shapes as deep as lists, tuples and dicts go.

    A1  Nothing is kept alive: of a tensor there is a weak reference, of an array its id and place.
    A2  Facts are good until the next look at the same key, and the very same object where that
        finds nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import attrs

from statekit.accounting import SeenStorages
from statekit.books.footprint import HOLD_NO_MEMORY, Footprint, Interval
from statekit.checking.arrays import arrays_of
from statekit.measure.part import Part, Shape, part_of
from statekit.walk.torch_memory import data_address

__all__ = ["NO_FACTS", "Facts", "Watched", "joined"]


@attrs.frozen(eq=False)
class Facts:
    """One value, or one member of it, at one moment.

    Attributes:
        written: whether it is anything but None, or empty.
        nbytes: bytes by device, each piece of memory once.
        intervals: the memory that it holds.
        handles: bytes that are known by device alone; in `nbytes` too.
        dtypes: of its tensors and arrays.
        shapes: of those that are no part of a container deeper than one list.
        shown: of each interval, the bytes that its tensors and arrays show.
        partly: the intervals that they do not show all of.
        items: how many entries it has, where it is a list.
        frames: the sum of the entries' extents along a ring's axis.
        largest_item: bytes of the largest entry's elements.
    """

    written: bool = False
    nbytes: Mapping[str, int] = attrs.field(factory=dict)
    intervals: Set[Interval] = frozenset()
    handles: Mapping[str, int] = attrs.field(factory=dict)
    dtypes: Set[str] = frozenset()
    shapes: Set[Shape] = frozenset()
    shown: Mapping[Interval, int] = attrs.field(factory=dict)
    partly: Set[Interval] = frozenset()
    items: int = 0
    frames: int = 0
    largest_item: int = 0


_MANY = 16
"""From so many parts on it pays to ask first whether all of them are the same."""

NO_FACTS = Facts()
_PLAIN = Facts(written=True)


class Watched:
    """One key of a session: its last facts, and a look that only sees what changed."""

    __slots__ = ("_addresses", "_footprint", "_gone", "_ids", "_parts", "_sum", "_written", "facts")

    def __init__(self) -> None:
        self.facts = NO_FACTS
        self._written: object | None = None
        self._parts: list[Part | None] = []
        self._ids: list[int] = []
        self._addresses: list[int] = []
        self._gone: list[object] = []
        self._sum: _Sum | None = None
        self._footprint: Footprint | None = None

    def look(
        self,
        value: Any,
        written: object | None = None,
        axis: int | None = None,
        tell: Callable[[Facts], Facts] | None = None,
    ) -> Facts:
        """The facts of `value`.

        Args:
            written: `StateObject.written`, read before the value was.
            axis: along which a ring counts frames.
            tell: corrects new facts.
        """
        if written is not None and written is self._written:
            return self.facts
        before = self.facts
        if type(value) in HOLD_NO_MEMORY:
            self._forget()
            self.facts = NO_FACTS if value is None else _PLAIN
        elif not self._look_at_parts(value, axis):
            self._look_at_all(value, written, axis)
        if tell is not None and self.facts is not before:
            self.facts = tell(self.facts)
        self._written = written
        return self.facts

    def _forget(self) -> None:
        self._parts, self._sum, self._footprint = [], None, None
        self._ids, self._addresses = [], []

    def _look_at_parts(self, value: Any, axis: int | None) -> bool:
        """Look at a value part by part; whether it is of a make for that."""
        many = type(value) is list or type(value) is tuple
        entries = tuple(value) if many else (value,)
        known = self._parts
        start = self._unchanged(entries)
        parts = known[:start]
        if not start:
            self._gone.clear()
        same = min(len(known), len(entries))
        for index in range(start, len(entries)):
            entry = entries[index]
            part = known[index] if index < len(known) else None
            if entry is None:
                same = same if part is None else min(same, index)
                parts.append(None)
                continue
            if part is None or not part.holds(entry):
                same = min(same, index)
                part = part_of(entry, self._gone.append)
                if part is None:
                    return False
            parts.append(part)
        added = parts[same:]
        total = self._sum
        if total is not None and same == len(known) and not any(added):
            if len(parts) == len(known):
                self._parts = parts
                return True
        elif total is None or same < len(known):
            total, added = _Sum(axis), parts[:]
        self._footprint = None
        for one in added:
            if one is not None:
                total.add(one)
        self._parts, self._sum = parts, total
        self._remember(entries, start)
        self.facts = total.facts(len(entries) if many else 0)
        return True

    def _unchanged(self, entries: tuple[Any, ...]) -> int:
        """How many parts are known to be the same without a look at each: all of them, or none.

        An id is an object's own as long as that lives, and `_gone` says when one does not.
        """
        count = len(self._ids)
        if count < _MANY or self._gone or count > len(entries):
            return 0
        same = entries[:count]
        if self._ids != [*map(id, same)] or self._addresses != [*map(data_address, same)]:
            return 0
        return count

    def _remember(self, entries: tuple[Any, ...], start: int) -> None:
        """What `_unchanged` needs to know, where all parts are tensors; the first ones it knows."""
        if start != len(self._ids):
            start = 0
        if start == 0:
            self._ids, self._addresses = [], []
        new = self._parts[start:]
        if all(part is not None and part.is_tensor for part in new):
            self._ids += map(id, entries[start:])
            self._addresses += (part.address for part in new if part is not None)
        else:
            self._ids, self._addresses = [], []

    def _look_at_all(self, value: Any, written: object | None, axis: int | None) -> None:
        """Look at a value of any other make."""
        footprint = self._footprint
        if footprint is None:
            self._forget()
            footprint = self._footprint = Footprint()
        elif footprint.holds(value, written):
            return
        footprint.refresh(value, written)
        total = _Sum(axis)
        for path, array in arrays_of(value):
            part = part_of(array, all_makes=True)
            assert part is not None
            total.add(part, shaped=path.count("[") < 2)
        found = total.facts(len(value) if isinstance(value, (list, tuple)) else 0)
        nbytes = dict(footprint.handles)
        for device, start, end in footprint.intervals:
            nbytes[device] = nbytes.get(device, 0) + end - start
        self.facts = attrs.evolve(
            found,
            written=bool(nbytes or found.written or _holds_something(value)),
            nbytes=nbytes,
            intervals=frozenset(footprint.intervals),
            handles=dict(footprint.handles),
        )


def _holds_something(value: Any) -> bool:
    return bool(value) if isinstance(value, (list, tuple, dict, set)) else True


class _Sum:
    """The facts of several parts, as they come."""

    def __init__(self, axis: int | None) -> None:
        self._axis = axis
        self._nbytes: dict[str, int] = {}
        self._intervals: set[Interval] = set()
        self._seen = SeenStorages()
        self._dtypes: set[str] = set()
        self._shapes: set[Shape] = set()
        self._shown: dict[Interval, int] = {}
        self._partly: set[Interval] = set()
        self._views: set[object] = set()
        self._frames = self._largest = 0
        self._any = False

    def add(self, part: Part, *, shaped: bool = True) -> None:
        """One more part."""
        self._any = True
        self._dtypes.add(part.dtype)
        self._largest = max(self._largest, part.nbytes)
        if shaped:
            self._shapes.add(part.shape)
            axis = self._axis
            if axis is not None and -len(part.shape) <= axis < len(part.shape):
                self._frames += part.shape[axis]
        place = part.interval
        if place is None or part.view in self._views:
            return
        self._views.add(part.view)
        device, start, end = place
        if place not in self._intervals:
            self._intervals.add(place)
            new = self._seen.cover(device, start, end - start, None)
            self._nbytes[device] = self._nbytes.get(device, 0) + new
        shown = self._shown[place] = min(end - start, self._shown.get(place, 0) + part.nbytes)
        if shown < end - start:
            self._partly.add(place)
        else:
            self._partly.discard(place)

    def facts(self, items: int) -> Facts:
        """What there is now; good until the next part comes."""
        return Facts(
            written=self._any,
            nbytes=dict(self._nbytes),
            intervals=self._intervals,
            dtypes=self._dtypes,
            shapes=self._shapes,
            shown=self._shown,
            partly=self._partly,
            items=items,
            frames=self._frames,
            largest_item=self._largest,
        )


def joined(parts: Iterable[Facts]) -> Facts:
    """The facts of several members as those of one value."""
    parts = tuple(parts)
    handles: dict[str, int] = {}
    nbytes: dict[str, int] = {}
    shown: dict[Interval, int] = {}
    intervals: set[Interval] = set()
    for part in parts:
        for device, count in part.handles.items():
            handles[device] = handles.get(device, 0) + count
            nbytes[device] = nbytes.get(device, 0) + count
        for interval in part.intervals - intervals:
            device, start, end = interval
            nbytes[device] = nbytes.get(device, 0) + end - start
        intervals |= part.intervals
        for interval, count in part.shown.items():
            shown[interval] = min(interval[2] - interval[1], shown.get(interval, 0) + count)
    return Facts(
        written=any(part.written for part in parts),
        nbytes=nbytes,
        intervals=intervals,
        handles=handles,
        dtypes=set().union(*(part.dtypes for part in parts)),
        shapes=set().union(*(part.shapes for part in parts)),
        shown=shown,
        partly={one for one, count in shown.items() if count < one[2] - one[1]},
        items=max(part.items for part in parts),
        frames=max(part.frames for part in parts),
        largest_item=max(part.largest_item for part in parts),
    )
