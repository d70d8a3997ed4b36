"""Lane: one session's place in the queue of a replica, and the steps that are on their way.

Owns the data. What happens to it is decided by `statekit.replicas.turns`, under its lock.
"""

from __future__ import annotations

import threading
from typing import Literal

import attrs

from statekit.errors import ServiceError, StepCancelledError

__all__ = ["Call", "Lane", "Limits", "Order", "Outcome"]

Outcome = Literal["not run", "rolled back", "done"]
"""What became of a step that was to be cancelled."""


@attrs.frozen
class Limits:
    """How much one replica takes on.

    Attributes:
        parallel: steps that run at a time, of different sessions.
        queue: steps that may wait, of all sessions.
        queue_per_session: steps of one session that may wait.
        order_wait_s: how long a numbered step waits for the one before it to come.
    """

    parallel: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    queue: int = attrs.field(default=64, validator=attrs.validators.ge(0))
    queue_per_session: int = attrs.field(default=8, validator=attrs.validators.ge(0))
    order_wait_s: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))


@attrs.frozen
class Order:
    """The place of a step among those that a client has submitted.

    Attributes:
        number: how many steps its session has done before it.
        client: who has submitted it.
        line: tells apart the steps of a client that are meant to follow one another: where one of
            them does not run, the client begins another line, of a higher number.
    """

    number: int
    client: str
    line: int


class Lane:
    """One session's place on a replica: its epoch, the steps it has done, and what is under way."""

    __slots__ = (
        "broken_at", "done", "epoch", "frozen", "line", "over", "running", "session_id",
        "waiting",
    )  # fmt: skip

    def __init__(self, session_id: str, epoch: int, done: int) -> None:
        self.session_id, self.epoch, self.done = session_id, epoch, done
        self.running: Call | None = None
        self.waiting: list[Call] = []
        self.frozen = False
        self.line: tuple[str, int] | None = None
        """The client, and its line, whose steps are taken now."""
        self.over: dict[str, int] = {}
        """Client to the last of its lines that is over."""
        self.broken_at: int | None = None
        """The number of a step of the line that did not run; those after it do not either."""


class Call:
    """One step on its way; `key` names it for `cancel`."""

    __slots__ = (
        "_lock", "cancelled", "ended", "error", "go", "key", "lane", "line", "number", "outcome",
    )  # fmt: skip

    def __init__(
        self, lock: threading.Lock, lane: Lane, key: str | None, order: Order | None
    ) -> None:
        self._lock = lock
        self.lane, self.key = lane, key
        self.number = None if order is None else order.number
        self.line = None if order is None else (order.client, order.line)
        self.go: threading.Event | None = None
        self.ended: threading.Event | None = None
        self.error: ServiceError | None = None
        self.cancelled = False
        self.outcome: Outcome | None = None

    def check(self) -> None:
        """Return if nobody has cancelled it. Raises: StepCancelledError."""
        if self.cancelled:
            raise StepCancelledError(self.lane.session_id, "rolled back")

    def close(self) -> None:
        """From now on it is too late to cancel it. Raises: StepCancelledError: it was before."""
        with self._lock:
            self.check()
            self.outcome = "done"
