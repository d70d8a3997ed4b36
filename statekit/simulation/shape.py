"""Shapes: the states that a session can be in, each made once for all sessions that are in it.

Owns the words alone: what is parked where, what a replica books for a session, what the planner is
told of it. How they follow from a schema is `statekit.simulation.picture`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import attrs

from statekit.pressure.plan import ValueFacts
from statekit.spec import Tier

__all__ = ["TIERS", "Away", "Face", "Shape", "TierSize", "Vector"]

Vector = tuple[int, ...]
"""Bytes by device, in the order of a deployment's devices."""


@attrs.frozen
class TierSize:
    """What a tier takes for a parked unit: whole chunks, and a head."""

    chunk_nbytes: int = 1
    head_nbytes: int = 0

    @property
    def takes_nbytes(self) -> int:
        """What a unit takes beyond its bytes, at most."""
        return self.chunk_nbytes - 1 + self.head_nbytes

    def parked(self, nbytes: int) -> int:
        """What so many bytes take."""
        return self.head_nbytes - (-nbytes // self.chunk_nbytes) * self.chunk_nbytes


TIERS: Mapping[Tier, TierSize] = {
    "host": TierSize(chunk_nbytes=8 << 20),
    "disk": TierSize(head_nbytes=4096),
}
"""As `statekit.parking` takes them."""


class Away(NamedTuple):
    """Units, by their numbers, that are parked together."""

    units: tuple[int, ...]
    tier: Tier


class Face:
    """What a replica books for a session, in use or not.

    Attributes:
        sums: three vectors behind each other: what it holds, parked copies included; what it was
            promised and does not hold; what of the first could be given up now.
        touches: devices on which something could be given up.
    """

    __slots__ = ("_steps", "sums", "touches")

    def __init__(self, sums: Vector, touches: tuple[str, ...] = ()) -> None:
        self.sums = sums
        self.touches = touches
        self._steps: dict[Face, tuple[tuple[int, int], ...]] = {}

    def to(self, other: Face) -> tuple[tuple[int, int], ...]:
        """By how much which sums differ from another face's; remembered, as few pairs occur."""
        found = self._steps.get(other)
        if found is None:
            pairs = enumerate(zip(self.sums, other.sums, strict=True))
            found = tuple([(place, new - old) for place, (old, new) in pairs if new != old])
            self._steps[other] = found
        return found


@attrs.frozen(eq=False)
class Shape:
    """One state of a session: its bytes at a step, and what of them is parked or released.

    Attributes:
        busy: what is booked while it is in use.
        idle: what is booked while nobody uses it.
        values: what the planner is told of it while nobody uses it.
        coming: what has to be there for its next use, beyond what it holds: place and bytes.
        held_nbytes: bytes of all that it holds.
        away: what is parked, oldest first.
        released: units that were released.
        parked: bytes of each parked copy.
    """

    busy: Face
    idle: Face
    values: tuple[ValueFacts, ...]
    coming: tuple[tuple[int, int], ...]
    held_nbytes: int
    away: tuple[Away, ...]
    released: frozenset[int]
    parked: tuple[int, ...]
