"""Client: the way of a step, to wherever its session is.

Owns what one client knows of sessions and replicas, and what it does where that is out of date. Not
here: what can be asked (`statekit.replicas.sessions`).

    C1  A step that this client sends runs at most once. Where it is not known whether it ran, the
        caller is told by an error.
    C2  A session that moved goes on without a word; one that was restored from an older snapshot is
        told of, once, before the next step.

Thread-safe.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from statekit.errors import (
    ReplicaDiedError,
    ServiceError,
    SessionRewoundError,
    SessionStateLostError,
    StaleEpochError,
    StepUnknownError,
)
from statekit.replicas.lane import Order
from statekit.replicas.links import Link
from statekit.replicas.reports import Done, Place

__all__ = ["Client", "Known"]

_TRIES = 20
"""How often a step that was refused is sent again, to where its session is then."""


class Known:
    """What a client knows of a session.

    `seen` steps are known to be done; the next one that is submitted has the number `sent`. Where
    one that was submitted did not run, those after it did not either: numbers go back to it, once
    for all of them, and another line begins.
    """

    __slots__ = ("line", "place", "seen", "sent")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.seen: int | None = None
        self.sent: int | None = None
        self.line = 0

    def learn(self, place: Place) -> tuple[int | None, bool]:
        """The session is elsewhere; how many steps were known to be done, and whether it has fewer.

        A session that moved has them all, whatever a directory says that has lost its books.
        """
        seen, fewer = self.seen, False
        if place.epoch > self.place.epoch:
            moved = place.owner != self.place.owner
            fewer = moved and seen is not None and place.step < seen
            if fewer or place.rewound > self.place.epoch:
                self.seen = self.sent = place.step
                self.line += 1
            self.place = place
        return seen, fewer

    def count(self, place: Place, step: int) -> None:
        """So many steps were done when it was there."""
        if place.epoch >= self.place.rewound:  # else they have been undone since
            self.seen = max(step, self.seen or 0)
            self.sent = max(step, self.sent or 0)

    def lose_count(self) -> None:
        """It is not known how many it has done."""
        self.line, self.sent = self.line + 1, None

    def go_back(self, line: int, number: int) -> None:
        """The step of this number did not run."""
        if line == self.line:
            self.line, self.sent = line + 1, number

    def next(self, client: str) -> Order:
        """The place of the next step that is submitted."""
        order = Order(self.sent or 0, client, self.line)
        self.sent = order.number + 1
        return order


class Client:
    """What a client knows, and its way to replicas.

    Args:
        service: the link to the directory.
        link_to: makes a link to the replica of a name.
    """

    def __init__(self, service: Link, link_to: Callable[[str], Link]) -> None:
        self._service, self._link_to = service, link_to
        self._links: dict[str, Link] = {}
        self._known: dict[str, Known] = {}
        self._lock = threading.Lock()
        self._client = uuid.uuid4().hex
        self._calls = itertools.count()

    def carried(
        self,
        session_id: str,
        known: Known,
        run: Callable[[Place], Any],
        sent_to: Place | None = None,
        number: int | None = None,
    ) -> Any:
        """The output of a step, sent again to where its session is as long as it has not run."""
        before = known.seen if number is None else number
        place = sent_to or known.place
        for attempt in range(_TRIES):
            if attempt > 2:
                time.sleep(0.002 * 2 ** min(attempt, 7))
            answer = self._once(session_id, known, run, place, before)
            if isinstance(answer, Place):
                place = answer
                continue
            known.count(place, answer.step)
            return answer.output
        found = f"it could not be reached at {_TRIES} places in a row"
        raise ServiceError(f"session {session_id!r}", found, "look at status()")

    def _once(
        self,
        session_id: str,
        known: Known,
        run: Callable[[Place], Any],
        place: Place,
        before: int | None,
    ) -> Done | Place:
        """What the step gave, or where its session is instead; then it has not run."""
        try:
            done: Done = run(place)
        except StaleEpochError:
            return self._find_again(session_id, known, place)
        except ReplicaDiedError as error:
            self._service.call("suspect", place.owner)
            self._links.pop(place.owner, None)
            now = self._find_again(session_id, known, place)
            left = now.owner != place.owner
            if left and before is not None and now.step <= before:
                return now  # it left before this step had run, and runs no more where it was
            known.lose_count()
            raise StepUnknownError(session_id, str(error)) from error
        return done

    def _find_again(self, session_id: str, known: Known, old: Place) -> Place:
        """Where a session is that is not where it was.

        Raises:
            SessionStateLostError, ServiceError: as `step`.
            SessionRewoundError: it was restored from an older snapshot.
        """
        place = self._where(session_id, old.epoch)
        with self._lock:
            seen, fewer = known.learn(place)
        if place.rewound > old.epoch or fewer:
            raise SessionRewoundError(session_id, place.step, seen)
        return place

    def _locate(self, session_id: str) -> Known:
        return self._known.setdefault(session_id, Known(self._where(session_id, 0)))

    def _where(self, session_id: str, not_epoch: int) -> Place:
        try:
            place: Place = self._service.call("where", session_id, None, not_epoch)
        except SessionStateLostError:
            self._known.pop(session_id, None)
            raise
        return place

    def link(self, name: str) -> Link:
        link = self._links.get(name)
        if link is None:
            link = self._links[name] = self._link_to(name)
        return link
