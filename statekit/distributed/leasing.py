"""GroupLeasing: how the sessions of a group begin, go on and end, on one of its ranks.

Owns the order of things around a lease, as `statekit.leasing` does for one manager. The end of a
lease meets nobody. One whose holder went away without a word ends on all ranks at the meeting in
which the last of them has found that out: garbage is collected when each rank likes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from statekit.distributed.calls import Calls
from statekit.distributed.council import Council
from statekit.distributed.deciding import Deciding
from statekit.distributed.hands import Hands
from statekit.distributed.schedule import Schedule
from statekit.distributed.schemas import Schemas
from statekit.distributed.table import Entry, GroupTable
from statekit.distributed.terms import Terms
from statekit.errors import GroupError
from statekit.session import SessionState
from statekit.spec import ModelSpec

__all__ = ["GroupLeasing"]

Started = tuple[SessionState, Callable[[], None]]
"""A session in use, and what ends the use."""


class GroupLeasing:
    """The protocol of one group's sessions.

    Attributes:
        abandoned: sessions of leases that nobody holds any more, once for each.
        deciding: what all ranks decide.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        terms: Terms,
        council: Council,
        calls: Calls,
        table: GroupTable,
        hands: Hands,
        schemas: Schemas,
        schedule: Schedule,
    ) -> None:
        self._rank = rank
        self._max_sessions = terms.max_sessions
        self._council = council
        self._calls = calls
        self._table = table
        self._hands = hands
        self._schemas = schemas
        self._schedule = schedule
        self._left: dict[str, list[SessionState]] = {}
        self._lock = threading.RLock()
        self.abandoned: deque[SessionState] = deque()
        self.deciding = Deciding(
            rank,
            size,
            terms,
            council,
            table,
            hands,
            schedule,
            self._count_abandoned,
            self._end_abandoned,
        )

    def called(self, call: str, key: str = "") -> _Called:
        """One call at a time, noted; refused where the group decides no more."""
        return _Called(self._lock, self._calls, self._council, call, key)

    def begin(self, key: str, spec: ModelSpec, overrides: Mapping[str, int]) -> Started:
        """A new session, in use on all ranks."""
        with self.called("begin", key):
            declared = self._schemas.declared(spec, overrides)
            self.deciding.admit(key, declared, self._schemas.name(spec, overrides))
            try:
                self._make_place()
                session = self._hands.begin(key, spec, overrides)
            except Exception as error:
                raise self._council.fail(
                    f"rank {self._rank} could not: {error!r}", error
                ) from error
            entry = Entry(key, spec.may_be_lost, self._schemas.growth(spec, overrides))
            self._table.add(entry)
            self._use(entry)
            return session, partial(self._end, entry, session)

    def go_on(self, key: str) -> Started:
        """The session of this id, in use on all ranks and with everything back."""
        with self.called("continue", key):
            entry = self._table.get(key)
            if entry is None or entry.dropped:
                raise self._hands.lost(key)
            if entry.away:
                self.deciding.make_room(key)
                session = self.deciding.bring_back(key)
                entry.away, entry.released = False, {}
                self._use(entry)
                return session, partial(self._end, entry, session)
            if self._schedule.lacks(entry.released):
                self.deciding.make_room(key)
                entry.released = {}
            elif self._schedule.due:
                self.deciding.look(key)
            try:
                session = self._hands.go_on(key)
            except Exception as error:
                raise self._council.fail(
                    f"rank {self._rank} could not: {error!r}", error
                ) from error
            self._use(entry)
            return session, partial(self._end, entry, session)

    def drop(self, key: str) -> bool:
        """End the session of this id on all ranks, or with its last lease; whether it was there."""
        with self.called("drop", key):
            entry = self._table.get(key)
            if entry is None or entry.dropped:
                return False
            self._council.meet("drop", {}, lambda bodies: {"drop": key})
            if entry.leases:
                entry.dropped = True
                self._hands.drop(key)
            else:
                self._table.remove(key)
                self._alike(partial(self._hands.drop, key))
            return True

    def take_over(self, kept: Iterable[tuple[str, bool, bool]]) -> None:
        """Begin with sessions that all ranks have: id, may be lost, parked; oldest first."""
        for key, may_be_lost, away in kept:
            spec, overrides = self._hands.spec_of(key)
            growth = () if spec is None else self._schemas.growth(spec, overrides)
            used_at = self._hands.clock()
            self._table.add(Entry(key, may_be_lost, growth, away=away, used_at=used_at))

    def end_all_abandoned(self) -> None:
        """End what nobody holds on this rank any more, whatever the others say."""
        for key, count in self._count_abandoned().items():
            self._end_abandoned(key, count)

    def _make_place(self) -> None:
        """Evict, as all ranks do, until the table has a place."""
        reason = f"the table keeps {self._max_sessions} sessions"
        while len(self._table) >= self._max_sessions:
            leaving = self._table.next_to_leave()
            assert leaving is not None
            self._table.remove(leaving.key)
            self._hands.evict(leaving.key, reason, "sessions")

    def _use(self, entry: Entry) -> None:
        self._table.use(entry)
        self._schedule.forward(entry)

    def _end(self, entry: Entry, session: SessionState) -> None:
        with self._lock:
            self._calls.note("end", entry.key)
            self._leave(entry, session)

    def _leave(self, entry: Entry, session: SessionState) -> None:
        self._table.leave(entry, self._hands.clock())
        self._hands.end_lease(session)

    def _count_abandoned(self) -> dict[str, int]:
        while self.abandoned:
            session = self.abandoned.popleft()
            self._left.setdefault(session.session_id, []).append(session)
        return {key: len(left) for key, left in self._left.items()}

    def _end_abandoned(self, key: str, count: int) -> None:
        left, entry = self._left.pop(key, []), self._table.get(key)
        if left[count:]:
            self._left[key] = left[count:]
        for session in left[:count]:
            if entry is not None:
                self._leave(entry, session)

    def _alike(self, act: Callable[[], object]) -> None:
        """Do it, and raise on all ranks where it raises on one."""
        error: Exception | None = None
        try:
            act()
        except Exception as failed:
            error = failed
        said = {"failed": "" if error is None else repr(error)}
        heard = self._council.meet("ended", said, _who_failed)
        if error is not None:
            raise error
        if heard.outcome is not None and heard.outcome["failed"]:
            rank, found = heard.outcome["failed"]
            todo = "the session is gone all the same"
            raise GroupError(self._calls.last, f"rank {rank} failed with {found}", todo)


class _Called:
    """The time of one call."""

    __slots__ = ("_call", "_calls", "_council", "_key", "_lock")

    def __init__(
        self, lock: threading.RLock, calls: Calls, council: Council, call: str, key: str
    ) -> None:
        self._lock, self._calls, self._council = lock, calls, council
        self._call, self._key = call, key

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._council.require_open()
            self._calls.note(self._call, self._key)
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()


def _who_failed(bodies: Any) -> dict[str, Any]:
    failed = [[rank, one["failed"]] for rank, one in enumerate(bodies) if one["failed"]]
    return {"failed": failed[0] if failed else None}
