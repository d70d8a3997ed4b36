"""Crowd: what the sessions of each model hold together, and the most of it.

Not thread-safe: the recorder's lock guards it.
"""

from __future__ import annotations

from collections.abc import Sequence

from statekit.measure.log import SessionLog
from statekit.measure.recording import Together

__all__ = ["Crowd"]


class Crowd:
    """The sessions that live, as of the last step of each."""

    def __init__(self) -> None:
        self._now: dict[SessionLog, tuple[str, int]] = {}
        self._sums: dict[str, tuple[int, int]] = {}
        self._most: dict[str, Together] = {}

    def holds(self, log: SessionLog, models: Sequence[str], nbytes: int) -> None:
        """A session has taken a step, after which it holds so much."""
        self.leaves(log)
        model = models[0] if models else ""
        self._now[log] = (model, nbytes)
        self._add(model, nbytes, 1)
        total, count = self._sums[model]
        if total > (self._most[model].nbytes if model in self._most else -1):
            self._most[model] = Together(total, count)

    def leaves(self, log: SessionLog) -> None:
        """A session is gone."""
        known = self._now.pop(log, None)
        if known is not None:
            self._add(known[0], -known[1], -1)

    def most(self) -> dict[str, Together]:
        """The most at once, by model."""
        return dict(self._most)

    def _add(self, model: str, nbytes: int, sessions: int) -> None:
        total, count = self._sums.get(model, (0, 0))
        self._sums[model] = (total + nbytes, count + sessions)
