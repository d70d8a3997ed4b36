"""GroupTable: the sessions that all ranks of a group have, in the order of their use.

Owns what every rank knows alike: it is changed by calls that all ranks make, and by outcomes that
all ranks have. No bytes, no clock but the leader's, and no session object is in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import attrs

__all__ = ["Entry", "GroupTable", "Growth"]

Growth = tuple[str, int, int]
"""Device, bytes that a session gains there, and after how many forwards each time."""


@attrs.define(eq=False)
class Entry:
    """One session.

    Attributes:
        order: of its last use, rising.
        leases: how many users it has.
        uses: how often it was leased.
        away: something of it may be parked on some rank, so its next use is agreed upon.
        dropped: it ends with its last lease.
        growth: what its schema says that a forward adds, on each rank.
        released: what was given up and comes back with its next use, by rank and device.
        used_at: when its last use ended, by this rank's clock; only the leader's counts.
    """

    key: str
    may_be_lost: bool = False
    growth: tuple[Growth, ...] = ()
    order: int = 0
    leases: int = 0
    uses: int = 0
    away: bool = False
    dropped: bool = False
    released: dict[str, int] = attrs.field(factory=dict)
    used_at: float = 0.0


class GroupTable:
    """The entries by id, the least recently used one first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._order = 0

    def get(self, key: str) -> Entry | None:
        """The entry of this id, or None."""
        return self._entries.get(key)

    def add(self, entry: Entry) -> None:
        """Take a session in; it is the most recently used one."""
        self._entries[entry.key] = entry
        self._moved(entry)

    def use(self, entry: Entry) -> None:
        """One user more."""
        entry.leases += 1
        entry.uses += 1
        self._moved(entry)

    def leave(self, entry: Entry, at: float) -> None:
        """One user less; a dropped session leaves with the last one."""
        entry.leases -= 1
        entry.used_at = at
        if self._entries.get(entry.key) is entry:
            self._moved(entry)
            if entry.dropped and not entry.leases:
                del self._entries[entry.key]

    def remove(self, key: str) -> None:
        """Take a session out."""
        self._entries.pop(key, None)

    def next_to_leave(self) -> Entry | None:
        """The least recently used session that is not in use and may be lost."""
        free = (one for one in self._entries.values() if one.may_be_lost and not one.leases)
        return next(free, None)

    def idle_since(self, moment: float) -> list[str]:
        """Ids of sessions whose last use ended before `moment`."""
        return [
            one.key
            for one in self._entries.values()
            if not one.leases and not one.dropped and one.used_at < moment
        ]

    def plain(self) -> list[list[object]]:
        """All of it that ranks must have alike, as plain data."""
        return [
            [one.key, one.order, one.leases, one.may_be_lost, one.away, one.dropped]
            for one in self._entries.values()
        ]

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def _moved(self, entry: Entry) -> None:
        self._order += 1
        entry.order = self._order
        self._entries.move_to_end(entry.key)
