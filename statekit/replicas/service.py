"""Service: replicas that serve the sessions of one deployment together.

Owns how a session begins, moves, is restored and ends. A step does not come by here: clients send
it to the replica that has the session. Not here: replicas as such (`statekit.replicas.fleet`), the
books (`statekit.replicas.directory`), how sessions move (`statekit.replicas.moving`), how calls get
about (`statekit.replicas.links`).

    S1  A session begins where the policy says, once, or not at all.
    S2  No lock is held while a replica is called.

Thread-safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from statekit.errors import (
    ReplicaDiedError,
    ServiceError,
    SessionAdmissionError,
    SessionStateLostError,
    StatekitError,
)
from statekit.replicas.directory import Entry
from statekit.replicas.fleet import Fleet
from statekit.replicas.members import Member
from statekit.replicas.reports import Place

__all__ = ["Begin", "Service"]

_FRESH_S = 1.0
"""What a replica has said is believed for so long before a session is refused."""


@attrs.frozen
class Begin:
    """A session has begun: what its model's `begin` returned, and where it is."""

    output: Any
    place: Place


class Service(Fleet):
    """The directory of a deployment, and what it does.

    Args:
        links: to the replicas that there are.
        store: where they keep snapshots; None where they take none.
    """

    def begin(
        self,
        session_id: str,
        model: str | None = None,
        overrides: Mapping[str, int] | None = None,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Begin:
        """Begin a session where it fits.

        Raises:
            SessionExistsError: one of this id lives.
            SessionAdmissionError: it fits nowhere.
            ServiceError: no replica serves the model.
            Exception: what the model raised; nothing of the session is left.
        """
        model, numbers = self._members.model(model), dict(overrides or {})
        tried: set[str] = set()
        refused: StatekitError | None = None
        entry: Entry | None = None
        looked = made_room = False
        self._look_again(session_id)
        try:
            while True:
                found = self._next(model, numbers, tried)
                if found is None:
                    if not looked:
                        looked = True
                        self.check(_FRESH_S)  # sessions may have ended that nobody has told of
                        continue
                    if not made_room and self._make_room(model, numbers):
                        made_room, tried = True, set()
                        continue
                    self._refused += 1
                    raise refused or self._mover.no_room(session_id, model, numbers)
                member, declared = found
                tried.add(member.name)
                if entry is None:
                    entry = self._directory.begin(session_id, member.name, model, numbers, declared)
                else:
                    self._directory.reroute(entry, member.name, declared)
                try:
                    begun = member.link.call(
                        "begin", session_id, entry.epoch, model, numbers, args, kwargs
                    )
                except SessionAdmissionError as error:
                    refused = error
                    self._members.note(member.name, "refused")
                    self._directory.reroute(entry, "", {})  # nothing is promised to it there
                except ReplicaDiedError:
                    self._bury(member)
                else:
                    member.facts = begun.facts
                    self._members.note(member.name, "begun")
                    place = self._directory.settle(
                        entry, member.name, entry.epoch, 0, rewound=False
                    )
                    return Begin(begun.output, place)
        except BaseException:
            if entry is not None:
                self._directory.abandon(entry)
            raise

    def _next(
        self, model: str, overrides: dict[str, int], tried: set[str]
    ) -> tuple[Member, Mapping[str, int]] | None:
        """The replica to try now: as placement says, else one that may find room all the same."""
        try:
            found = self._members.choose(model, overrides, tried)
            if found is None and len(tried) < self.options.asked:
                more = self._members.ask_anyway(model, overrides, tried, 1)
                found = more[0] if more else None
        except ReplicaDiedError as error:  # it was asked what a session declares there
            self._bury(self._members[error.replica])
            return self._next(model, overrides, tried)
        return found

    def _look_again(self, session_id: str) -> None:
        """Where books say that a session lives, ask its replica whether it still does."""
        owner = self._directory.owner(session_id)
        if owner is not None:
            self.suspect(owner)

    def _make_room(self, model: str, overrides: dict[str, int]) -> bool:
        options = self.options
        return self._mover.make_room(model, overrides, options.most_moves, options.wait_s)

    def where(self, session_id: str, wait_s: float | None = None, not_epoch: int = 0) -> Place:
        """Where a session is served; waits while it begins or moves.

        Args:
            not_epoch: an epoch under which its replica has refused it: that one is asked first what
                it has.

        Raises:
            SessionStateLostError: it does not live; says what became of it.
            ServiceError: it did not settle within `wait_s`.
        """
        wait_s = self.options.wait_s if wait_s is None else wait_s
        place = self._directory.where(session_id, wait_s)
        if place.epoch == not_epoch:
            member = self._members[place.owner]
            try:
                self._members.refresh(member)
            except ReplicaDiedError:
                self._bury(member)
            place = self._directory.where(session_id, wait_s)
        return place

    def close(self, session_id: str) -> bool:
        """End a session, wherever it is; whether there was one. A lost one is off the list then.

        Raises:
            ServiceError: it did not settle in time.
            Exception: what the end of one of its objects raised; it is gone all the same.
        """
        try:
            entry = self._directory.take(session_id, "closing", self.options.wait_s)
        except SessionStateLostError:
            self._forget_snapshot(session_id)
            return self._directory.forget_lost(session_id)
        try:
            member = self._members[entry.owner]
            member.facts = member.link.call("close", session_id, entry.epoch)
        except ReplicaDiedError:
            pass  # and the session with it
        finally:
            self._directory.leave(entry, "dropped", "it was closed")
            self._forget_snapshot(session_id)
        return True

    def _forget_snapshot(self, session_id: str) -> None:
        if self._store is not None:
            self._store.drop(session_id)

    def move(self, session_id: str, to: str | None = None) -> Place:
        """Move a session between two of its steps. Raises: as `Mover.move` says."""
        return self._mover.move(session_id, to, self.options.wait_s)

    def restore(
        self, session_id: str, model: str | None = None, overrides: Mapping[str, int] | None = None
    ) -> Place:
        """Begin a session with what its last snapshot holds, one that was lost say.

        Raises:
            SessionExistsError: one of this id lives.
            ServiceError: there is no snapshot of it.
            Exception: why no replica has taken it.
        """
        model = self._members.model(model)
        saved = None if self._store is None else self._store.get(session_id)
        if saved is None:
            found, todo = "there is no snapshot of it", "begin it anew"
            raise ServiceError(f"session {session_id!r}", found, todo)
        return self._mover.begin_with(session_id, model, dict(overrides or {}), saved)
