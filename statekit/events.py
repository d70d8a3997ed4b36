"""What happens to sessions, as typed events, and who is told.

Owns the event classes and the list of subscribers. Events are published by the thread that did
the thing, after every lock of the manager has been given back, in the order in which that thread
did them. A subscriber that raises is reported by a warning and does not stop the others.

`at` is the manager's clock; durations (`took_s`, `waited_s`) are real seconds, whatever that is.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import attrs

__all__ = [
    "DEPARTURES",
    "AboveDeclared",
    "Created",
    "Departed",
    "Dropped",
    "Event",
    "Events",
    "Evicted",
    "Expired",
    "Leased",
    "Lost",
    "NotSaved",
    "OverBudget",
    "ParkFailed",
    "Parked",
    "Rebuilt",
    "Refused",
    "Released",
    "RestoreFailed",
    "Restored",
    "Saved",
]


@attrs.frozen
class Event:
    """Something that happened to a session. `at` is the manager's clock, in seconds."""

    session_id: str
    at: float


@attrs.frozen
class Created(Event):
    """A session began."""

    declared_nbytes: Mapping[str, int]


@attrs.frozen
class Leased(Event):
    """A session is in use; `leases` counts the users, this one included.

    `waited_s` is how long its user waited for that: for room, and for what was parked.
    """

    leases: int
    waited_s: float = 0.0


@attrs.frozen
class Parked(Event):
    """Values were put away, in `took_s`; they come back, bit for bit, with the next use."""

    values: tuple[str, ...]
    tier: str
    nbytes: int
    reason: str
    took_s: float = 0.0


@attrs.frozen
class Restored(Event):
    """Parked values are back from `tier`, in `took_s`."""

    values: tuple[str, ...]
    nbytes: int
    tier: str = ""
    took_s: float = 0.0


@attrs.frozen
class Released(Event):
    """A value was given up; it can be rebuilt from its source."""

    value: str
    nbytes: int
    reason: str


@attrs.frozen
class Rebuilt(Event):
    """A released value holds data again."""

    value: str


@attrs.frozen
class ParkFailed(Event):
    """Values could not be put away; they are where they were."""

    values: tuple[str, ...]
    tier: str
    reason: str


@attrs.frozen
class RestoreFailed(Event):
    """Parked values could not be brought back, so a lease did not begin; they stay parked."""

    values: tuple[str, ...]
    tier: str
    reason: str


@attrs.frozen
class AboveDeclared(Event):
    """A value holds more bytes than its schema declares; said once a session and value."""

    value: str
    nbytes: int
    declared_nbytes: int


@attrs.frozen
class Refused(Event):
    """A new session was not admitted; `device` has no room, or is "sessions" for the table."""

    reason: str
    device: str = ""


@attrs.frozen
class Departed(Event):
    """A session left; `how` is "evicted", "dropped" or "expired".

    `cause` says of an evicted one what there was too much of: "sessions" or "bytes".
    """

    how: str
    reason: str
    cause: str = ""


@attrs.frozen
class Evicted(Departed):
    """A session left the table to make room, or was given up under pressure."""


@attrs.frozen
class Dropped(Departed):
    """A session was ended by its owner."""


@attrs.frozen
class Expired(Departed):
    """A session ended because nobody used it for `idle_timeout_s`."""


DEPARTURES: Mapping[str, type[Departed]] = {
    "evicted": Evicted,
    "dropped": Dropped,
    "expired": Expired,
}


@attrs.frozen
class Saved(Event):
    """A snapshot of the session is in a file."""

    path: str
    nbytes: int


@attrs.frozen
class NotSaved(Event):
    """No snapshot of the session could be written; an older one is as it was."""

    reason: str


@attrs.frozen
class Lost(Event):
    """A client asked to go on with a session that is gone; it was told so, nothing was begun."""

    how: str
    reason: str


@attrs.frozen
class OverBudget(Event):
    """A device is over its budget and nothing more may be released; `session_id` is who grew."""

    device: str
    used_nbytes: int
    budget_nbytes: int


class Events:
    """The subscribers of one manager."""

    def __init__(self) -> None:
        self._subscribers: tuple[Callable[[Event], object], ...] = ()
        self._threads = threading.local()

    def subscribe(self, subscriber: Callable[[Event], object]) -> Callable[[], None]:
        """Tell `subscriber` of every event from now on; the result takes it off again."""
        self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            self._subscribers = tuple(one for one in self._subscribers if one is not subscriber)

        return unsubscribe

    def publish(self, *events: Event) -> None:
        """Tell every subscriber, at the end of `later` where this thread is in one."""
        waiting: list[Event] | None = getattr(self._threads, "waiting", None)
        if waiting is not None:
            waiting.extend(events)
            return
        for event in events:
            for subscriber in self._subscribers:
                _tell(subscriber, event)

    @contextmanager
    def later(self) -> Iterator[None]:
        """What this thread publishes in the body is told after it: for bodies that hold a lock."""
        if getattr(self._threads, "waiting", None) is not None:
            yield
            return
        waiting: list[Event] = []
        self._threads.waiting = waiting
        try:
            yield
        finally:
            self._threads.waiting = None
            self.publish(*waiting)


def _tell(subscriber: Callable[[Event], object], event: Event) -> None:
    try:
        subscriber(event)
    except Exception as error:
        warnings.warn(f"a subscriber failed on {event}: {error!r}", stacklevel=4)
