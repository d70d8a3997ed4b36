"""Record: what a manager knows of one session beyond what the session itself holds.

Owns the bookkeeping of use (leases, order, time), of bytes (footprints, declared bytes) and of what
is put away (parked units, released values). A session holds its record, the record knows its
session weakly: a session that nobody holds is freed at once, with nothing to collect.

Locks: `transition` is held while values are put away or brought back, `walk` while they are looked
at; neither is ever taken with the manager's lock held.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from statekit.books.footprint import HOLD_NO_MEMORY, Footprint, Interval
from statekit.books.ledger import Ledger
from statekit.books.limit import ValueLimit

if TYPE_CHECKING:
    from statekit.objects.engine_handle import EngineHandle
    from statekit.pressure.facts import KnownFacts
    from statekit.pressure.putting_away import ParkedUnit
    from statekit.session import SessionState
    from statekit.state_object import StateObject

__all__ = ["Record"]


class House(Protocol):
    """Where sessions live."""

    def shelter(self, session: SessionState) -> None:
        """Count a session that is in no table, as long as somebody holds it."""


class Record:
    """The bookkeeping of one session.

    Attributes:
        session_id: the id under which the manager knows it.
        leases: how many users there are now.
        uses: how often a use has begun or ended.
        managed: whether it is used under leases; only then may anything of it be put away.
        may_be_lost: whether the schema it began with lets it be evicted.
        order: of its last use, rising; used_at: the clock then, in seconds.
        listed: whether it is in the table.
        dropped: it ends when the last lease ends.
        declared: declared bytes by device, from the spec it was admitted with.
        overrides: the numbers that it was admitted with in place of the spec's.
        staying: those of them that it keeps also while nobody uses it.
        units: what is parked, oldest first; the session's own list.
        limits: declared bytes by value, to compare with; reported: values found above them.
        released: keys of objects that were given up and have not been rebuilt.
        staged: keys of objects that held staged data at the last look.
        version: another number whenever a look found another picture than the one before;
            compared: that of the look which was last compared with `limits`.
        facts: what the planner was told last; kept by `statekit.pressure.facts`.
        missing: what was promised to it while idle; kept by `statekit.pressure.admission`.
        kept: footprints of memory that parked values share, by unit.
        engines: the session's handles, to be closed when nobody holds it any more.
    """

    __slots__ = (
        "_booked",
        "_handles",
        "_house",
        "_looked_at",
        "_measured",
        "_session",
        "attrs",
        "compared",
        "declared",
        "dropped",
        "engines",
        "facts",
        "kept",
        "leases",
        "limits",
        "listed",
        "managed",
        "may_be_lost",
        "missing",
        "objects",
        "order",
        "overrides",
        "released",
        "reported",
        "session_id",
        "staged",
        "staying",
        "transition",
        "units",
        "used_at",
        "uses",
        "version",
        "walk",
    )

    def __init__(self, session: SessionState, house: House | None = None) -> None:
        self._session = ref(session)
        self._house = None if house is None else ref(house)  # which holds the session, and so this
        self.session_id = session.session_id
        self.leases = 0
        self.uses = 0
        self.managed = False
        self.may_be_lost = False
        self.order = 0
        self.used_at = 0.0
        self.listed = False
        self.dropped = False
        self.declared: Mapping[str, int] = {}
        self.overrides: Mapping[str, int] = {}
        self.staying: Mapping[str, int] = {}
        self.units: list[ParkedUnit] = session.parked
        self.released: set[str] = set()
        self.limits: tuple[ValueLimit, ...] = ()
        self.reported: set[str] = set()
        self.attrs: dict[str, Footprint] = {}
        self.objects: dict[str, Footprint] = {}
        self.kept: dict[int, Footprint] = {}
        self.engines: dict[str, EngineHandle[Any]] = {}
        self.transition = threading.RLock()
        self.walk = threading.Lock()
        self.staged: list[str] = []
        self.version = 0
        self.compared = 0
        self.facts: KnownFacts | None = None
        self.missing: tuple[tuple[int, ...], Mapping[str, int]] | None = None
        self._booked: tuple[Interval, ...] = ()
        self._looked_at = 0
        self._handles: dict[str, int] = {}
        self._measured: tuple[tuple[Interval, ...], Mapping[str, int]] | None = None

    @property
    def session(self) -> SessionState | None:
        """The session, or None once nobody holds it any more."""
        return self._session()

    def shelter(self, session: SessionState) -> None:
        """Have a fork of the session counted where the session is."""
        house = None if self._house is None else self._house()
        if house is not None:
            house.shelter(session)

    def may_go(self) -> bool:
        """Whether nobody uses the session, so that something of it may be put away."""
        return self.managed and not self.leases and not self.dropped

    def may_leave(self) -> bool:
        """Whether the session may leave the table to make room for another one."""
        return not self.leases and (not self.managed or self.may_be_lost)

    def was_used(self) -> bool:
        """Whether somebody uses the session or has found it since the last look."""
        return self.leases > 0 or not self.managed or self._looked_at != self.order

    def may_be_evicted(self) -> bool:
        """Whether the session may leave the table for its bytes."""
        return self.listed and self.may_be_lost and self.may_go()

    def refresh(self, ledger: Ledger) -> None:
        """Book what the session occupies now; looks only into what changed since the last time."""
        session = self._session()
        if session is None:
            self.forget(ledger)
            return
        with self.walk:
            self._looked_at = self.order
            attrs = session.attrs.copy()
            carried = {name: one for name, one in attrs.items() if type(one) not in HOLD_NO_MEMORY}
            changed = _look(self.attrs, carried)
            changed |= self._look_at_objects(session.objects)
            if self.units or self.kept:
                changed |= _look(self.kept, {id(unit): unit.kept for unit in tuple(self.units)})
            if changed:
                self._book(ledger)
                self.version += 1

    def forget(self, ledger: Ledger) -> None:
        """Book nothing for the session any more."""
        with self.walk:
            self.attrs.clear()
            self.objects.clear()
            self.kept.clear()
            self._book(ledger)

    def measured(self) -> Mapping[str, int]:
        """Bytes by device as of the last look; what is parked is not in it."""
        booked, handles = self._booked, self._handles
        known = self._measured
        if known is None or known[0] is not booked:
            total = dict(handles)
            for device, start, end in set(booked):
                total[device] = total.get(device, 0) + end - start
            known = self._measured = (booked, total)
        return known[1]

    def exclusive(self, ledger: Ledger) -> dict[str, int]:
        """Bytes by device that the session alone holds, as of the last look."""
        total = ledger.exclusive(self._booked)
        for device, nbytes in self._handles.items():
            total[device] = total.get(device, 0) + nbytes
        return total

    def intervals(self) -> tuple[Interval, ...]:
        """What the values occupied at the last look, once for each value that holds it."""
        return self._booked

    def held_by(self, limit: ValueLimit) -> int:
        """Bytes of one value as of the last look, over all its members."""
        footprints = self.attrs if limit.carried else self.objects
        found = {
            interval
            for name, footprint in tuple(footprints.items())
            if limit.pattern.fullmatch(name)
            for interval in footprint.intervals
        }
        return sum(end - start for _, start, end in found)

    def _look_at_objects(self, objects: Mapping[str, StateObject[Any, Any]]) -> bool:
        footprints = self.objects
        changed = False
        staged = []
        for name, obj in objects.items():
            footprint = footprints.get(name)
            if footprint is None:
                footprint, changed = Footprint(), True
                footprints[name] = footprint
            if obj.staged() is not None:
                staged.append(name)
            written = obj.written  # before what it holds
            if written is None or written is not footprint.written:
                changed |= footprint.refresh(obj.committed(), written)
        if len(footprints) > len(objects):
            changed |= _forget_others(footprints, objects)
        if staged != self.staged:
            self.staged, changed = staged, True
        return changed

    def _book(self, ledger: Ledger) -> None:
        booked: list[Interval] = []
        handles: dict[str, int] = {}
        for footprints in (self.attrs, self.objects, self.kept):
            for footprint in footprints.values():
                booked += footprint.intervals
                for device, nbytes in footprint.handles.items():
                    handles[device] = handles.get(device, 0) + nbytes
        ledger.rebook(self._booked, booked, self._handles, handles)
        self._handles = handles
        self._booked = tuple(booked)


def _look(footprints: dict[Any, Footprint], values: Mapping[Any, Any]) -> bool:
    """Bring the footprints up to date with the values; whether any came, went or changed."""
    changed = False
    for name, value in values.items():
        footprint = footprints.get(name)
        if footprint is None:
            footprint, changed = Footprint(), True
            footprints[name] = footprint
        changed |= footprint.refresh(value)
    if len(footprints) > len(values):
        changed |= _forget_others(footprints, values)
    return changed


def _forget_others(footprints: dict[Any, Footprint], values: Mapping[Any, Any]) -> bool:
    for name in footprints.keys() - values.keys():
        del footprints[name]
    return True
