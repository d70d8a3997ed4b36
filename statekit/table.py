"""SessionTable: sessions by id in the order of their use, and those that left and still live.

Owns the bookkeeping under the manager's lock: every method takes it, does a few dict operations,
and gives it back. What leaves the table is handed to the caller, who lets go of it afterwards.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
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

    def find_or_make(self, key: str) -> tuple[SessionState, Sequence[SessionState]]:
        """The session of this id, now the most recently used one; made where there is none.

        Returns it, and those that left for it.
        """
        with self._lock:
            session = self._table.get(key)
            if session is not None:
                self.hits += 1
                self._use(session)
                return session, ()
            self.misses += 1
            session = self._evicted.pop(key, None)
            if session is None:
                session = SessionState(key)
            self._add(session)
            left = self._shrink(session)
        return session, left

    def lease(self, key: str) -> tuple[SessionState | None, list[SessionState]]:
        """The session of this id, now in use, in the table or still held by somebody.

        None where there is none, or where it ends with its last lease. Returns with it those that
        left for it.
        """
        with self._lock:
            session = self._table.get(key)
            if session is None:
                session = self._evicted.pop(key, None)
            if session is None or (session.record is not None and session.record.dropped):
                self.misses += 1
                return None, []
            self.hits += 1
            record = self._add(session)
            record.leases += 1
            record.uses += 1
            record.managed = True
            record.used_at = self._clock()
            left = self._shrink(session)
        return session, left

    def begin(
        self, session: SessionState, declared: Mapping[str, int], may_be_lost: bool
    ) -> list[SessionState] | None:
        """Take a new session in, which is in use; None where the table is full of those that stay.

        Returns those that left for it. The caller has made sure that the id is free.
        """
        with self._lock:
            if not self._has_place():
                return None
            self.misses += 1
            record = self._add(session)
            record.leases, record.managed = 1, True
            record.declared, record.may_be_lost = declared, may_be_lost
            self._departures.forget(session.session_id)
            return self._shrink(session)

    def has_place(self) -> bool:
        """Whether one more session may begin."""
        with self._lock:
            return self._has_place()

    def holds(self, key: str) -> Record | None:
        """The record of the live session of this id; does not count as a use."""
        with self._lock:
            session = self._table.get(key) or self._evicted.get(key)
            return None if session is None else session.record

    def end_lease(self, record: Record) -> tuple[bool, list[SessionState]]:
        """One user less; whether the session was dropped meanwhile and is out now.

        Returns with it those that left, because more were in use than the table keeps.
        """
        with self._lock:
            record.leases -= 1
            record.uses += 1
            record.used_at = self._clock()
            if record.dropped and not record.leases:
                session = record.session
                if session is not None:
                    self._take_out(session)
                return True, []
            left = self._shrink(None)
        return False, left

    def drop(self, key: str) -> tuple[SessionState, bool] | None:
        """Take the session of this id out for good; returns it, and whether it is still leased.

        A leased one stays in the table until its last lease has ended, and ends then.
        """
        with self._lock:
            session = self._table.get(key) or self._evicted.get(key)
            if session is None or session.record is None:
                return None
            record = session.record
            if record.leases:
                record.dropped = True
                return session, True
            self._take_out(session)
            record.dropped = True
            return session, False

    def drop_idle(self, key: str, moment: float) -> SessionState | None:
        """Take the session of this id out for good and return it, unless used since `moment`."""
        with self._lock:
            session = self._table.get(key)
            record = None if session is None else session.record
            if session is None or record is None or not _idle(record, moment):
                return None
            self._take_out(session)
            record.dropped = True
            return session

    def evict(self, key: str) -> Record | None:
        """Let go of a session that may be lost; its state lives as long as somebody holds it."""
        with self._lock:
            session = self._table.get(key)
            record = None if session is None else session.record
            if session is None or record is None or not record.may_be_evicted():
                return None
            self._let_leave(session)
            return record

    def idle_since(self, moment: float) -> list[str]:
        """Ids of sessions under leases whose last use ended before `moment`, oldest first."""
        with self._lock:
            records = [session.record for session in self._table.values()]
        return [one.session_id for one in records if one and _idle(one, moment)]

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
        with suppress(IndexError):  # another thread may take the last one meanwhile
            while self._dead:
                yield self._dead.popleft()

    def ids(self) -> list[str]:
        """Ids of all sessions that can be found, those that were evicted and still live too."""
        with self._lock:
            return [*self._table, *self._evicted.keys()]

    def __iter__(self) -> Iterator[str]:
        """Ids of the sessions in the table, the least recently used one first."""
        with self._lock:
            return iter(list(self._table))

    def __contains__(self, key: object) -> bool:
        return key in self._table

    def __len__(self) -> int:
        return len(self._table)

    def shelter(self, session: SessionState) -> None:
        """Count a session that is in no table, such as a fork, as long as somebody holds it."""
        with self._lock:
            self._record_of(session)
            self._outside[id(session)] = session

    def _record_of(self, session: SessionState) -> Record:
        record = session.record
        if record is None:
            record = session.record = Record(session, self)
            end = finalize(session, _bury, record, self._dead)
            end.atexit = False
        return record

    def _add(self, session: SessionState) -> Record:
        record = self._record_of(session)
        record.listed = True
        self._table[session.session_id] = session
        return self._use(session)

    def _use(self, session: SessionState) -> Record:
        record: Record = session.record  # type: ignore[assignment]  # what is listed has one
        self._table.move_to_end(session.session_id)
        self._order = record.order = self._order + 1
        if record.managed:  # others do not expire, and are found far more often
            record.used_at = self._clock()
        return record

    def _shrink(self, new: SessionState | None) -> list[SessionState]:
        """Those that leave so that `new`, which stays, has its place."""
        left: list[SessionState] = []
        while len(self._table) > self.max_sessions:
            session = self._next_to_leave()
            if session is None or session is new:
                break
            self._let_leave(session)
            left.append(session)  # the caller lets go of it, outside the lock
        return left

    def _has_place(self) -> bool:
        return len(self._table) < self.max_sessions or self._next_to_leave() is not None

    def _next_to_leave(self) -> SessionState | None:
        """The least recently used session that is not in use and may leave."""
        for session in self._table.values():
            if session.record is not None and session.record.may_leave():
                return session
        return None

    def _let_leave(self, session: SessionState) -> None:
        assert session.record is not None
        session.record.listed = False
        del self._table[session.session_id]
        self._evicted[session.session_id] = session
        self.evictions += 1

    def _take_out(self, session: SessionState) -> None:
        assert session.record is not None
        session.record.listed = False
        if self._table.get(session.session_id) is session:
            del self._table[session.session_id]
        if self._evicted.get(session.session_id) is session:
            del self._evicted[session.session_id]
        self._outside[id(session)] = session


def _idle(record: Record, moment: float) -> bool:
    return record.may_go() and record.used_at < moment


def _bury(record: Record, dead: deque[Record]) -> None:
    """Nobody holds the session any more; may run anywhere, so it takes no lock."""
    record.units.clear()  # what was parked goes at once, files too
    dead.append(record)


def key_of(session_id: object) -> str:
    """The id as a string; a missing or empty one means "default"."""
    return "default" if session_id is None or session_id == "" else str(session_id)


def require_positive(name: str, value: object) -> None:
    """Refuse what is no whole number above 0. Raises: TypeError, ValueError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
