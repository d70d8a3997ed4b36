"""Events as records of the standard library's logging: a message, and its data as fields.

Owns the words and the level of each event. The logger `statekit` has a handler that does nothing,
so that a program which never set logging up sees nothing.

    G1  An event whose level is off costs one look-up.
    G2  A message is one line: session ids and reasons, which come from elsewhere, are escaped.
    G3  Fields keep what the event says, under its own names, and `event`: what kind it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from statekit.events import (
    DEPARTURES,
    AboveDeclared,
    Created,
    Departed,
    Event,
    Evicted,
    Leased,
    Lost,
    NotSaved,
    OverBudget,
    Parked,
    ParkFailed,
    Rebuilt,
    Refused,
    Released,
    Restored,
    RestoreFailed,
    Saved,
)

if TYPE_CHECKING:
    from statekit.manager import SessionStateManager

__all__ = [
    "KINDS",
    "LEVELS",
    "is_warning",
    "level_of",
    "log_events",
    "message_of",
    "name_of",
    "name_of_kind",
]

LEVELS: dict[type[Event], int] = {
    AboveDeclared: logging.WARNING,
    Created: logging.INFO,
    Departed: logging.INFO,
    Evicted: logging.INFO,
    Leased: logging.DEBUG,
    Lost: logging.WARNING,
    NotSaved: logging.WARNING,
    OverBudget: logging.WARNING,
    ParkFailed: logging.WARNING,
    Parked: logging.INFO,
    Rebuilt: logging.DEBUG,
    Refused: logging.WARNING,
    Released: logging.INFO,
    RestoreFailed: logging.WARNING,
    Restored: logging.INFO,
    Saved: logging.DEBUG,
}
"""Event to its level; what is not listed has that of its base class."""

_WORDS: dict[type[Event], str] = {
    AboveDeclared: "{value} holds {nbytes} bytes, {declared_nbytes} are declared",
    Created: "begins",
    Departed: "{how}: {reason}",
    Leased: "in use by {leases}, after {waited_s:.3f} s",
    Lost: "cannot be continued, it was {how}: {reason}",
    NotSaved: "no snapshot: {reason}",
    OverBudget: "{device} holds {used_nbytes} bytes of {budget_nbytes}, nothing more can go",
    ParkFailed: "{values} not parked on {tier}: {reason}",
    Parked: "{values} parked on {tier}, {nbytes} bytes in {took_s:.3f} s: {reason}",
    Rebuilt: "{value} holds data again",
    Refused: "refused: {reason}",
    Released: "{value} released, {nbytes} bytes: {reason}",
    RestoreFailed: "{values} not back from {tier}: {reason}",
    Restored: "{values} back from {tier}, {nbytes} bytes in {took_s:.3f} s",
    Saved: "saved in {path}, {nbytes} bytes",
}


KINDS: tuple[type[Event], ...] = tuple(
    sorted(
        {*LEVELS, *DEPARTURES.values()} - {Departed},  # which is what those three have in common
        key=lambda kind: kind.__name__,
    )
)
"""Every kind of event that there is."""


def log_events(
    manager: SessionStateManager, logger: logging.Logger | str | None = None
) -> Callable[[], None]:
    """Log every event of `manager` from now on; the result ends it.

    Args:
        logger: or its name; None is `statekit`. `statekit.robots` sets one manager apart and still
            obeys what is set for `statekit`.
    """
    if not isinstance(logger, logging.Logger):
        logger = logging.getLogger(logger or "statekit")
    enabled, log = logger.isEnabledFor, logger.log

    def hear(event: Event) -> None:
        level = level_of(type(event))
        if enabled(level):
            fields = {field.name: getattr(event, field.name) for field in attrs.fields(type(event))}
            log(level, "%s", message_of(event), extra={"event": name_of(event), **fields})

    return manager.subscribe(hear)


def message_of(event: Event) -> str:
    """One line that says what happened."""
    words = next(_WORDS[cls] for cls in type(event).__mro__ if cls in _WORDS)
    told = {field.name: _line(getattr(event, field.name)) for field in attrs.fields(type(event))}
    return f"session {event.session_id!r}: {words.format(**told)}"


def name_of(event: Event) -> str:
    """What kind of event it is: `parked`, `over_budget`."""
    return name_of_kind(type(event))


def name_of_kind(kind: type[Event]) -> str:
    """The same, of all events of a class."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def is_warning(event: Event) -> bool:
    """Whether an operator should see it."""
    return level_of(type(event)) >= logging.WARNING


def level_of(cls: type[Event]) -> int:
    """The level of all events of a class."""
    level = LEVELS.get(cls)
    if level is None:
        level = LEVELS[cls] = next((LEVELS[one] for one in cls.__mro__ if one in LEVELS), 20)
    return level


def _line(value: object) -> object:
    """A text without anything that could end or disguise a line."""
    if isinstance(value, tuple):
        return ", ".join(str(_line(one)) for one in value)
    if isinstance(value, str):
        return value if value.isprintable() else repr(value)[1:-1]
    return value


logging.getLogger("statekit").addHandler(logging.NullHandler())
