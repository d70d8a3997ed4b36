"""A picture of a manager, for the live view.

Owns what is read for it and how much of it is shown, and the memory of what happened; takes no lock
that a request waits for, as a scrape (`statekit.watch.metrics`).
"""

from __future__ import annotations

import heapq
import itertools
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from statekit.accounting import merge_bytes
from statekit.books.record import Record
from statekit.errors import PolicyError
from statekit.events import Event, Leased, Rebuilt, Saved
from statekit.pressure.explain import explain
from statekit.pressure.plan import Plan
from statekit.watch import wire
from statekit.watch.inside import clock_of, looked_at, relief_of, table_of
from statekit.watch.logs import is_warning, message_of, name_of
from statekit.watch.names import OTHER
from statekit.watch.picture import Device, Happening, Picture, Session, Value
from statekit.watch.sources import REMEMBERED, happening
from statekit.watch.wire import MAX_ID, MAX_TOP, Ask

if TYPE_CHECKING:
    from statekit.manager import SessionStateManager

__all__ = ["ManagerSource", "take"]

_TOO_OFTEN = (Leased, Rebuilt, Saved)
"""Events that are no news."""


class ManagerSource:
    """Shows one manager, and keeps it not alive.

    The manager never waits: what happens to it is put into a bounded memory.
    """

    def __init__(self, manager: SessionStateManager, name: str) -> None:
        self._name = name
        self._manager = weakref.ref(manager)
        self._heard: deque[tuple[float, Event]] = deque(maxlen=REMEMBERED)
        self._happened: deque[Happening] = deque(maxlen=REMEMBERED)
        self._number = itertools.count(1)
        self.close: Callable[[], None] = manager.subscribe(self._hear)

    def answer(self, ask: wire.Ask) -> bytes:
        """A picture of the manager as it is now."""
        manager = self._manager()
        if manager is None:
            return wire.error_line("the manager is gone")
        while self._heard:
            at, event = self._heard.popleft()
            number, text = next(self._number), message_of(event)
            self._happened.append(happening(number, at, name_of(event), is_warning(event), text))
        return wire.answer_line(take(manager, ask, self._name, self._happened))

    def _hear(self, event: Event) -> None:
        if not isinstance(event, _TOO_OFTEN):
            self._heard.append((time.time(), event))


def take(
    manager: SessionStateManager, ask: Ask, name: str, happenings: Iterable[Happening]
) -> Picture:
    """What was asked for, now."""
    records = looked_at(manager)
    table, relief = table_of(manager), relief_of(manager)
    now = clock_of(manager)()
    used, parked = relief.used(), relief.parked()
    devices = sorted({*used, *manager.budgets})
    sessions = [_session(record, now) for record in records]
    return Picture(
        pid=os.getpid(),
        name=name,
        session_count=len(records),
        max_sessions=table.max_sessions,
        leases=sum(record.leases for record in records),
        hits=table.hits,
        misses=table.misses,
        evictions=table.evictions,
        devices=tuple(Device(one, used.get(one, 0), manager.budgets.get(one)) for one in devices),
        parked=parked,
        sessions=_first(sessions, ask),
        happenings=tuple(one for one in happenings if one.number > ask.since),
        values_of=ask.values_of,
        values=None if ask.values_of is None else _values(manager, records, ask.values_of),
    )


def _first(sessions: list[Session], ask: Ask) -> tuple[Session, ...]:
    """As many as were asked for, in the order that was asked for."""
    if ask.sort == "id":
        return tuple(heapq.nsmallest(ask.top, sessions, key=lambda one: one.session_id))
    order: dict[str, Callable[[Session], float]] = {
        "bytes": lambda one: one.total,
        "idle": lambda one: one.idle_s or 0.0,
        "leases": lambda one: one.leases,
    }
    return tuple(heapq.nlargest(ask.top, sessions, key=order[ask.sort]))


def _session(record: Record, now: float) -> Session:
    nbytes, parked = dict(record.measured()), dict[str, int]()
    for unit in tuple(record.units):
        merge_bytes(nbytes, unit.nbytes_by_device)
        parked[unit.tier] = parked.get(unit.tier, 0) + unit.nbytes
    session = record.session
    specs = () if session is None else session.adopted.specs
    idle_s = 0.0 if record.leases else max(0.0, now - record.used_at)
    return Session(
        session_id=_cut(record.session_id),
        model=min((spec.model for spec in specs), default=OTHER),
        leases=record.leases,
        idle_s=idle_s if record.managed else None,
        listed=record.listed,
        nbytes={device: count for device, count in nbytes.items() if count},
        parked=parked,
    )


def _values(
    manager: SessionStateManager, records: list[Record], session_id: str
) -> tuple[Value, ...] | None:
    record = table_of(manager).holds(session_id)
    if record is None:
        return None
    try:
        plan = relief_of(manager).plan(records)
    except PolicyError:
        plan = Plan()
    found = explain(record, plan, manager.budgets).values
    # Values that were parked together have their bytes together: the first of them says so.
    with_others: dict[str, str] = {}
    for unit in tuple(record.units):
        first, *others = sorted(unit.keys) or [""]
        with_others.update(dict.fromkeys(others, first))
    values = [
        Value(
            _cut(one.value),
            one.bucket,
            f"with {_cut(with_others[one.value])}" if one.value in with_others else one.where,
            {} if one.value in with_others else dict(one.nbytes),
            _cut(one.next),
        )
        for one in found
    ]
    return tuple(heapq.nlargest(MAX_TOP, values, key=lambda one: sum(one.nbytes.values())))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ID else text[: MAX_ID - 1] + "…"
