"""Curves: bounded memory, exact peaks, and what counts as growth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statekit.measure.curve import Curve, Grid, growth_of


@given(numbers=st.lists(st.integers(0, 1000), min_size=1, max_size=400), points=st.integers(1, 20))
def test_curve_when_told_any_numbers_then_bounded_and_no_peak_is_lost(
    numbers: list[int], points: int
) -> None:
    """At most twice the points; each is the largest number of the steps that it stands for."""
    grid, curve = Grid(points), Curve()
    for number in numbers:
        if grid.advance():
            curve.halve()
        curve.tell(grid, number)
    steps, found = grid.steps, curve.over(grid)
    assert len(steps) == len(found) <= 2 * points
    assert steps[-1] == len(numbers)
    edges = [0, *steps]
    runs = zip(edges, steps, strict=False)
    assert found == tuple(max(numbers[start:end]) for start, end in runs)


def test_curve_when_a_value_comes_late_then_it_is_zero_before() -> None:
    """A curve that begins with the third step has zeros for the first two."""
    grid, curve = Grid(8), Curve()
    for step in range(1, 5):
        grid.advance()
        if step >= 3:
            curve.tell(grid, 7)
    assert curve.over(grid) == (0, 0, 7, 7)


@pytest.mark.parametrize(
    ("numbers", "grows"),
    [
        ([10 * step for step in range(12)], True),
        ([5 + step // 3 for step in range(24)], True),
        ([step % 3 for step in range(24)], False),
        ([min(step, 4) for step in range(24)], False),
        ([1] * 12 + [9] * 12, False),
        ([7] * 24, False),
        ([24 - step for step in range(24)], False),
        ([1, 2, 3], False),
        ([step + step % 2 * 3 for step in range(32)], True),
    ],
)
def test_growth_when_numbers_rise_all_the_time_then_so_told(
    numbers: list[int], grows: bool
) -> None:
    """A line, stairs, a rising saw grow; what fills up, comes and goes, or jumps once does not."""
    assert growth_of(range(1, len(numbers) + 1), numbers).steady is grows


def test_growth_when_it_is_a_line_then_its_slope() -> None:
    """The rate is bytes a step, also where a point stands for several steps."""
    steps = tuple(range(4, 401, 4))
    assert growth_of(steps, [7 * step + 3 for step in steps]).per_step == pytest.approx(7)
    assert growth_of((1,), (5,)).per_step == 0
    assert growth_of((), ()).per_step == 0
