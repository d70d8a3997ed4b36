"""Workload: who comes when, with which model, for how many steps, with which pauses.

Owns the random choices. They depend on the workload alone, so that every policy meets the same
sessions at the same moments.

    W1  Sessions arrive as a Poisson process.
    W2  A session has a geometric number of steps.
    W3  After each step but the last the client pauses with probability `pause_chance`, for an
        exponential time; otherwise the next step follows at once.
    W4  A step takes the same time whatever else runs: how fast a model computes is not simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import attrs
import numpy as np

from statekit.simulation.dice import Dice

__all__ = ["Arrival", "Workload"]

_BLOCK = 4096


class Arrival(NamedTuple):
    """One session: when it comes, its model's number, its pauses after each step but the last."""

    at_us: int
    kind: int
    pauses: list[int]


@attrs.frozen
class Workload:
    """What clients do.

    Attributes:
        sessions: how many arrive.
        parts: in which proportions the models are asked for.
        between_us: time between two arrivals, on average.
        steps: steps of a session, on average.
        step_us: how long a step takes.
        pause_chance: how likely a pause after a step is.
        pause_us: how long a pause is, on average.
    """

    sessions: int
    parts: Sequence[int]
    between_us: float
    seed: int = 0
    steps: float = 10.0
    step_us: int = 1_000_000
    pause_chance: float = 0.25
    pause_us: float = 120_000_000.0

    @property
    def lifetime_us(self) -> float:
        """How long a session lives, on average, if it never waits."""
        return self.steps * self.step_us + (self.steps - 1) * self.pause_chance * self.pause_us

    def arrivals(self) -> Iterator[Arrival]:
        """The sessions, in the order of their arrival; the same for the same workload."""
        dice = Dice(self.seed)
        now_us = 0
        for first in range(0, self.sessions, _BLOCK):
            count = min(_BLOCK, self.sessions - first)
            times = now_us + np.cumsum(dice.exponential(count, self.between_us))
            now_us = int(times[-1])
            kinds = dice.choice(count, list(self.parts))
            gaps = dice.geometric(count, self.steps) - 1
            total = int(gaps.sum())
            pauses = np.where(
                dice.uniform(total) < self.pause_chance, dice.exponential(total, self.pause_us), 0
            )
            ends = np.cumsum(gaps).tolist()
            rows = zip(times.tolist(), kinds.tolist(), ends, gaps.tolist(), strict=True)
            for at_us, kind, end, length in rows:
                yield Arrival(at_us, kind, pauses[end - length : end].tolist())
