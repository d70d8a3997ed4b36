"""One session of a simulation: numbers where a real one has values.

Owns what a replica changes of it. Its replica keeps the books (`statekit.simulation.replica`).
"""

from __future__ import annotations

from typing import Protocol

from statekit.pressure.plan import SessionFacts
from statekit.simulation.kind import Kind
from statekit.simulation.shape import Face, Shape

__all__ = ["Home", "Session"]


class Home(Protocol):
    """Where a session is: a replica of any kind."""

    @property
    def draining(self) -> bool:
        """Whether its sessions are to go elsewhere."""

    def go_on(self, session: Session, now_us: int) -> int:
        """The session is in use; from when on it has all its bytes."""

    def end(self, session: Session, now_us: int) -> None:
        """A step has ended, and nobody uses the session."""

    def step_on(self, session: Session, now_us: int) -> bool:
        """A step has ended and the next one begins at once, if there is nothing to decide."""

    def close(self, session: Session, now_us: int) -> None:
        """The session ends."""


class Session:
    """One session.

    Attributes:
        pauses: how long its client waits after each step but the last, in microseconds.
        step: how many steps it has ended.
        held: how many steps its state is from; fewer than `step` where it began anew unasked.
        order: of its last use, rising.
        in_use: whether a step is under way.
        lost: whether its state is gone while its client goes on; losses: how often that was so.
        arrives_us: when its bytes are where it is, after a move.
        shape: what it holds; face: what is booked for it.
        home: the replica that it belongs to, whether it still has it or not.
    """

    __slots__ = (
        "arrives_us",
        "face",
        "facts",
        "held",
        "home",
        "in_use",
        "kind",
        "losses",
        "lost",
        "order",
        "pauses",
        "session_id",
        "shape",
        "step",
    )

    def __init__(self, session_id: str, kind: Kind, pauses: list[int]) -> None:
        self.session_id = session_id
        self.kind = kind
        self.pauses = pauses
        self.step = 0
        self.held = 0
        self.order = 0
        self.in_use = False
        self.lost = False
        self.losses = 0
        self.arrives_us = 0
        self.shape: Shape = kind.picture(0).whole
        self.face: Face = self.shape.idle
        self.facts: SessionFacts | None = None
        self.home: Home | None = None

    def told(self) -> SessionFacts:
        """What the planner is told of it while nobody uses it; remembered."""
        if self.facts is None:
            may_be_lost = self.kind.may_be_lost
            self.facts = SessionFacts(
                self.session_id, self.order, False, may_be_lost, self.shape.values
            )
        return self.facts
