"""SessionStateManager: which sessions exist, in the order of their use.

Owns the table, its bound by count and its counters. Not here: what a session holds
(`statekit.session`), and how bytes are counted (`statekit.accounting`).

    M1  `len(manager) <= max_sessions` whenever no call is under way.
    M2  One id, one live state: a session that left the table by eviction and is still held by
        somebody is found again by its id, not shadowed by a second one.
    M3  A session's bytes are counted as long as anybody holds it, in the table or out of it.
    M4  The lock guards the table alone: no value is walked, no buffer freed, no callback made
        while it is held.

Thread-safe; the kind of lock is the owner's choice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakValueDictionary, ref

from statekit.accounting import SeenStorages, merge_bytes
from statekit.session import SessionState
from statekit.settings import DEFAULT_MAX_SESSIONS

__all__ = ["DEFAULT_MAX_SESSIONS", "SessionStateManager"]


class SessionStateManager:
    """Sessions by id; beyond `max_sessions` the least recently used one leaves the table.

    Args:
        max_sessions: how many sessions the table keeps.
        byte_budget: recorded, not enforced yet.
        lock_factory: makes the lock; `contextlib.nullcontext` for an owner with one thread.

    Raises:
        ValueError: `max_sessions` or `byte_budget` is below 1.
        TypeError: one of them is no whole number.
    """

    def __init__(
        self,
        max_sessions: int = DEFAULT_MAX_SESSIONS,
        byte_budget: int | None = None,
        lock_factory: Callable[[], AbstractContextManager[Any]] = threading.Lock,
    ) -> None:
        _require_positive("max_sessions", max_sessions)
        if byte_budget is not None:
            _require_positive("byte_budget", byte_budget)
        self.max_sessions = max_sessions
        self.byte_budget = byte_budget
        self._lock = lock_factory()
        self._table: OrderedDict[str, SessionState] = OrderedDict()
        self._evicted: WeakValueDictionary[str, SessionState] = WeakValueDictionary()
        self._dropped: WeakValueDictionary[int, SessionState] = WeakValueDictionary()
        self._hits = self._misses = self._evictions = 0

    def get_or_create_session(self, session_id: str | None = None) -> SessionState:
        """The session of this id, now the most recently used one; None and "" mean "default".

        A session that is not in the table is made, unless somebody still holds the one that was
        evicted under this id: then that one returns to the table (a miss all the same).
        """
        key = _key(session_id)
        with self._lock:
            session = self._table.get(key)
            if session is not None:
                self._table.move_to_end(key)
                self._hits += 1
                return session
            self._misses += 1
            session = self._evicted.pop(key, None)
            if session is None:
                session = SessionState(key)
            self._table[key] = session
            leaving = []
            while len(self._table) > self.max_sessions:
                oldest, left = self._table.popitem(last=False)
                self._evicted[oldest] = left
                self._evictions += 1
                leaving.append(left)
        # `leaving` goes out of scope here, not under the lock: freeing buffers takes time.
        return session

    def drop_session(self, session_id: str | None = None) -> bool:
        """End the session of this id: entry gone, objects reset, carried values cleared.

        Returns whether there was one, in the table or evicted and still held by somebody.
        """
        key = _key(session_id)
        with self._lock:
            session = self._table.pop(key, None) or self._evicted.pop(key, None)
            if session is not None:
                self._dropped[id(session)] = session
        if session is None:
            return False
        session.reset()
        return True

    def __contains__(self, session_id: object) -> bool:
        """Whether a session of this id is in the table; does not count as a use."""
        return _key(session_id) in self._table

    def __len__(self) -> int:
        """How many sessions are in the table."""
        return len(self._table)

    def __bool__(self) -> bool:
        """True, so that `manager or default` does not throw an empty manager away."""
        return True

    def nbytes_by_device(self) -> dict[str, int]:
        """Committed bytes of all live sessions by device, each storage once."""
        return self._count(SeenStorages(), self._snapshot()[0])

    def stats(self) -> dict[str, int]:
        """Counters and bytes, as plain numbers for a metrics endpoint.

        Keys: `sessions`, `max_sessions`, `total_nbytes`, `hits`, `misses`, `evictions`,
        `nbytes:<device>`; and for staged data `staged_nbytes`, `staged_nbytes:<device>`.
        """
        live, stats = self._snapshot()
        seen = SeenStorages()
        committed = self._count(seen, live)
        staged: dict[str, int] = {}
        for session in live:
            merge_bytes(staged, session.staged_nbytes_by_device(seen))
        stats["total_nbytes"] = sum(committed.values())
        stats["staged_nbytes"] = sum(staged.values())
        stats.update({f"nbytes:{device}": n for device, n in sorted(committed.items())})
        stats.update({f"staged_nbytes:{device}": n for device, n in sorted(staged.items())})
        return stats

    def _snapshot(self) -> tuple[list[SessionState], dict[str, int]]:
        """All sessions that anybody holds, each once, and the counters of the same moment."""
        with self._lock:
            live = list(self._table.values())
            # Copies of references, not iteration: a holder may let go in another thread meanwhile.
            outside: list[ref[SessionState]] = [
                *self._evicted.valuerefs(),
                *self._dropped.valuerefs(),
            ]
            counters = {
                "sessions": len(live),
                "max_sessions": self.max_sessions,
                "hits": self._hits,
                "misses": self._misses,
                "evictions": self._evictions,
            }
        live += [session for session in (known() for known in outside) if session is not None]
        return live, counters

    @staticmethod
    def _count(seen: SeenStorages, sessions: Iterable[SessionState]) -> dict[str, int]:
        total: dict[str, int] = {}
        for session in sessions:
            merge_bytes(total, session.nbytes_by_device(seen))
        return total


def _key(session_id: object) -> str:
    """The id as a string; a missing or empty one means "default"."""
    return "default" if session_id is None or session_id == "" else str(session_id)


def _require_positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
