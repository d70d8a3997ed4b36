"""Replica: one manager with budgets, in virtual time.

Owns the occasions on which a manager decides, and their order: admission, growth, return. The rules
are those of `statekit.leasing` and `statekit.room`; a test drives a real manager and a replica with
the same script and compares.

    V1  A decision takes no virtual time; the bytes that it moves do.
    V2  Bytes come back when what was parked to make room for them has left.
"""

from __future__ import annotations

from collections.abc import Iterable

from statekit.simulation.books import merged
from statekit.simulation.picture import parked_label
from statekit.simulation.relief import Relief
from statekit.simulation.session import Session
from statekit.simulation.shape import Away, Vector

__all__ = ["Replica"]

_ROUNDS = 8
"""How often a plan is made anew, as in `statekit.room`."""


class Replica(Relief):
    """One manager."""

    # -- what clients do -------------------------------------------------------------------------

    def begin(self, session: Session, now_us: int) -> bool:
        """A new session, in use; whether it was admitted."""
        self.now_us = now_us
        if not self._has_place() or not self._make_room(session.kind.admitted):
            self._say("refuse", session)
            self.settle()
            return False
        session.home, session.in_use = self, True
        session.shape = session.kind.picture(session.held).whole
        self._add(session, session.shape.busy)
        self._shrink(session)
        self.settle()
        return True

    def take(self, session: Session, now_us: int) -> bool:
        """The session is in use, and what others can give up for it is given up.

        Returns whether all that it needs now has room.
        """
        self.now_us = self._room_at_us = now_us
        shape = session.shape
        self._stop_giving(session)
        session.in_use = True
        self._use(session)
        self._turn(session, shape.busy)
        if not shape.coming or not self.is_over_with(shape.coming):
            return True
        self._carry_out(self._plan(dict(shape.coming)).decisions)
        return not self.is_over_with(shape.coming)

    def bring_back(self, session: Session) -> int:
        """Everything that is parked of a session comes back; when it is there."""
        ready_us = self._bring_back(session) if session.shape.away else self.now_us
        self.settle()
        if session.arrives_us > self.now_us:
            self.tally.move_waits_us.append(session.arrives_us - self.now_us)
        return max(ready_us, session.arrives_us)

    def go_on(self, session: Session, now_us: int) -> int:
        """The session is in use, with everything back; from when on."""
        self.take(session, now_us)
        return self.bring_back(session)

    def end(self, session: Session, now_us: int) -> None:
        """A step has ended: the session holds what it declares then, and nobody uses it."""
        self.now_us = now_us
        self.tally.rebuilt += len(session.shape.released)
        session.shape = session.kind.picture(session.held).whole
        session.in_use = False
        self._turn(session, session.shape.idle)
        self._give(session)
        self._relieve()
        self.settle()

    def step_on(self, session: Session, now_us: int) -> bool:
        """A step has ended and the next one begins at once, if there is nothing to decide.

        True: as `end` and `go_on` would leave it. False: `end` is yet to be called.
        """
        self.now_us = now_us
        shape = session.kind.picture(session.held).whole
        if shape is not session.shape:
            self.tally.rebuilt += len(session.shape.released)
            session.shape = shape
            self._turn(session, shape.busy)
        if self.is_over_with(shape.coming):
            return False
        self._use(session)
        self.settle()
        return True

    def close(self, session: Session, now_us: int) -> None:
        """The session ends."""
        self.now_us = now_us
        if not session.lost:
            self._stop_giving(session)
            self._take_out(session)
        self.settle()

    def admits(self, session: Session, now_us: int) -> bool:
        """Whether there is room for a session that comes from elsewhere; made if need be."""
        self.now_us = now_us
        return self._has_place() and self._make_room(session.kind.admitted)

    def enter(self, session: Session, now_us: int) -> None:
        """A session comes from elsewhere, whole, as one that is in use or not."""
        self.now_us = now_us
        session.home = self
        session.shape = session.kind.picture(session.held).whole
        self._add(session, session.shape.busy if session.in_use else session.shape.idle)
        if not session.in_use:
            self._give(session)
            self._relieve()
        self._shrink(session)
        self.settle()

    # -- occasions -------------------------------------------------------------------------------

    def _make_room(self, declared: Vector) -> bool:
        """Give up what has to be for a new session; whether that is enough."""
        coming = enumerate(merged(self.missing, declared))
        if not self.is_over_with(coming):
            return True
        for _ in range(_ROUNDS):
            extra = merged(self.missing, declared)
            plan = self._plan(dict(enumerate(extra)))
            if self._wants(plan.still_over, declared):
                return False
            if not plan.decisions:
                return True
            self._carry_out(plan.decisions)
        extra = merged(self.missing, declared)
        return not self._wants(self._plan(dict(enumerate(extra))).still_over, declared)

    def _wants(self, over: Iterable[str], declared: Vector) -> bool:
        """Whether one of these devices is one that the session declares bytes on."""
        return any(declared[self.devices.index(device)] for device in over)

    def _relieve(self) -> None:
        """Give up what is over a budget."""
        for _ in range(_ROUNDS):
            if not self.is_over() or not self._carry_out(self._plan().decisions):
                return

    def _bring_back(self, session: Session) -> int:
        shape, ready_us = session.shape, self.now_us
        for away, size in zip(shape.away, shape.parked, strict=True):
            ready_us = max(ready_us, self._fetch(away, size, self._room_at_us))
            self.tally.restored += 1
            self._say("restore", session, parked_label(session.kind, away))
        self._reshape(session, session.kind.picture(session.held).shape((), shape.released))
        self.tally.waits_us.append(ready_us - self.now_us)
        return ready_us

    def read(self, session: Session, now_us: int) -> int:
        """When all that is on disk of a session has been read, to be sent elsewhere."""
        read_us = now_us
        for away, size in zip(session.shape.away, session.shape.parked, strict=True):
            if away.tier == "disk":
                read_us = max(read_us, self._fetch(away, size, now_us))
        return read_us

    def _fetch(self, away: Away, size: int, from_us: int) -> int:
        link = "from disk" if away.tier == "disk" else "from host"
        return self.links.take(link, size, from_us)

    # -- places ---------------------------------------------------------------------------------

    def _has_place(self) -> bool:
        return len(self.sessions) < self.max_sessions or self._next_to_leave() is not None

    def _shrink(self, new: Session) -> None:
        while len(self.sessions) > self.max_sessions:
            session = self._next_to_leave()
            if session is None or session is new:
                return
            self._evict(session)

    def _next_to_leave(self) -> Session | None:
        for session in self.sessions.values():
            if session.kind.may_be_lost and not session.in_use:
                return session
        return None
