"""Tally: what happened, counted while a simulation runs."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from statekit.simulation.links import LINKS

__all__ = ["Hear", "Tally"]

Hear = Callable[..., Any]
"""Is told what was done, in order: what, the session's id, and what of it."""


class Tally:
    """Counts of one run.

    Attributes:
        moved: bytes by link.
        waits_us: for each use that brought bytes back, how long it waited for them.
        move_waits_us: for each use that came before the bytes of a moved session did, likewise.
        over_us: time that replicas were over a budget, added up.
        planned: how often the planner was asked; placed: likewise the placement.
    """

    __slots__ = (
        "begun",
        "continued",
        "evicted",
        "finished",
        "interrupted",
        "lost",
        "move_waits_us",
        "moved",
        "moves",
        "over_us",
        "parked",
        "placed",
        "planned",
        "rebuilt",
        "refused",
        "released",
        "restored",
        "waits_us",
    )

    def __init__(self) -> None:
        self.begun = self.continued = self.refused = self.finished = 0
        self.interrupted = self.lost = self.evicted = self.released = self.rebuilt = 0
        self.parked = self.restored = self.moves = 0
        self.planned = self.placed = 0
        self.over_us = 0
        self.moved = dict.fromkeys(LINKS, 0)
        self.waits_us: array[int] = array("q")
        self.move_waits_us: array[int] = array("q")
