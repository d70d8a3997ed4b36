"""Thousands of random calls on real processes: the same on every rank, and every value bit for bit.

The ranks differ in bytes and clocks, are slow at times, fail to park, fail to restore, and collect
their garbage when they like.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.distributed.ranks import Team
from tests.distributed.scenes import random_calls


def check(size: int, seed: int, calls: int, limit_s: float = 120.0) -> list[Any]:
    """All ranks have seen the same, and no value was wrong; what the ranks answered."""
    with Team(size) as team:
        answers = team.play(random_calls, seed, calls, True, limit_s=limit_s)
    logs = [log for log, *_ in answers]
    for lines in zip(*logs, strict=True):
        assert all(line == lines[0] for line in lines), "\n".join(lines)
    assert len(logs[0]) == calls
    assert [faults for _, faults, *_ in answers] == [[]] * size
    met = [one[2] for one in answers]
    assert met == met[:1] * size
    return answers


@pytest.mark.slow
@pytest.mark.parametrize(("size", "seed", "calls"), [(2, 1, 1400), (4, 2, 650)])
def test_calls_when_random_then_the_same_table_and_outcome_on_all_ranks(
    size: int, seed: int, calls: int
) -> None:
    """Begin, go on, drop, look, expire, fail, leave: ranks differ in nothing but their bytes."""
    answers = check(size, seed, calls)
    for kind in ("Parked", "Restored", "Released", "Rebuilt", "Evicted", "Expired", "Dropped"):
        assert all(one[3][kind] for one in answers), f"none of the kind on some rank: {kind}"
    assert len({one[3]["ParkFailed"] for one in answers}) > 1, "no rank failed by itself"
    assert any("ParkError" in line for line in answers[0][0]), "nothing failed to come back"


@pytest.mark.soak
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("seed", range(100, 104))
def test_calls_when_random_for_minutes_then_the_same_on_all_ranks(size: int, seed: int) -> None:
    """The same with many seeds."""
    check(size, seed, 2000, limit_s=600.0)
