"""SessionStateManager: which sessions exist, who uses them, and what they may hold.

Owns the rules: begin and continue, leases, eviction by count, drops, expiry, and when budgets are
looked at. Not here: the table (`statekit.table`), what a session holds (`statekit.session`), how
bytes are counted (`statekit.accounting`, `statekit.books`), what is given up under pressure and how
(`statekit.pressure`), snapshots (`statekit.snapshot`).

    M1  `len(manager) <= max_sessions` whenever no call is under way, sessions aside that are
        leased or may not be lost, and one that was asked for last.
    M2  One id, one live state: a session that left the table by eviction and is still held by
        somebody is found again by its id, not shadowed by a second one.
    M3  A session's bytes are counted as long as anybody holds it, in the table or out of it.
    M4  The lock guards the table alone: no value is walked or copied, no buffer freed, no file
        touched, no callback made while it is held.
    M5  What is leased is never parked, released, evicted or dropped before the lease ends.

Thread-safe; the kind of lock is the owner's choice.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from statekit.books.ledger import Ledger
from statekit.books.record import Record
from statekit.declared import ONE_RANK, Ranks
from statekit.events import Event, Events
from statekit.lease import Lease
from statekit.leasing import Leasing
from statekit.measure.registry import announce
from statekit.pressure.admission import require_one_fits
from statekit.pressure.budget import Budgets, FreeBytes
from statekit.pressure.explain import Explanation, explain
from statekit.pressure.plan import Plan, Policy
from statekit.pressure.planner import plan_release
from statekit.pressure.promise import promise
from statekit.pressure.relief import Relief
from statekit.pressure.tiers import open_tiers
from statekit.roll import Roll
from statekit.room import Room
from statekit.session import SessionState
from statekit.snapshot.archive import Archive
from statekit.snapshot.methods import SnapshotMethods
from statekit.spec import ModelSpec
from statekit.stats import stats
from statekit.table import DEFAULT_MAX_SESSIONS, SessionTable, key_of, require_positive

__all__ = ["DEFAULT_MAX_SESSIONS", "SessionStateManager"]


class SessionStateManager(SnapshotMethods):
    """Sessions by id, within bounds.

    With `max_sessions` alone, the least recently used session leaves the table beyond it. With
    budgets, sessions are used under leases: a new one is admitted only if its declared bytes fit,
    and what is over a budget is released, parked, or evicted where the schema allows it.

    Args:
        max_sessions: how many sessions the table keeps.
        byte_budget: bytes over all devices, recorded for the owner; `budgets` are what is enforced.
        lock_factory: makes the table's lock; `contextlib.nullcontext` for an owner with one thread.
        budgets: the most bytes by device (`"cpu"`, `"cuda:0"`, `"disk"`): a number of bytes, a text
            such as `"40GiB"`, a fraction of what is free now (`0.5`, `"50%"`), or None.
        specs: models that will be served; refused here if a budget cannot hold even one session.
        model_device: the device that schemas call `model`.
        park_folder: where values are parked on disk; None parks nothing there.
        policy: decides what is given up; a pure function of recorded facts.
        idle_timeout_s: sessions under leases that nobody used for so long end; None keeps them.
        ranks: the ranks that a model runs on, and which of them this is: what a session declares is
            what it holds here. Ranks that decide together: `statekit.distributed`.
        clock: seconds, rising; for tests.

    Raises:
        ValueError, TypeError: a size is no whole number above 0.
        BudgetError: a budget cannot be read, or names no device.
        BudgetTooSmallError: a budget cannot hold one session of one of `specs`.
    """

    def __init__(
        self,
        max_sessions: int = DEFAULT_MAX_SESSIONS,
        byte_budget: int | None = None,
        lock_factory: Callable[[], AbstractContextManager[Any]] = threading.Lock,
        *,
        budgets: Mapping[str, object] | None = None,
        specs: Iterable[ModelSpec] = (),
        model_device: str = "cpu",
        park_folder: str | Path | None = None,
        policy: Policy = plan_release,
        idle_timeout_s: float | None = None,
        ranks: Ranks = ONE_RANK,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require_positive("max_sessions", max_sessions)
        if byte_budget is not None:
            require_positive("byte_budget", byte_budget)
        if idle_timeout_s is not None and not idle_timeout_s > 0:
            raise ValueError(f"idle_timeout_s must be above 0, got {idle_timeout_s}")
        folder = None if park_folder is None else Path(park_folder)
        self.byte_budget = byte_budget
        self.model_device = model_device
        self.idle_timeout_s = idle_timeout_s
        self.ranks = ranks
        self.budgets = Budgets.parse(budgets, FreeBytes(folder)).limits
        for spec in specs:
            promised_here = promise(spec, model_device, ranks=ranks).by_device
            require_one_fits(self.budgets, spec, promised_here)
        self._clock = clock
        self._table = SessionTable(max_sessions, lock_factory(), clock)
        ledger, self._events = Ledger(), Events()
        self._relief = Relief(
            self.budgets,
            ledger,
            open_tiers(model_device, folder),
            policy,
            clock,
            self._events.publish,
            lambda key, reason: self._leasing.evict(key, reason),
        )
        self._roll = Roll(self._table, ledger)
        self._room = Room(self._roll, self._relief, self._events, clock)
        self._leasing = Leasing(
            self._table, ledger, self._room, self._events, clock, model_device, ranks
        )
        super().__init__(Archive(self._table, self._leasing, self._events, clock))
        announce(self)

    @property
    def max_sessions(self) -> int:
        """How many sessions the table keeps."""
        return self._table.max_sessions

    # -- today's contract ------------------------------------------------------------------------

    def get_or_create_session(self, session_id: str | None = None) -> SessionState:
        """The session of this id, now the most recently used one; None and "" mean "default".

        A session that is not in the table is made, unless somebody still holds the one that was
        evicted under this id: then that one returns to the table (a miss all the same).
        """
        key = session_id if type(session_id) is str and session_id else key_of(session_id)
        session, left = self._table.find_or_make(key)
        if left:
            self._leasing.say_evicted(left)
        return session

    def drop_session(self, session_id: str | None = None) -> bool:
        """End the session of this id: entry gone, objects reset, carried values cleared.

        One that is leased ends with its last lease; until then nothing of it is touched. Returns
        whether there was one, in the table or evicted and still held by somebody.

        Raises:
            Exception: what the reset of one of its objects raised, an engine's close say; the
                session is gone all the same.
        """
        key = key_of(session_id)
        self._leasing.settle()
        found = self._table.drop(key)
        if found is None:
            return False
        session, leased = found
        if not leased:
            self._leasing.end(session, "dropped", "drop_session was called")
        return True

    def __contains__(self, session_id: object) -> bool:
        """Whether a session of this id is in the table; does not count as a use."""
        return key_of(session_id) in self._table

    def __len__(self) -> int:
        """How many sessions are in the table."""
        return len(self._table)

    def __bool__(self) -> bool:
        """True, so that `manager or default` does not throw an empty manager away."""
        return True

    def nbytes_by_device(self) -> dict[str, int]:
        """Committed bytes of all live sessions by device, each storage once, parked ones too."""
        self._refreshed()
        return self._relief.used()

    def stats(self) -> dict[str, int]:
        """Counters and bytes, as plain numbers for a metrics endpoint.

        Keys: `sessions`, `max_sessions`, `total_nbytes`, `hits`, `misses`, `evictions`,
        `nbytes:<device>`; `staged_nbytes` and `staged_nbytes:<device>` for what steps under way
        have staged or keep to go back to; `parked_nbytes:<tier>`, which is part of `nbytes:cpu`
        (host) or `nbytes:disk`; and `budget_nbytes:<device>`, `over_budget_nbytes:<device>`,
        `leases`.
        """
        return stats(self._table, self._relief, self._refreshed(), self.budgets)

    # -- leases ----------------------------------------------------------------------------------

    def lease(
        self,
        session_id: str | None = None,
        *,
        begin: ModelSpec | None = None,
        overrides: Mapping[str, int] | None = None,
    ) -> Lease:
        """A use of a session, for a `with` block: `with manager.lease(id) as session`.

        Before the body its parked values are brought back; while it runs nothing of the session is
        released, parked, evicted or dropped; after it the accounts are settled.

        Args:
            begin: the model's spec, to begin a new session; None continues one.
            overrides: numbers for the spec's symbols, constants or parameters, where this session's
                differ.

        The returned lease raises when it begins:
            SessionStateLostError: there is no session to continue; says what became of it.
            SessionExistsError: a session of this id lives already and cannot begin.
            SessionAdmissionError: the new session's declared bytes do not fit.
            ParkError: a parked value cannot be brought back now; it stays parked.
            PolicyError: the policy failed; the session is as it was.
        """
        key = key_of(session_id)
        if begin is None:
            return Lease(partial(self._leasing.go_on, key), self._leasing.abandoned)
        self.expire()
        start = partial(self._leasing.begin, key, begin, overrides)
        return Lease(start, self._leasing.abandoned)

    def subscribe(self, subscriber: Callable[[Event], object]) -> Callable[[], None]:
        """Tell `subscriber` of every event, outside all locks; the result takes it off again."""
        return self._events.subscribe(subscriber)

    def explain(self, session_id: str | None = None) -> Explanation:
        """Where each value of a session is, how many bytes, and what would be done next and why.

        Raises:
            SessionStateLostError: there is no such session.
        """
        key = key_of(session_id)
        records = self._refreshed()
        record = self._table.holds(key)
        if record is None:
            raise self._leasing.lost(key)
        return explain(record, self._relief.plan(records), self.budgets)

    def expire(self) -> tuple[str, ...]:
        """End the sessions that were idle for `idle_timeout_s`; also done whenever one begins."""
        if self.idle_timeout_s is None:
            return ()
        self._leasing.settle()
        ended = []
        moment = self._clock() - self.idle_timeout_s
        for key in self._table.idle_since(moment):
            session = self._table.drop_idle(key, moment)
            if session is None:
                continue
            ended.append(key)
            try:
                self._leasing.end(session, "expired", f"idle for more than {self.idle_timeout_s} s")
            except Exception as error:  # not the affair of whoever begins a session
                warnings.warn(f"the end of idle session {key!r} failed: {error!r}", stacklevel=2)
        return tuple(ended)

    def relieve(self) -> Plan:
        """Look at the budgets now and give up what is over them; what was decided.

        Raises:
            PolicyError: the policy failed; nothing was given up.
        """
        self._refreshed()
        return self._room.relieve("")

    def close(self) -> None:
        """End all sessions that are not in use, periodic snapshots, and what is parked.

        Raises:
            Exception: what the end of a session raised first; all others end nevertheless.
        """
        with ExitStack() as every:
            every.callback(self._relief.close)
            self._stop_saving()
            for session in self._table.live():
                every.callback(self.drop_session, session.session_id)

    def _refreshed(self) -> list[Record]:
        """The records of all live sessions, after a look at each."""
        self._leasing.settle()
        return self._roll.refreshed()
