"""Counting: one manager of the contract that counts sessions, and looks at no bytes.

Owns what `get_or_create_session` does with 64 sessions and a 65th: the least recently used one
leaves the table, whatever it holds and whoever comes back to it; and who comes back to a session
that has left finds a new, empty one, without a word.
"""

from __future__ import annotations

from collections.abc import Mapping

from statekit.settings import DEFAULT_MAX_SESSIONS
from statekit.simulation.books import Books
from statekit.simulation.links import Links
from statekit.simulation.session import Session
from statekit.simulation.tally import Hear, Tally

__all__ = ["CountingReplica"]


class CountingReplica(Books):
    """One manager; budgets are looked at, to say for how long they were exceeded, and not kept."""

    def __init__(
        self,
        name: str,
        devices: tuple[str, ...],
        budgets: Mapping[str, int],
        links: Links,
        tally: Tally,
        *,
        max_sessions: int = DEFAULT_MAX_SESSIONS,
        hear: Hear | None = None,
    ) -> None:
        super().__init__(name, devices, budgets, links, tally, max_sessions)
        self._hear = hear

    def begin(self, session: Session, now_us: int) -> bool:
        """A new session, in use; always admitted."""
        self.now_us = now_us
        self._make(session)
        self.settle()
        return True

    def go_on(self, session: Session, now_us: int) -> int:
        """The session of this id is in use: as it was, or a new one in its place."""
        self.now_us = now_us
        if session.lost:
            session.held = 0
            session.lost = False
            session.losses += 1
            self.tally.lost += 1
            self._make(session)
        else:
            session.in_use = True
            self._use(session)
        self.settle()
        return now_us

    def end(self, session: Session, now_us: int) -> None:
        """A step has ended."""
        self.now_us = now_us
        session.in_use = False
        session.shape = session.kind.picture(session.held).whole
        if session.lost:  # nobody holds it any more
            self._take_out(session)
        else:
            self._turn(session, session.shape.busy)
        self.settle()

    def step_on(self, session: Session, now_us: int) -> bool:
        """Never at once: the session may have left the table."""
        return False

    def close(self, session: Session, now_us: int) -> None:
        """The session ends."""
        self.now_us = now_us
        if not session.lost:
            self._take_out(session)
        self.settle()

    def _make(self, session: Session) -> None:
        session.home, session.in_use = self, True
        session.shape = session.kind.picture(session.held).whole
        self._add(session, session.shape.busy)
        while len(self.sessions) > self.max_sessions:
            self._evict(next(iter(self.sessions.values())))

    def _evict(self, session: Session) -> None:
        self.tally.evicted += 1
        if self._hear is not None:
            self._hear("evict", session.session_id, "")
        del self.sessions[session.session_id]
        session.lost = True
        if not session.in_use:  # else its bytes stay as long as the step under way holds it
            self._take_out(session)
