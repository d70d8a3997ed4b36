"""Leasing: how sessions begin, go on and end, and when budgets are looked at.

Owns the order of things around a lease. Not here: the public face (`statekit.manager`), the table,
what is given up and how (`statekit.pressure`). No lock is held across two steps, except that
sessions are admitted one after the other, so that two cannot be promised the same room.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from statekit.accounting import SeenStorages, merge_bytes
from statekit.books.ledger import Ledger
from statekit.books.record import Record
from statekit.errors import (
    SessionAdmissionError,
    SessionExistsError,
    SessionStateLostError,
)
from statekit.events import (
    AboveDeclared,
    Created,
    Departed,
    Events,
    Leased,
    OverBudget,
    Rebuilt,
    Refused,
)
from statekit.pressure.admission import promise, promised, refuse
from statekit.pressure.plan import Plan
from statekit.pressure.relief import Relief
from statekit.session import SessionState
from statekit.spec import ModelSpec
from statekit.table import SessionTable

__all__ = ["Leasing"]


class Leasing:
    """The protocol of one manager's sessions."""

    def __init__(
        self,
        table: SessionTable,
        ledger: Ledger,
        relief: Relief,
        events: Events,
        clock: Callable[[], float],
        model_device: str,
    ) -> None:
        self._table = table
        self._ledger = ledger
        self._relief = relief
        self._events = events
        self._clock = clock
        self._model_device = model_device
        self._admitting = threading.Lock()
        self._over: set[str] = set()

    def begin(
        self, key: str, spec: ModelSpec, overrides: Mapping[str, int] | None
    ) -> tuple[SessionState, Callable[[], None]]:
        """A new session, in use, and what ends the use."""
        promised_now = promise(spec, self._model_device, overrides)
        declared = promised_now.by_device
        refused: SessionAdmissionError | None = None
        with self._admitting:
            if self._table.holds(key) is not None:
                raise SessionExistsError(key)
            records = self.refreshed()
            extra = promised(records)
            for device, nbytes in declared.items():
                extra[device] = extra.get(device, 0) + nbytes
            plan = self._relief.plan(records, extra)
            mine = {d: n for d, n in plan.still_over.items() if declared.get(d)}
            if mine:
                refused = refuse(key, declared, mine, self._relief.budgets, records)
            else:
                self._relief.carry_out(plan, self._by_id(records))
                session, left = self._table.begin(key, declared, spec.may_be_lost)
                if session is None:
                    size = self._table.max_sessions
                    refused = SessionAdmissionError(key, "sessions", 1, 0, size, ())
        if refused is not None:
            self._events.publish(Refused(key, self._clock(), str(refused)))
            raise refused
        assert session is not None
        session.adopt(spec)
        if session.record is not None:
            session.record.limits = promised_now.limits
        self.say_evicted(left)
        self._events.publish(
            Created(key, self._clock(), dict(declared)), Leased(key, self._clock(), 1)
        )
        return session, partial(self.end_lease, session)

    def go_on(self, key: str) -> tuple[SessionState, Callable[[], None]]:
        """The session of this id, in use and with everything back, and what ends the use."""
        session = self._table.lease(key)
        if session is None:
            raise self.lost(key)
        record = session.record
        assert record is not None
        finish = partial(self.end_lease, session)
        try:
            self._bring_back(record)
        except BaseException:
            finish()
            raise
        self._events.publish(Leased(key, self._clock(), record.leases))
        return session, finish

    def end_lease(self, session: SessionState) -> None:
        """One use less: settle the accounts, or end the session where it was dropped meanwhile."""
        record = session.record
        assert record is not None
        if self._table.end_lease(record):
            self._table.finish_drop(record)
            self.end(record, "dropped", "drop_session was called while it was in use")
            return
        record.refresh(self._ledger)
        self._say_rebuilt(record)
        self._compare(record)
        self.relieve(record.session_id)

    def relieve(self, cause: str) -> Plan:
        """Look at the budgets and give up what is over them; `cause` is the session that grew."""
        if not self._relief.budgets:
            return Plan()
        records = self._reaped()
        plan = self._relief.plan(records)
        self._relief.carry_out(plan, self._by_id(records))
        used = self._relief.used(records)
        over = {d for d, limit in self._relief.budgets.items() if used.get(d, 0) > limit}
        new, self._over = over - self._over, over
        for device in sorted(new):
            limit = self._relief.budgets[device]
            self._events.publish(OverBudget(cause, self._clock(), device, used[device], limit))
        return plan

    def end(self, record: Record, how: str, reason: str) -> None:
        """Free what the session holds and remember how it left; it is out of the table already."""
        session = record.session
        with record.transition:
            if session is not None:
                session.reset()
        record.refresh(self._ledger)
        self.depart(record.session_id, how, reason)

    def depart(self, key: str, how: str, reason: str) -> None:
        """Remember how a session left, and say so."""
        self._table.depart(key, how, reason)
        self._events.publish(Departed(key, self._clock(), how, reason))

    def evict(self, key: str, reason: str) -> None:
        """Let go of a session under pressure."""
        if self._table.evict(key) is not None:
            self.depart(key, "evicted", reason)

    def say_evicted(self, left: Iterable[SessionState]) -> None:
        """Remember those that left for want of a place."""
        for session in left:
            size = self._table.max_sessions
            self.depart(session.session_id, "evicted", f"the table keeps {size} sessions")

    def lost(self, key: str) -> SessionStateLostError:
        """The error for a session that is not there, with what is known of it."""
        departure = self._table.departure(key)
        if departure is None:
            return SessionStateLostError(
                key, "unknown", None, "no session of this id is remembered"
            )
        ago = self._clock() - departure.at
        return SessionStateLostError(key, departure.how, ago, departure.reason)

    def refreshed(self) -> list[Record]:
        """The records of all live sessions, with what they occupy now."""
        records = self._reaped()
        for count, record in enumerate(records, 1):
            record.refresh(self._ledger)
            if count % 16 == 0:
                time.sleep(0)  # lets other threads have the interpreter: they serve requests
        return records

    @staticmethod
    def staged(records: Iterable[Record]) -> dict[str, int]:
        """Staged bytes by device that are not committed bytes of the same session as well."""
        total: dict[str, int] = {}
        for record in records:
            session = record.session
            if session is not None and session.has_staged():
                seen = SeenStorages()
                session.nbytes_by_device(seen)
                merge_bytes(total, session.staged_nbytes_by_device(seen))
        return total

    def _reaped(self) -> list[Record]:
        """The records of all live sessions; those of dead ones are taken off the books."""
        for record in self._table.dead():
            record.forget(self._ledger)
        return [one.record for one in self._table.live() if one.record is not None]

    @staticmethod
    def _by_id(records: Iterable[Record]) -> dict[str, Record]:
        return {record.session_id: record for record in records if not record.dropped}

    def _bring_back(self, record: Record) -> None:
        """Make room for what is parked, and bring it back."""
        with record.transition:
            units = tuple(record.units)
        if not units:
            return
        coming: dict[str, int] = {}
        for unit in units:
            for device, nbytes in unit.came_from.items():
                coming[device] = coming.get(device, 0) + nbytes
        records = self._reaped()
        self._relief.carry_out(self._relief.plan(records, coming), self._by_id(records))
        for unit in units:
            unit.bring_back()

    def _say_rebuilt(self, record: Record) -> None:
        """Released values that hold data again."""
        back = [
            key
            for key in tuple(record.released)
            if key in record.objects and record.objects[key].intervals
        ]
        for key in back:
            record.released.discard(key)
            self._events.publish(Rebuilt(record.session_id, self._clock(), key))

    def _compare(self, record: Record) -> None:
        """Say which values hold more than their schema declares, once each."""
        for limit in record.limits:
            held = record.held_by(limit)
            if held > limit.nbytes and limit.name not in record.reported:
                record.reported.add(limit.name)
                self._events.publish(
                    AboveDeclared(record.session_id, self._clock(), limit.name, held, limit.nbytes)
                )
