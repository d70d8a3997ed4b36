"""SessionTable: sessions by id in the order of their use, and those that left and still live.

Owns the bookkeeping under the manager's lock: every method takes it, does a few dict operations,
and gives it back. What leaves the table is handed to the caller, who lets go of it afterwards.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakValueDictionary, finalize, ref

from statekit.books.departures import Departure, Departures
from statekit.books.record import Record
from statekit.session import SessionState
from statekit.settings import DEFAULT_MAX_SESSIONS

__all__ = ["DEFAULT_MAX_SESSIONS", "SessionTable", "key_of", "require_positive"]


class SessionTable:
    """The sessions of one manager.

    `hits`, `misses` and `evictions` count look-ups that found an entry, that did not, and entries
    that left to make room.
    """

    def __init__(
        self,
        max_sessions: int,
        lock: AbstractContextManager[Any],
        clock: Callable[[], float],
    ) -> None:
        self.max_sessions = max_sessions
        self.hits = self.misses = self.evictions = 0
        self._lock = lock
        self._clock = clock
        self._order = 0
        self._table: OrderedDict[str, SessionState] = OrderedDict()
        self._evicted: WeakValueDictionary[str, SessionState] = WeakValueDictionary()
        self._outside: WeakValueDictionary[int, SessionState] = WeakValueDictionary()
        self._departures = Departures()
        self._dead: deque[Record] = deque()

    def find_or_make(self, key: str) -> tuple[SessionState, list[SessionState]]:
        """The session of this id, now the most recently used one; made where there is none.

        Returns it, and those that left for it.
        """
        with self._lock:
            session = self._table.get(key)
            if session is not None:
                self.hits += 1
                self._use(session)
                return session, []
            self.misses += 1
            session = self._evicted.pop(key, None)
            if session is None:
                session = SessionState(key)
            self._add(session)
            left = self._shrink()
        return session, left

    def lease(self, key: str) -> SessionState | None:
        """The session of this id, now in use, in the table or still held by somebody.

        None where there is none, or where it ends with its last lease.
        """
        with self._lock:
            session = self._table.get(key)
            if session is None:
                session = self._evicted.pop(key, None)
            if session is None or (session.record is not None and session.record.dropped):
                self.misses += 1
                return None
            self.hits += 1
            record = self._add(session)
            record.leases += 1
            record.managed = True
        return session

    def begin(
        self, key: str, declared: Mapping[str, int], may_be_lost: bool
    ) -> tuple[SessionState | None, list[SessionState]]:
        """A new session of this id, in use; None where the table is full of those that stay.

        Returns it and those that left for it. The caller has made sure that the id is free.
        """
        with self._lock:
            if len(self._table) >= self.max_sessions and self._next_to_leave() is None:
                return None, []
            self.misses += 1
            session = SessionState(key)
            record = self._add(session)
            record.leases, record.managed = 1, True
            record.declared, record.may_be_lost = declared, may_be_lost
            self._departures.forget(key)
            left = self._shrink()
        return session, left

    def holds(self, key: str) -> Record | None:
        """The record of the live session of this id; does not count as a use."""
        with self._lock:
            session = self._table.get(key) or self._evicted.get(key)
            return None if session is None else session.record

    def end_lease(self, record: Record) -> bool:
        """One user less; whether the session was dropped meanwhile and ends now."""
        with self._lock:
            record.leases -= 1
            record.used_at = self._clock()
            return record.dropped and not record.leases

    def drop(self, key: str) -> tuple[Record, bool] | None:
        """Take the session of this id out for good; its record, and whether it is still leased.

        A leased one stays in the table until its last lease has ended, and ends then.
        """
        with self._lock:
            session = self._table.get(key) or self._evicted.get(key)
            if session is None or session.record is None:
                return None
            record = session.record
            if record.leases:
                record.dropped = True
                return record, True
            self._take_out(session)
            record.dropped = True
            return record, False

    def drop_idle(self, key: str) -> Record | None:
        """Take the session of this id out for good, unless it came into use meanwhile."""
        with self._lock:
            session = self._table.get(key)
            if session is None or session.record is None or not session.record.may_go():
                return None
            self._take_out(session)
            session.record.dropped = True
            return session.record

    def finish_drop(self, record: Record) -> None:
        """Take a session out whose last lease has ended."""
        with self._lock:
            session = record.session
            if session is not None:
                self._take_out(session)

    def evict(self, key: str) -> Record | None:
        """Let go of a session that is not in use; its state lives as long as somebody holds it."""
        with self._lock:
            session = self._table.get(key)
            if session is None or session.record is None or session.record.leases:
                return None
            del self._table[key]
            self._evicted[key] = session
            self.evictions += 1
            return session.record

    def idle_since(self, moment: float) -> list[str]:
        """Ids of sessions under leases whose last use ended before `moment`, oldest first."""
        with self._lock:
            records = [session.record for session in self._table.values()]
        return [one.session_id for one in records if one and one.may_go() and one.used_at < moment]

    def depart(self, key: str, how: str, reason: str) -> Departure:
        """Remember how a session left."""
        departure = Departure(how, self._clock(), reason)
        with self._lock:
            self._departures.record(key, departure)
        return departure

    def departure(self, key: str) -> Departure | None:
        """How a session left, or None."""
        with self._lock:
            return self._departures.get(key)

    def live(self) -> list[SessionState]:
        """All sessions that anybody holds, each once."""
        with self._lock:
            live = list(self._table.values())
            # Copies of references, not iteration: a holder may let go in another thread meanwhile.
            outside: list[ref[SessionState]] = [
                *self._evicted.valuerefs(),
                *self._outside.valuerefs(),
            ]
        return live + [session for held in outside if (session := held()) is not None]

    def dead(self) -> Iterator[Record]:
        """The records of sessions that nobody holds any more, each once."""
        while self._dead:
            yield self._dead.popleft()

    def __iter__(self) -> Iterator[str]:
        """Ids of the sessions in the table, the least recently used one first."""
        with self._lock:
            return iter(list(self._table))

    def __contains__(self, key: object) -> bool:
        return key in self._table

    def __len__(self) -> int:
        return len(self._table)

    def _add(self, session: SessionState) -> Record:
        record = session.record
        if record is None:
            record = session.record = Record(session)
            end = finalize(session, self._dead.append, record)
            end.atexit = False
        self._table[session.session_id] = session
        return self._use(session)

    def _use(self, session: SessionState) -> Record:
        record = session.record
        assert record is not None
        self._table.move_to_end(session.session_id)
        self._order += 1
        record.order, record.used_at = self._order, self._clock()
        return record

    def _shrink(self) -> list[SessionState]:
        left: list[SessionState] = []
        while len(self._table) > self.max_sessions:
            session = self._next_to_leave()
            if session is None:
                break
            del self._table[session.session_id]
            self._evicted[session.session_id] = session
            self.evictions += 1
            left.append(session)  # the caller lets go of it, outside the lock
        return left

    def _next_to_leave(self) -> SessionState | None:
        """The least recently used session that is not in use and may leave."""
        for session in self._table.values():
            if session.record is not None and session.record.may_leave():
                return session
        return None

    def _take_out(self, session: SessionState) -> None:
        if self._table.get(session.session_id) is session:
            del self._table[session.session_id]
        if self._evicted.get(session.session_id) is session:
            del self._evicted[session.session_id]
        self._outside[id(session)] = session


def key_of(session_id: object) -> str:
    """The id as a string; a missing or empty one means "default"."""
    return "default" if session_id is None or session_id == "" else str(session_id)


def require_positive(name: str, value: object) -> None:
    """Refuse what is no whole number above 0. Raises: TypeError, ValueError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
