"""Books: what one replica holds, kept as sums, so that no decision has to look at all sessions.

Owns the arithmetic that every kind of replica shares. Which sessions come and go, and why, is the
affair of `statekit.simulation.replica` and `statekit.simulation.counting`.

    B1  The sums are those over the sessions' faces: what is used, what is promised and missing,
        what could be given up.
    B2  Time over a budget is counted from the moment at which it is exceeded to that at which it
        is not any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import gt

from statekit.simulation.links import Links
from statekit.simulation.session import Session
from statekit.simulation.shape import Face, Vector
from statekit.simulation.tally import Tally

__all__ = ["Books", "merged"]

_NO_LIMIT = 1 << 62
_NOTHING: dict[int, Face] = {}


class Books:
    """The sums of one replica.

    Attributes:
        sessions: by id, the least recently used one first.
        draining: whether nothing new may begin here.
        number: its place among others; added to `changed` whenever the sums changed.
    """

    def __init__(
        self,
        name: str,
        devices: tuple[str, ...],
        budgets: Mapping[str, int],
        links: Links,
        tally: Tally,
        max_sessions: int,
    ) -> None:
        nothing = _NOTHING.setdefault(len(devices), Face((0,) * (3 * len(devices))))
        self.name = name
        self.devices = devices
        self.budgets = budgets
        self.limits: Vector = tuple([budgets.get(device, _NO_LIMIT) for device in devices])
        self.sums = [0] * (3 * len(devices))
        self.links = links
        self.tally = tally
        self.max_sessions = max_sessions
        self.sessions: dict[str, Session] = {}
        self.draining = False
        self.number = 0
        self.changed: set[int] = set()
        self.now_us = 0
        self._order = 0
        self._over_since_us: int | None = None
        self._stale, self._over = True, False
        self._nothing = nothing

    @property
    def used(self) -> Vector:
        """Bytes that the sessions hold, parked copies included."""
        return tuple(self.sums[: len(self.devices)])

    @property
    def missing(self) -> Vector:
        """Bytes that were promised and are not held yet."""
        return tuple(self.sums[len(self.devices) : 2 * len(self.devices)])

    @property
    def going(self) -> Vector:
        """Bytes that could be given up."""
        return tuple(self.sums[2 * len(self.devices) :])

    def is_over(self) -> bool:
        """Whether any device is over its budget."""
        if self._stale:
            self._stale = False
            self._over = any(map(gt, self.sums, self.limits))  # as long as the shorter one
        return self._over

    def is_over_with(self, coming: Iterable[tuple[int, int]]) -> bool:
        """Whether any is with so many bytes more, by the device's place."""
        over = self.is_over()
        for place, nbytes in coming:
            over |= self.sums[place] + nbytes > self.limits[place]
        return over

    def settle(self) -> None:
        """Note whether a budget is exceeded from now on, by B2."""
        if self.is_over():
            if self._over_since_us is None:
                self._over_since_us = self.now_us
        elif self._over_since_us is not None:
            self.tally.over_us += self.now_us - self._over_since_us
            self._over_since_us = None

    def end_at(self, now_us: int) -> None:
        """The simulation ends."""
        self.now_us = now_us
        if self._over_since_us is not None:
            self.tally.over_us += now_us - self._over_since_us
            self._over_since_us = None

    def _use(self, session: Session) -> None:
        """The session is the most recently used one now."""
        self._order += 1
        session.order = self._order
        session.facts = None
        self.sessions.pop(session.session_id, None)
        self.sessions[session.session_id] = session

    def _turn(self, session: Session, face: Face) -> None:
        """Book the session with another face."""
        old = session.face
        if face is old:
            return
        session.face = face
        self._add_up(old.to(face))

    def _add(self, session: Session, face: Face) -> None:
        """Book a session that was not here."""
        session.face = face
        self._add_up(self._nothing.to(face))
        self._use(session)

    def _take_out(self, session: Session) -> None:
        """Book nothing for a session any more."""
        self._add_up(session.face.to(self._nothing))
        self.sessions.pop(session.session_id, None)

    def _add_up(self, steps: Iterable[tuple[int, int]]) -> None:
        sums = self.sums
        for place, nbytes in steps:
            sums[place] += nbytes
        self._stale = True
        self.changed.add(self.number)


def merged(one: Vector, other: Vector) -> Vector:
    """The sum of both."""
    return tuple([a + b for a, b in zip(one, other, strict=True)])
