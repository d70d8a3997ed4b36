"""Random numbers that are the same everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from statekit.simulation.dice import Dice, _minus_ln


def test_dice_when_the_seed_is_the_same_then_so_are_the_numbers() -> None:
    """The first numbers of a seed, written down: no machine and no version gives others."""
    dice = Dice(7)
    assert dice.uniform(2).tolist() == [0.6250954666046671, 0.8972138009695756]
    assert dice.exponential(4, 1000.0).tolist() == [254, 1490, 1203, 135]
    assert dice.geometric(6, 10.0).tolist() == [50, 2, 3, 8, 12, 13]
    assert dice.choice(8, [1, 2, 1]).tolist() == [1, 1, 1, 1, 2, 2, 1, 2]


def test_logarithm_when_compared_with_the_library_then_differs_in_the_last_bits_alone() -> None:
    """Its own logarithm is one, to a few units in the last place."""
    numbers = np.array([2.0**-53, 1e-9, 0.1, 0.5, 0.7071067811865475, 0.7071067811865477, 0.999999])
    assert _minus_ln(numbers) == pytest.approx(-np.log(numbers), rel=1e-15)


@pytest.mark.parametrize("mean", [1.0, 1.5, 10.0, 400.0])
def test_geometric_when_drawn_often_then_has_its_mean_and_starts_at_one(mean: float) -> None:
    """Whole numbers from 1 on, with the mean that was asked for."""
    found = Dice(1).geometric(200_000, mean)
    assert found.min() == 1
    assert found.mean() == pytest.approx(mean, rel=0.02)


def test_exponential_when_drawn_often_then_follows_the_law() -> None:
    """Mean, median and tail of an exponential time."""
    found = Dice(2).exponential(200_000, 1e9)
    assert found.mean() == pytest.approx(1e9, rel=0.02)
    assert np.median(found) == pytest.approx(1e9 * math.log(2), rel=0.02)
    assert (found > 3e9).mean() == pytest.approx(math.exp(-3), rel=0.05)


def test_choice_when_parts_differ_then_each_comes_as_often_as_its_part() -> None:
    """A part of 3 of 4 comes three times as often as a part of 1; a part of 0 never."""
    found = Dice(3).choice(100_000, [3, 0, 1])
    assert set(found.tolist()) == {0, 2}
    assert (found == 0).mean() == pytest.approx(0.75, abs=0.01)
