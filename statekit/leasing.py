"""Leasing: how sessions begin, go on and end.

Owns the order of things around a lease. Not here: the public face (`statekit.manager`), the table,
how room is made (`statekit.room`). No lock is held across two steps, except that sessions are
admitted one after the other, so that two cannot be promised the same room.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import perf_counter

from statekit.books.ledger import Ledger
from statekit.books.record import Record
from statekit.declared import Ranks
from statekit.errors import (
    ParkError,
    PolicyError,
    SessionAdmissionError,
    SessionExistsError,
    SessionStateLostError,
)
from statekit.events import (
    DEPARTURES,
    AboveDeclared,
    Created,
    Events,
    Leased,
    Lost,
    Rebuilt,
    Refused,
    RestoreFailed,
)
from statekit.pressure.promise import Promise, promise
from statekit.room import Room
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
        room: Room,
        events: Events,
        clock: Callable[[], float],
        model_device: str,
        ranks: Ranks,
    ) -> None:
        self._table = table
        self._ledger = ledger
        self._room = room
        self._events = events
        self._clock = clock
        self._model_device = model_device
        self._ranks = ranks
        self._admitting = threading.Lock()
        self.abandoned: deque[SessionState] = deque()

    def begin(
        self,
        key: str,
        spec: ModelSpec,
        overrides: Mapping[str, int] | None,
        ready: SessionState | None = None,
    ) -> tuple[SessionState, Callable[[], None]]:
        """A new session, in use, and what ends the use; `ready` where it is made already."""
        asked_at = perf_counter()
        promised_now = self._promise(spec, overrides)
        self.settle()
        session: SessionState | None = None
        try:
            with self._events.later():
                ready = ready or SessionState(key)
                session = self._admit(ready, promised_now, spec.may_be_lost, overrides)
                session.adopt(spec)
                at, declared = self._clock(), dict(promised_now.by_device)
                waited_s = perf_counter() - asked_at
                self._events.publish(Created(key, at, declared), Leased(key, at, 1, waited_s))
        except BaseException:
            if session is not None:
                self.end_lease(session)
            raise
        return session, partial(self.end_lease, session)

    def make_room(self, key: str, spec: ModelSpec, overrides: Mapping[str, int] | None) -> None:
        """Give up what has to be for a new session, which may begin then.

        Raises: as the beginning of one.
        """
        self.settle()
        declared = self._promise(spec, overrides).by_device
        with self._events.later(), self._admitting:
            self._require_room(key, declared)

    def _promise(self, spec: ModelSpec, overrides: Mapping[str, int] | None) -> Promise:
        return promise(spec, self._model_device, overrides, self._room.tiers, self._ranks)

    def _admit(
        self,
        session: SessionState,
        promise: Promise,
        may_be_lost: bool,
        overrides: Mapping[str, int] | None,
    ) -> SessionState:
        """The new session, in use; events are told later, for a lock is held here."""
        key, declared = session.session_id, promise.by_device
        with self._admitting:
            self._require_room(key, declared)
            left = self._table.begin(session, declared, may_be_lost)
            if left is None:  # somebody else has taken the place meanwhile
                raise self._refuse(self._no_place(key))
            self.say_evicted(left)
            assert session.record is not None
            session.record.limits, session.record.staying = promise.limits, promise.staying
            session.record.overrides = dict(overrides or {})
            return session

    def _require_room(self, key: str, declared: Mapping[str, int]) -> None:
        if self._table.holds(key) is not None:
            raise SessionExistsError(key)
        if not self._table.has_place():
            raise self._refuse(self._no_place(key))
        refused = self._room.for_a_new_one(key, declared)
        if refused is not None:
            raise self._refuse(refused)

    def _no_place(self, key: str) -> SessionAdmissionError:
        return SessionAdmissionError(key, "sessions", 1, 0, self._table.max_sessions, ())

    def _refuse(self, refused: SessionAdmissionError) -> SessionAdmissionError:
        at = self._clock()
        self._events.publish(Refused(refused.session_id, at, str(refused), refused.device))
        return refused

    def go_on(self, key: str) -> tuple[SessionState, Callable[[], None]]:
        """The session of this id, in use and with everything back, and what ends the use."""
        asked_at = perf_counter()
        self.settle()
        session, left = self._table.lease(key)
        if session is None:
            error = self.lost(key)
            self._events.publish(Lost(key, self._clock(), error.how, error.reason))
            raise error
        record = session.record
        assert record is not None
        with session.lock:
            pass  # whoever looks at it as one that nobody uses is done
        with self._ended_on_error(session):
            self.say_evicted(left)
            self._bring_back(record)
            waited_s = perf_counter() - asked_at
            self._events.publish(Leased(key, self._clock(), record.leases, waited_s))
        return session, partial(self.end_lease, session)

    def end_lease(self, session: SessionState) -> None:
        """One use less: settle the accounts, or end the session where it was dropped meanwhile."""
        record = session.record
        assert record is not None
        if not self._leave(session, record):
            self._compare(record)
            try:
                self._room.relieve(record.session_id)
            except PolicyError as error:  # not the affair of whoever used the session
                warnings.warn(f"budgets were not looked at: {error}", stacklevel=2)

    def settle(self) -> None:
        """End the leases whose holders went away without a word; budgets are looked at later."""
        while self.abandoned:
            try:
                session = self.abandoned.popleft()
            except IndexError:  # another thread was faster
                return
            if session.record is None:
                continue
            try:
                self._leave(session, session.record)
            except Exception as error:  # not the affair of whoever comes next
                key = session.session_id
                warnings.warn(f"the end of a lease of {key!r} failed: {error!r}", stacklevel=2)

    def _leave(self, session: SessionState, record: Record) -> bool:
        """One use less; whether the session has ended with it."""
        try:
            if session.adopted.passing:  # what ends with the request is looked at before
                record.refresh(self._ledger)
                self._compare(record)
        finally:
            ended, left = self._table.end_lease(record)
        self.say_evicted(left)
        self._let_look(session, record)
        if ended:
            self.end(session, "dropped", "drop_session was called while it was in use")
            return True
        record.refresh(self._ledger)
        self._say_rebuilt(record)
        return False

    def _let_look(self, session: SessionState, record: Record) -> None:
        """Nobody uses the session now: those look who wait for that, and the request ends."""
        with session.lock:
            nobody = not session.visitors
        if nobody and not session.adopted.passing:
            return
        with record.transition, session.lock:
            if record.leases:
                return
            if session.open_step is not None:  # it has outlived its lease
                if session.adopted.passing:
                    session.visitors.append(_end_request)
                return
            visitors, session.visitors = session.visitors, []
            for visit in visitors:
                visit(session)
            session.end_request()

    @contextmanager
    def _ended_on_error(self, session: SessionState) -> Iterator[None]:
        """End the lease where its beginning fails."""
        try:
            yield
        except BaseException:
            self.end_lease(session)
            raise

    def end(self, session: SessionState, how: str, reason: str) -> None:
        """Free what the session holds and remember how it left; it is out of the table already.

        Raises:
            Exception: what the reset of one of its objects raised; the session is gone all the
                same.
        """
        record = session.record
        assert record is not None
        try:
            with record.transition:
                session.reset()
        finally:
            record.refresh(self._ledger)
            self.depart(record.session_id, how, reason)

    def depart(self, key: str, how: str, reason: str, cause: str = "") -> None:
        """Remember how a session left, and say so."""
        self._table.depart(key, how, reason)
        self._events.publish(DEPARTURES[how](key, self._clock(), how, reason, cause))

    def evict(self, key: str, reason: str) -> bool:
        """Let go of a session under pressure; whether it went."""
        if self._table.evict(key) is None:
            return False
        self.depart(key, "evicted", reason, "bytes")
        return True

    def say_evicted(self, left: Iterable[SessionState]) -> None:
        """Remember those that left for want of a place."""
        for session in left:
            size = self._table.max_sessions
            reason = f"the table keeps {size} sessions"
            self.depart(session.session_id, "evicted", reason, "sessions")

    def lost(self, key: str) -> SessionStateLostError:
        """The error for a session that is not there, with what is known of it."""
        departure = self._table.departure(key)
        if self._table.holds(key) is not None:
            return SessionStateLostError(
                key, "dropped", None, "drop_session was called; others use it still"
            )
        if departure is None:
            return SessionStateLostError(
                key, "unknown", None, "no session of this id is remembered"
            )
        ago = self._clock() - departure.at
        return SessionStateLostError(key, departure.how, ago, departure.reason)

    def _bring_back(self, record: Record) -> None:
        """Bring back what is parked."""
        with record.transition:
            units = tuple(record.units)
        self._room.for_the_return_of(record)
        try:
            for unit in units:
                unit.bring_back()
        except ParkError as error:
            key, at, keys = record.session_id, self._clock(), tuple(sorted(unit.keys))
            self._events.publish(RestoreFailed(key, at, keys, unit.tier, str(error)))
            raise

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
        if record.compared == record.version:
            return
        record.compared = record.version
        for limit in record.limits:
            held = record.held_by(limit)
            if held > limit.nbytes and limit.name not in record.reported:
                record.reported.add(limit.name)
                self._events.publish(
                    AboveDeclared(record.session_id, self._clock(), limit.name, held, limit.nbytes)
                )


def _end_request(session: SessionState) -> None:
    """Clear what lives as long as a request, unless another one has begun."""
    if session.record is None or not session.record.leases:
        session.end_request()
