"""Directory: which session is where, under which epoch, in which state.

Owns the books and their rules. Not here: what is done about a session (`statekit.replicas.moving`).

    D1  A session that lives is in one state: beginning, placed, moving, or closing. Whoever takes
        it out of `placed` is the only one who may put it back, or end it.
    D2  Epochs rise over all sessions: none is used twice, also not for an id that begins anew.
    D3  A session that left is remembered with how and why, up to a bound; one that was lost with
        its replica until it begins anew, is restored, or is closed.

Thread-safe. Calls that wait do so for a session to settle, for a time that they are given.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import attrs

from statekit.books.departures import Departure, Departures
from statekit.errors import ServiceError, SessionExistsError, SessionStateLostError
from statekit.replicas.reports import LostSession, Place, SessionStateName

__all__ = ["Directory", "Entry"]


@attrs.define(eq=False)
class Entry:
    """One session that lives; changed by the directory alone.

    Attributes:
        begun: the epoch at which it began: what was saved before it is of another life.
        rewound: the epoch at which it was last restored from an older snapshot; 0 for never.
        step: how many steps it had done when it came to its owner.
    """

    session_id: str
    model: str
    overrides: Mapping[str, int]
    declared: Mapping[str, int]
    owner: str
    epoch: int
    state: SessionStateName
    begun: int
    rewound: int = 0
    step: int = 0

    def place(self) -> Place:
        """Where it is."""
        return Place(self.session_id, self.owner, self.epoch, self.rewound, self.step)


class Directory:
    """The sessions of a service.

    Args:
        clock: seconds, rising; for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._entries: dict[str, Entry] = {}
        self._gone = Departures()
        self._lost: dict[str, LostSession] = {}
        # Above what an earlier directory has given: stores of snapshots outlive directories.
        self._epoch = time.time_ns() // 1000

    # -- looking -----------------------------------------------------------------------------------

    def where(self, session_id: str, wait_s: float) -> Place:
        """Where a session is served; waits while it begins or moves.

        Raises:
            SessionStateLostError: it does not live; says what became of it.
            ServiceError: it did not settle within `wait_s`.
        """
        with self._changed:
            return self._settled(session_id, wait_s).place()

    def owner(self, session_id: str) -> str | None:
        """The replica that has a session, in whatever state; None where it does not live."""
        with self._changed:
            entry = self._entries.get(session_id)
            return None if entry is None else entry.owner

    def is_over(self, session_id: str, epoch: int) -> bool:
        """Whether a replica that has a session under this epoch has it for nobody any more."""
        with self._changed:
            entry = self._entries.get(session_id)
            if entry is None:
                return epoch <= self._epoch  # else it was given before the books were lost
            return entry.state == "placed" and entry.epoch > epoch

    def count(self) -> dict[str, int]:
        """How many sessions are in which state; lost ones too."""
        with self._changed:
            total: dict[str, int] = {"lost": len(self._lost)} if self._lost else {}
            for entry in self._entries.values():
                total[entry.state] = total.get(entry.state, 0) + 1
            return total

    def lost(self) -> tuple[LostSession, ...]:
        """The sessions that were lost with their replicas, by id."""
        with self._changed:
            return tuple(self._lost[key] for key in sorted(self._lost))

    def on(self, owner: str) -> list[Entry]:
        """Copies of the entries of one replica."""
        with self._changed:
            return [attrs.evolve(one) for one in self._entries.values() if one.owner == owner]

    def coming_to(self, owner: str) -> list[Mapping[str, int]]:
        """What sessions declare that begin on a replica now, and are not in its facts yet."""
        with self._changed:
            every = self._entries.values()
            return [e.declared for e in every if e.owner == owner and e.state == "beginning"]

    def counted(self) -> dict[str, int]:
        """How many sessions each replica has."""
        with self._changed:
            total: dict[str, int] = {}
            for entry in self._entries.values():
                total[entry.owner] = total.get(entry.owner, 0) + 1
            return total

    # -- beginning ---------------------------------------------------------------------------------

    def begin(
        self,
        session_id: str,
        owner: str,
        model: str,
        overrides: Mapping[str, int],
        declared: Mapping[str, int],
    ) -> Entry:
        """A session begins: nobody else may begin it. Raises: SessionExistsError."""
        with self._changed:
            if session_id in self._entries:
                raise SessionExistsError(session_id)
            epoch = self._next()
            entry = Entry(
                session_id, model, dict(overrides), dict(declared), owner, epoch, "beginning", epoch
            )
            self._entries[session_id] = entry
            return entry

    def reroute(self, entry: Entry, owner: str, declared: Mapping[str, int]) -> None:
        """It could not begin there, and is tried elsewhere."""
        with self._changed:
            entry.owner, entry.declared = owner, dict(declared)
            entry.epoch = entry.begun = self._next()

    def abandon(self, entry: Entry) -> None:
        """It did not begin; the id is free, and what was known of an earlier life still is."""
        with self._changed:
            del self._entries[entry.session_id]
            self._changed.notify_all()

    # -- changing ----------------------------------------------------------------------------------

    def take(
        self,
        session_id: str,
        state: SessionStateName,
        wait_s: float,
        owner: str | None = None,
    ) -> Entry:
        """Have a placed session for oneself, to move or to end it.

        Args:
            owner: only if it is on this replica.

        Raises:
            SessionStateLostError: it does not live, or is not there.
            ServiceError: it did not settle within `wait_s`.
        """
        with self._changed:
            entry = self._settled(session_id, wait_s)
            if owner is not None and entry.owner != owner:
                found = f"it has left replica {owner!r}"
                raise ServiceError(f"session {session_id!r}", found, "ask where it is")
            entry.state = state
            return entry

    def take_all(self, owner: str) -> list[Entry]:
        """All placed sessions of a replica, for oneself, moving from now on."""
        with self._changed:
            every = self._entries.values()
            found = [one for one in every if one.owner == owner and one.state == "placed"]
            for entry in found:
                entry.state = "moving"
            return found

    def next_epoch(self) -> int:
        """An epoch that was never used."""
        with self._changed:
            return self._next()

    def settle(self, entry: Entry, owner: str, epoch: int, step: int, *, rewound: bool) -> Place:
        """The session is served there from now on."""
        with self._changed:
            entry.owner, entry.epoch, entry.step, entry.state = owner, epoch, step, "placed"
            if rewound:
                entry.rewound = epoch
            self._gone.forget(entry.session_id)
            self._lost.pop(entry.session_id, None)
            self._changed.notify_all()
            return entry.place()

    def leave(self, entry: Entry, how: str, reason: str) -> None:
        """The session has ended."""
        with self._changed:
            del self._entries[entry.session_id]
            self._lost.pop(entry.session_id, None)
            self._gone.record(entry.session_id, Departure(how, self._clock(), reason))
            self._changed.notify_all()

    def lose(self, entry: Entry, reason: str, saved_step: int | None) -> None:
        """The session was lost with its replica."""
        kept = "no snapshot" if saved_step is None else f"a snapshot of step {saved_step}"
        with self._changed:
            del self._entries[entry.session_id]
            told = f"replica {entry.owner!r} had it; {reason}; there is {kept}"
            departure = Departure("replica died", self._clock(), told)
            self._gone.record(entry.session_id, departure)
            self._lost[entry.session_id] = LostSession(
                entry.session_id, entry.owner, entry.model, reason, saved_step
            )
            self._changed.notify_all()

    def forget_lost(self, session_id: str) -> bool:
        """Take a lost session off the list; whether it was on it."""
        with self._changed:
            return self._lost.pop(session_id, None) is not None

    def departed(self, session_id: str, owner: str, epoch: int, how: str, reason: str) -> None:
        """A replica let go of a session by itself; nothing where that is news of another life."""
        with self._changed:
            entry = self._entries.get(session_id)
            if entry is None or entry.state != "placed":
                return
            if (entry.owner, entry.epoch) == (owner, epoch):
                self.leave(entry, how, reason)

    def learn(self, entry: Entry) -> Entry | None:
        """Take in what a replica says of a session, after the books were lost.

        Returns the entry that is over, where two replicas say that they have it: the one under the
        older epoch.
        """
        with self._changed:
            self._epoch = max(self._epoch, entry.epoch)
            known = self._entries.get(entry.session_id)
            if known is not None and known.epoch >= entry.epoch:
                return entry
            self._entries[entry.session_id] = entry
            return known

    def skip_epochs(self, count: int) -> None:
        """Leave out epochs that may have been given before the books were lost."""
        with self._changed:
            self._epoch += count

    # -- with the lock held ------------------------------------------------------------------------

    def _next(self) -> int:
        self._epoch += 1
        return self._epoch

    def _settled(self, session_id: str, wait_s: float) -> Entry:
        until = time.monotonic() + wait_s
        while True:
            entry = self._entries.get(session_id)
            if entry is None:
                raise self._lost_error(session_id)
            if entry.state == "placed":
                return entry
            left = until - time.monotonic()
            if left <= 0:
                found = f"it is {entry.state}, and was for {wait_s} s"
                raise ServiceError(f"session {session_id!r}", found, "wait longer")
            self._changed.wait(left)

    def _lost_error(self, session_id: str) -> SessionStateLostError:
        gone = self._gone.get(session_id)
        if gone is None:
            reason = "no session of this id is remembered"
            return SessionStateLostError(session_id, "unknown", None, reason)
        return SessionStateLostError(session_id, gone.how, self._clock() - gone.at, gone.reason)
