"""Fleet: the replicas of a service: which there are, which are full, drained or dead.

Owns what becomes of a replica that is added, drained, removed or found dead. Not here: its sessions
(`statekit.replicas.service`).

    O1  A replica that is found dead is fenced first, as far as that can be done; then its sessions
        are restored elsewhere, or listed as lost.
    O2  A replica that drains begins no session; it serves those it has until they have moved.

Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import attrs

from statekit.errors import MoveError, ReplicaDiedError, ServiceError, SessionStateLostError
from statekit.replicas.directory import Directory, Entry
from statekit.replicas.links import Link
from statekit.replicas.members import Member, Members
from statekit.replicas.moving import Mover, RestorePolicy
from statekit.replicas.placement import Placement, least_loaded
from statekit.replicas.reports import Drained, ServiceStatus, SessionStateName
from statekit.replicas.saving import Store

__all__ = ["Fleet", "Options"]

_EPOCHS_SKIPPED = 1_000_000
"""Epochs that may have been given and are held by nobody, when books are made anew."""


@attrs.frozen
class Options:
    """What an operator decides.

    Attributes:
        placement: where new sessions begin.
        restore: what becomes of the sessions of a replica that died.
        asked: how many replicas are asked for room all the same where placement finds none, for
            they may park or release; 0 makes its word final.
        most_moves: how many idle sessions may move to make room for a new one.
        wait_s: how long to wait for a session that begins, moves, or is in a step.
    """

    placement: Placement = least_loaded
    restore: RestorePolicy = "last-snapshot"
    asked: int = 3
    most_moves: int = 2
    wait_s: float = 30.0


class Fleet:
    """The replicas of a deployment.

    Args:
        links: to the replicas that there are.
        store: where they keep snapshots; None where they take none.
    """

    def __init__(
        self,
        links: Iterable[Link] = (),
        *,
        store: Store | None = None,
        options: Options | None = None,
    ) -> None:
        self.options = options or Options()
        self._store = store
        self._directory = Directory()
        self._members = Members(self._directory, self.options.placement, store)
        self._mover = Mover(
            self._directory,
            self._members,
            store,
            self.options.restore,
            self.options.asked,
            self._bury,
        )
        self._failing: list[threading.Thread] = []
        self._refused = 0
        for link in links:
            self._members.add(link)

    def add(self, link: Link) -> None:
        """A replica serves from now on. Raises: ServiceError, ReplicaDiedError."""
        self._members.add(link)

    def drain(self, name: str) -> Drained:
        """Move all sessions of a replica elsewhere; no more will begin there.

        Those that cannot move stay, and are served; ask again for them later.

        Raises:
            ServiceError: there is no such replica.
        """
        member = self._members[name]
        if member.state == "serving":
            member.state = "draining"
        moved: dict[str, str] = {}
        stayed: dict[str, str] = {}
        while True:
            todo = [one.session_id for one in self._directory.on(name)]
            todo = [one for one in todo if one not in stayed]
            if not todo:
                return Drained(moved, stayed)
            for session_id in todo:
                why = self._move_away(session_id, name)
                owner = self._directory.owner(session_id)
                if why:
                    stayed[session_id] = why
                elif owner is not None:  # else it has ended
                    moved[session_id] = owner

    def _move_away(self, session_id: str, name: str) -> str:
        """Move a session off a replica; why it is still there, or nothing."""
        try:
            self._mover.move(session_id, None, self.options.wait_s)
        except (MoveError, ServiceError) as error:
            return str(error) if self._directory.owner(session_id) == name else ""
        except SessionStateLostError:  # it has ended
            return ""
        return ""

    def remove(self, name: str) -> None:
        """Forget a replica that has no sessions any more, and end it.

        Raises:
            ServiceError: it has sessions, or there is no such replica.
        """
        member = self._members[name]
        count = len(self._directory.on(name))
        if count and member.state != "dead":
            todo = "drain it first"
            raise ServiceError(f"replica {name!r}", f"it has {count} sessions", todo)
        self._members.remove(name)
        member.link.kill()

    def suspect(self, name: str) -> bool:
        """Somebody could not reach a replica: find out, and act on it; whether it is dead.

        Its sessions are restored or listed as lost meanwhile; `where` waits for that.
        """
        try:
            member = self._members[name]
        except ServiceError:
            return True
        if member.state == "dead":
            self._bury(member)  # a session may have come to it while it died
            return True
        try:
            self._members.refresh(member)
        except ReplicaDiedError:
            self._bury(member)
            return True
        return False

    def check(self, older_s: float = 0.0) -> tuple[str, ...]:
        """Ask every replica what it has; the names of those that are dead.

        Args:
            older_s: only those that were not asked for so long.
        """
        now = time.monotonic()
        due = [one for one in self._members.every() if now - one.seen_at >= older_s]
        return tuple(one.name for one in due if self.suspect(one.name))

    def _bury(self, member: Member) -> None:
        """A replica is dead: fence it, and see to its sessions, in a thread of its own."""
        if self._members.mark_dead(member):
            member.link.kill()
        entries = self._directory.take_all(member.name)
        if not entries:
            return

        def see_to_them() -> None:
            for entry in entries:
                self._mover.recover(entry, f"replica {member.name!r} died")

        thread = threading.Thread(target=see_to_them, name="statekit-failover", daemon=True)
        self._failing = [one for one in self._failing if one.is_alive()] + [thread]
        thread.start()

    def status(self, *, fresh: bool = True) -> ServiceStatus:
        """All replicas and sessions; with `fresh`, each replica is asked first."""
        if fresh:
            self.check()
        every = self._members.every()
        return ServiceStatus(
            self._members.status(every),
            self._directory.count(),
            self._directory.lost(),
            self._refused,
        )

    def settled(self, wait_s: float) -> bool:
        """Wait until no session is on its way from a dead replica; whether that is so."""
        for thread in tuple(self._failing):
            thread.join(wait_s)
        return not any(one.is_alive() for one in self._failing)

    def learn(self) -> int:
        """Make the books anew out of what the replicas have; how many sessions there are.

        For a directory that has died, and its books with it. Where two replicas have one session,
        the younger epoch counts. A session that was about to move goes on where it is.
        """
        frozen: list[Entry] = []
        for member in self._members.every():
            for held in member.link.call("report").sessions:
                state: SessionStateName = "moving" if held.frozen else "placed"
                entry = Entry(
                    held.session_id, held.model, held.overrides, held.declared, member.name,
                    held.epoch, state, held.begun, held.rewound, held.step,
                )  # fmt: skip
                over = self._directory.learn(entry)
                if over is not None:
                    self._members[over.owner].link.call("forget", over.session_id, over.epoch)
                if held.frozen and over is not entry:
                    frozen.append(entry)
        self._directory.skip_epochs(_EPOCHS_SKIPPED)
        for entry in frozen:
            self._mover.stay(entry)
        return sum(self._directory.counted().values())
