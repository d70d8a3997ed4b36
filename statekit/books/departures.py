"""The departed: what became of sessions that are gone, for those who ask for them again.

A bounded memory: the oldest entry is forgotten first. Holds words and numbers, no state.
"""

from __future__ import annotations

from collections import OrderedDict

import attrs

__all__ = ["Departure", "Departures"]


@attrs.frozen
class Departure:
    """How a session left, when (manager's clock, seconds), and why."""

    how: str
    at: float
    reason: str


class Departures:
    """The last `capacity` sessions that left; not thread-safe, guarded by the manager's lock."""

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[str, Departure] = OrderedDict()

    def record(self, session_id: str, departure: Departure) -> None:
        """Remember that the session left."""
        self._entries[session_id] = departure
        self._entries.move_to_end(session_id)
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def forget(self, session_id: str) -> None:
        """A session of this id began anew."""
        self._entries.pop(session_id, None)

    def get(self, session_id: str) -> Departure | None:
        """What became of the session, or None if it never was or is forgotten."""
        return self._entries.get(session_id)
