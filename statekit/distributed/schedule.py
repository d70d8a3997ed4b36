"""Schedule: when a group looks at its bytes though no begin, return or drop asks for it.

Between two looks no rank tells the others what it holds, so when the next one is due must follow
from what all of them know: how many forwards there were, and what the schemas say of them.

    H1  A look is due after `every` forwards, at the latest.
    H2  It is due as soon as the growth that schemas declare may exceed the room that the last look
        found on any rank.
    H3  Room is made before a forward that rebuilds released values, where they may find none.

So what stays within its declaration is over a budget for one forward at the most, and what does not
for `every` forwards. A device on which a look left no room is looked at again by H1 alone: else a
group that has nothing to give up would meet at every forward.
"""

from __future__ import annotations

from collections.abc import Mapping

from statekit.distributed.table import Entry

__all__ = ["Schedule"]


class Schedule:
    """Counts forwards and declared growth since the last look."""

    def __init__(self, every: int) -> None:
        self.every = every
        self._count = 0
        self._room: dict[str, int] = {}
        self._filled = False

    @property
    def due(self) -> bool:
        """Whether the next forward begins with a look."""
        return self._filled or self._count >= self.every

    def looked(self, room: Mapping[str, int]) -> None:
        """A look has found this much room, by rank and device."""
        self._count, self._filled = 0, False
        self._room = {device: nbytes for device, nbytes in room.items() if nbytes >= 0}

    def lacks(self, nbytes: Mapping[str, int]) -> bool:
        """Whether so many bytes, by rank and device, may find no room on a device that had some."""
        return any(self._room.get(device, count) < count for device, count in nbytes.items())

    def forward(self, entry: Entry) -> None:
        """A session is used again."""
        self._count += 1
        for device, nbytes, every in entry.growth:
            if entry.uses > 1 and (entry.uses - 1) % every == 0:
                self._takes(device, nbytes)
        if entry.released:
            for device, nbytes in entry.released.items():
                self._takes(device, nbytes)
            entry.released = {}

    def _takes(self, device: str, nbytes: int) -> None:
        room = self._room.get(device)
        if room is not None:
            self._room[device] = room - nbytes
            self._filled = self._filled or room < nbytes
