"""Record: what a manager knows of one session beyond what the session itself holds.

Owns the bookkeeping of use (leases, order, time), of bytes (footprints, declared bytes) and of what
is put away (parked units, released values). A session holds its record, the record knows its
session weakly: a session that nobody holds is freed at once, with nothing to collect.

Locks: `transition` is held while values are put away or brought back, `walk` while they are looked
at; neither is ever taken with the manager's lock held.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import ref

import attrs

from statekit.books.footprint import Footprint, Interval
from statekit.books.ledger import Ledger

if TYPE_CHECKING:
    from statekit.pressure.putting_away import ParkedUnit
    from statekit.session import SessionState

__all__ = ["Record", "ValueLimit"]


@attrs.frozen
class ValueLimit:
    """The most bytes that a schema says a value holds; `pattern` matches its keys."""

    name: str
    pattern: re.Pattern[str]
    carried: bool
    nbytes: int


class Record:
    """The bookkeeping of one session.

    Attributes:
        session_id: the id under which the manager knows it.
        leases: how many users there are now.
        managed: whether it is used under leases; only then may anything of it be put away.
        may_be_lost: whether the schema it began with lets it be evicted.
        order: of its last use, rising; used_at: the clock then, in seconds.
        dropped: it ends when the last lease ends.
        declared: declared bytes by device, from the specs it was admitted with.
        units: what is parked, oldest first; the session's own list.
        limits: declared bytes by value, to compare with; reported: values found above them.
        released: keys of objects that were given up and have not been rebuilt.
    """

    __slots__ = (
        "_booked",
        "_handles",
        "_session",
        "attrs",
        "declared",
        "dropped",
        "leases",
        "limits",
        "managed",
        "may_be_lost",
        "objects",
        "order",
        "released",
        "reported",
        "session_id",
        "transition",
        "units",
        "used_at",
        "walk",
    )

    def __init__(self, session: SessionState) -> None:
        self._session = ref(session)
        self.session_id = session.session_id
        self.leases = 0
        self.managed = False
        self.may_be_lost = False
        self.order = 0
        self.used_at = 0.0
        self.dropped = False
        self.declared: Mapping[str, int] = {}
        self.units: list[ParkedUnit] = session.parked
        self.released: set[str] = set()
        self.limits: tuple[ValueLimit, ...] = ()
        self.reported: set[str] = set()
        self.attrs: dict[str, Footprint] = {}
        self.objects: dict[str, Footprint] = {}
        self.transition = threading.RLock()
        self.walk = threading.Lock()
        self._booked: tuple[Interval, ...] = ()
        self._handles: dict[str, int] = {}

    @property
    def session(self) -> SessionState | None:
        """The session, or None once nobody holds it any more."""
        return self._session()

    def may_go(self) -> bool:
        """Whether nobody uses the session, so that something of it may be put away."""
        return self.managed and not self.leases and not self.dropped

    def may_leave(self) -> bool:
        """Whether the session may leave the table to make room for another one."""
        return not self.leases and (not self.managed or self.may_be_lost)

    def refresh(self, ledger: Ledger) -> None:
        """Book what the session occupies now; looks only into what changed since the last time."""
        session = self._session()
        if session is None:
            self.forget(ledger)
            return
        with self.walk:
            changed = _look(self.attrs, session.attrs.copy())
            changed |= _look(self.objects, session.committed())
            if changed:
                self._book(ledger)

    def forget(self, ledger: Ledger) -> None:
        """Book nothing for the session any more, and let go of what is parked."""
        with self.walk:
            self.attrs.clear()
            self.objects.clear()
            self._book(ledger)
        with self.transition:
            for unit in self.units:
                unit.parked.discard()
            self.units.clear()

    def measured(self) -> dict[str, int]:
        """Bytes by device as of the last look; what is parked is not in it."""
        total = dict(self._handles)
        for device, start, end in set(self._booked):
            total[device] = total.get(device, 0) + end - start
        return total

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

    def _book(self, ledger: Ledger) -> None:
        booked: list[Interval] = []
        handles: dict[str, int] = {}
        for footprints in (self.attrs, self.objects):
            for footprint in footprints.values():
                booked += footprint.intervals
                for device, nbytes in footprint.handles.items():
                    handles[device] = handles.get(device, 0) + nbytes
        ledger.rebook(self._booked, booked, self._handles, handles)
        self._booked, self._handles = tuple(booked), handles


def _look(footprints: dict[str, Footprint], values: Mapping[str, Any]) -> bool:
    """Bring the footprints up to date with the values; whether any of them changed."""
    changed = False
    for name, value in values.items():
        footprint = footprints.get(name)
        if footprint is None:
            footprint = footprints[name] = Footprint()
        changed |= footprint.refresh(value)
    if len(footprints) > len(values):
        for name in footprints.keys() - values.keys():
            gone = footprints.pop(name)
            changed |= bool(gone.intervals or gone.handles)
    return changed
