"""Curve: a number that is told step by step, kept in bounded memory.

Owns the points: as long as there are few steps each has its own; later each stands for a run of
steps, and is the largest number of that run, so that no peak is lost between two points.

    P1  At most `2 * points` points, whatever the number of steps.
    P2  The largest point is the largest number that was told.

Not thread-safe.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence

import attrs

__all__ = ["Curve", "Grid", "Growth", "growth_of"]

_LEAST = 8
"""So many points at least tell growth from the filling of a buffer."""


class Grid:
    """The steps at which the points of one session's curves lie."""

    __slots__ = ("last", "points", "stride")

    def __init__(self, points: int) -> None:
        self.points = points
        self.stride = 1
        self.last = 0
        """The newest step."""

    def advance(self) -> bool:
        """One more step; whether curves must halve their points now."""
        self.last += 1
        if self.index >= 2 * self.points:
            self.stride *= 2
            return True
        return False

    @property
    def index(self) -> int:
        """Which point the newest step belongs to."""
        return (self.last - 1) // self.stride

    @property
    def steps(self) -> tuple[int, ...]:
        """The last step that each point stands for."""
        count = self.index + 1 if self.last else 0
        return tuple(min(self.last, (one + 1) * self.stride) for one in range(count))


class Curve:
    """One number over the steps of a grid."""

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points = array("q")

    def tell(self, grid: Grid, number: int) -> None:
        """The number at the newest step of `grid`; steps that were not told have 0."""
        points, index = self._points, grid.index
        if len(points) <= index:
            points.extend([0] * (index - len(points)))
            points.append(number)
        elif number > points[index]:
            points[index] = number

    def halve(self) -> None:
        """Have each point stand for twice as many steps."""
        points = self._points
        if len(points) % 2:
            points.append(0)
        self._points = array("q", map(max, points[::2], points[1::2]))

    def over(self, grid: Grid) -> tuple[int, ...]:
        """The points, one for each of `grid.steps`."""
        points = self._points
        return (*points, *[0] * (len(grid.steps) - len(points)))


@attrs.frozen
class Growth:
    """How a number rises: by how much a step, and whether it does so all the time."""

    per_step: float
    steady: bool


def growth_of(steps: Sequence[int], numbers: Sequence[int]) -> Growth:
    """The slope of the line of least squares through the second half of the points.

    It rises all the time when each quarter after the first has both its lowest and its highest
    point above those of the quarter before: what fills up, or comes and goes, does not.
    """
    half = len(steps) // 2
    xs, ys = steps[half:], numbers[half:]
    if len(xs) < 2:
        return Growth(0.0, False)
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread
    if len(steps) < _LEAST or slope <= 0:
        return Growth(slope, False)
    edges = [len(steps) * quarter // 4 for quarter in range(5)]
    quarters = [numbers[start:end] for start, end in itertools.pairwise(edges)]
    rises = all(
        min(later) > min(earlier) and max(later) > max(earlier)
        for earlier, later in itertools.pairwise(quarters[1:])
    )
    return Growth(slope, rises)
