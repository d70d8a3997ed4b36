"""Thinning: of the sessions that are gone, those are told of that tell something.

Not thread-safe: the recorder's lock guards it.
"""

from __future__ import annotations

from statekit.measure.log import SessionLog

__all__ = ["Hall"]


class Hall:
    """Logs of sessions that are gone, at most `room` of them.

    Attributes:
        kept: those that are told of.
        left_out: how many are not: there is at least as much of everything in those that are.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._best: dict[object, tuple[int, int]] = {}  # the most of it, and how many have as much
        self.kept: list[SessionLog] = []
        self.left_out = 0

    def take(self, log: SessionLog) -> None:
        """A session is gone; let go of its log, or of another one, where there is no room."""
        if not log.steps:
            return
        if len(self.kept) < self._room:
            self._keep(log)
            return
        self.left_out += 1
        best = self._best
        if all(best.get(what, (-1, 0))[0] >= number for what, number in log.extremes().items()):
            return
        self._keep(log)
        self.kept.remove(self._superfluous())
        kept, self.kept, self._best = self.kept, [], {}
        for one in kept:
            self._keep(one)

    def _keep(self, log: SessionLog) -> None:
        self.kept.append(log)
        for what, number in log.extremes().items():
            most, count = self._best.get(what, (-1, 0))
            if number > most:
                self._best[what] = (number, 1)
            elif number == most:
                self._best[what] = (most, count + 1)

    def _superfluous(self) -> SessionLog:
        """The newest one that others make up for; where there is none, the one that held least."""
        for log in reversed(self.kept[:-1]):
            if all(self._best[what] > (number, 1) for what, number in log.extremes().items()):
                return log
        return min(self.kept, key=lambda log: log.peak)
