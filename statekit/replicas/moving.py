"""Moving: how a session gets from one replica to another, also where the first one is dead.

Owns the order of things. The source freezes the session between two steps and gives a snapshot; the
target takes it in under a new epoch; then the books say so; then the source gives it up.

    G1  At any moment at most one replica serves a session under the epoch that the books know, and
        that one has every step that was answered.
    G2  What goes wrong before the target has the session leaves it where it was, under a new epoch:
        whatever the target did is out of date.
    G3  A session of a dead replica goes on from its last snapshot, or is lost and listed; it is
        never begun anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Literal

from statekit.errors import (
    MoveError,
    ReplicaDiedError,
    ServiceError,
    SessionAdmissionError,
    StaleEpochError,
    StatekitError,
)
from statekit.replicas.directory import Directory, Entry
from statekit.replicas.members import Member, Members
from statekit.replicas.placement import Movable, make_room
from statekit.replicas.reports import Place
from statekit.replicas.saving import Saved, Store

__all__ = ["Mover", "RestorePolicy"]

RestorePolicy = Literal["last-snapshot", "never"]
"""What becomes of the sessions of a replica that died."""


class Mover:
    """Moves the sessions of one service.

    Args:
        store: where snapshots of the sessions are; None where none are taken.
        restore: whether sessions of a dead replica go on from them.
        asked: how many replicas are asked for room all the same where placement finds none.
        bury: what is done about a replica that does not answer: it is fenced before anything else
            is, for it may live.
    """

    def __init__(
        self,
        directory: Directory,
        members: Members,
        store: Store | None,
        restore: RestorePolicy,
        asked: int,
        bury: Callable[[Member], None],
    ) -> None:
        self._directory, self._members, self._store = directory, members, store
        self._restore, self._asked, self._bury = restore, asked, bury

    def move(self, session_id: str, to: str | None, wait_s: float) -> Place:
        """Move a session between two of its steps; where it is then.

        Args:
            to: the replica; None leaves that to placement.
            wait_s: how long to wait for the end of a step.

        Raises:
            SessionStateLostError: it does not live.
            MoveError: it could not be moved, and goes on where it is.
            ServiceError: it did not settle within `wait_s`, or there is no such replica.
        """
        wanted = None if to is None else self._members[to]
        entry = self._directory.take(session_id, "moving", wait_s)
        return self.move_taken(entry, wanted, wait_s)

    def move_taken(self, entry: Entry, to: Member | None, wait_s: float) -> Place:
        """Move a session that is taken; `move` says more."""
        if to is not None and to.name == entry.owner:
            return self._settle(entry, entry.owner, entry.epoch, entry.step)
        source = self._members[entry.owner]
        try:
            saved: Saved = source.link.call("freeze", entry.session_id, entry.epoch, wait_s)
        except ReplicaDiedError as error:
            self._bury(source)
            self.recover(entry, str(error))
            return self._directory.where(entry.session_id, 0)
        except StaleEpochError:
            self._left(entry)
            return self._directory.where(entry.session_id, 0)  # raises
        except BaseException as error:
            raise self._stay(entry, error) from error
        try:
            return self._take_in(entry, saved, to, rewound=False)
        except Exception as error:
            raise self._stay(entry, error) from error

    def _take_in(self, entry: Entry, saved: Saved, to: Member | None, *, rewound: bool) -> Place:
        """Have a replica take a session in, and its owner give it up.

        Raises:
            Exception: why none has taken it.
        """
        source, old = entry.owner, entry.epoch
        refused: Exception | None = None
        for member in [to] if to is not None else self._candidates(entry):
            epoch = self._directory.next_epoch()
            since = entry.begun, epoch if rewound else entry.rewound
            args = entry.session_id, epoch, entry.model, dict(entry.overrides), saved, *since
            try:
                member.facts = member.link.call("restore", *args)
            except ReplicaDiedError as error:
                refused = refused or error
                self._bury(member)
            except Exception as error:
                refused = error
                self._forget(member.name, entry.session_id, epoch)
                if not isinstance(error, SessionAdmissionError):
                    break  # the next one would say the same
            else:
                place = self._settle(entry, member.name, epoch, saved.step, rewound=rewound)
                self._members.note(member.name, "restored" if rewound else "came")
                if not rewound:
                    self._members.note(source, "went")
                self._forget(source, entry.session_id, old)
                return place
        raise refused or self.no_room(entry.session_id, entry.model, entry.overrides)

    def _candidates(self, entry: Entry) -> list[Member]:
        without = {entry.owner}
        chosen = self._members.choose(entry.model, entry.overrides, without)
        first = [] if chosen is None else [chosen[0]]
        more = self._members.ask_anyway(entry.model, entry.overrides, without, self._asked)
        return first + [member for member, _ in more if member not in first]

    def _stay(self, entry: Entry, why: BaseException) -> MoveError:
        """The session goes on where it is; the error to raise."""
        name = f"session {entry.session_id!r}"
        died = self.stay(entry)
        if died is not None:
            found = f"its replica died, or let it go, while it was to move ({died})"
            return MoveError(name, found, "ask where it is")
        return MoveError(name, f"it stays where it is ({why})", "try later, or make room")

    def stay(self, entry: Entry) -> Exception | None:
        """Go on with a frozen session where it is; why not, if it is not there any more."""
        epoch = self._directory.next_epoch()
        owner = self._members[entry.owner]
        try:
            step = owner.link.call("thaw", entry.session_id, entry.epoch, epoch)
        except StaleEpochError as error:
            self._left(entry)
            return error
        except Exception as error:
            if isinstance(error, ReplicaDiedError):
                self._bury(owner)
            self.recover(entry, str(error))
            return error
        self._settle(entry, entry.owner, epoch, step)
        return None

    def _left(self, entry: Entry) -> None:
        """Its replica has let it go by itself: it has expired there, say."""
        how, reason = "unknown", f"replica {entry.owner!r} has it no more"
        with contextlib.suppress(ReplicaDiedError):
            report = self._members.refresh(self._members[entry.owner])
            how, reason = report.departed.get(entry.session_id, (how, reason))
        self._directory.leave(entry, how, reason)

    def _settle(
        self, entry: Entry, owner: str, epoch: int, step: int, *, rewound: bool = False
    ) -> Place:
        return self._directory.settle(entry, owner, epoch, step, rewound=rewound)

    def begin_with(
        self, session_id: str, model: str, overrides: dict[str, int], saved: Saved
    ) -> Place:
        """Begin a session with what a snapshot holds; where it is.

        Raises:
            SessionExistsError: one of this id lives.
            Exception: why no replica has taken it.
        """
        entry = self._directory.begin(session_id, "", model, overrides, {})
        try:
            return self._take_in(entry, saved, None, rewound=True)
        except BaseException:
            self._directory.abandon(entry)
            raise

    # -- after a death -----------------------------------------------------------------------------

    def recover(self, entry: Entry, reason: str) -> None:
        """See what becomes of a session whose replica died: it is somewhere, or lost and listed."""
        saved, problem = self._last(entry)
        step = None if saved is None else saved.step
        if self._restore == "never":
            problem = "sessions of dead replicas are not restored here"
        if saved is None or problem:
            self._members.note(entry.owner, "lost")
            self._directory.lose(entry, problem or reason, step)
            return
        try:
            self._take_in(entry, saved, None, rewound=True)
        except Exception as error:
            self._members.note(entry.owner, "lost")
            self._directory.lose(entry, f"it could not be restored: {error}", step)

    def _last(self, entry: Entry) -> tuple[Saved | None, str]:
        """The last snapshot of this life of a session, or why there is none."""
        if self._store is None:
            return None, "no snapshots are taken"
        try:
            saved = self._store.get(entry.session_id)
        except Exception as error:  # a store is the operator's
            return None, f"its snapshot cannot be read: {error}"
        if saved is None or saved.epoch < entry.begun:
            return None, "no snapshot of it was taken"
        return saved, ""

    # -- making room -------------------------------------------------------------------------------

    def make_room(self, model: str, overrides: dict[str, int], most: int, wait_s: float) -> bool:
        """Move idle sessions so that a new one fits somewhere; whether that was done.

        By what replicas have said last: what has changed since is found out by the moves.
        """
        able = self._members.able(model)
        if len(able) < 2 or not most:
            return False
        movable: list[Movable] = []
        for member in able:
            movable += [
                Movable(held.session_id, member.name, held.declared)
                for held in member.report.sessions
                if not (held.busy or held.frozen)
            ]
        facts = [self._members.facts(member) for member in able]
        room = make_room(able[0].declares(model, overrides), facts, movable, most_moves=most)
        if room is None:
            return False
        try:
            for move in room.moves:
                entry = self._directory.take(move.session_id, "moving", 0, owner=move.source)
                self.move_taken(entry, self._members[move.target], wait_s)
                self._members.refresh(self._members[move.source])
        except StatekitError:  # somebody was faster; the session that wants in is refused
            return False
        return True

    def no_room(
        self, session_id: str, model: str, overrides: Any, without: frozenset[str] = frozenset()
    ) -> StatekitError:
        """The error for a session that fits nowhere, with the figures of the best replica."""
        able = [one for one in self._members.able(model) if one.name not in without]
        if not able:
            found = f"no replica takes sessions of {model} now"
            return ServiceError(f"session {session_id!r}", found, "add a replica, or try later")
        best: list[tuple[int, str, str, int, int, int]] = []
        for member in able:
            facts = self._members.facts(member)
            if facts.sessions >= facts.max_sessions:
                continue
            for device, need in member.declares(model, overrides).items():
                limit = facts.budgets.get(device)
                if limit is not None:
                    free = max(0, limit - facts.promised.get(device, 0))
                    best.append((need - free, member.name, device, need, free, limit))
        if not best:
            most = sum(self._members.facts(one).max_sessions for one in able)
            return SessionAdmissionError(session_id, "sessions", 1, 0, most, ())
        _, name, device, need, free, limit = min(best)
        holders = ((f"replica {name}", limit - free),)
        return SessionAdmissionError(session_id, device, need, free, limit, holders)

    def _forget(self, replica: str, session_id: str, epoch: int) -> None:
        """Tell a replica that a session is over there; else it is told when it reports it."""
        with contextlib.suppress(Exception):
            member = self._members[replica]
            member.facts = member.link.call("forget", session_id, epoch)
