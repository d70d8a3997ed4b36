"""Ranks that are late or dead: an error in time, one table on all survivors, and a way to go on."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
import torch.distributed as dist

from tests.distributed.odd_scenes import late
from tests.distributed.ranks import GONE, Team, free_port
from tests.distributed.scenes import ready_to_be_lost, until_lost

TIMEOUT_S = 6.0
SLACK_S = 2.0
"""What a busy machine may add to the second that is promised."""


def killed(
    size: int, seed: int, *, store_on_rank_0: bool = False, then: str = "", port: int = 0
) -> list[Any]:
    """What the survivors say when one of the ranks is killed within random calls."""
    chance = random.Random(seed)
    victim = 0 if store_on_rank_0 else chance.randrange(size)
    with Team(size, store_on_rank_0=store_on_rank_0) as team:
        team.play(ready_to_be_lost, TIMEOUT_S)
        team.begin(until_lost, seed, then, port)
        time.sleep(0.3 + chance.random())
        team.kill(victim)
        answers = team.end()
    assert answers.pop(victim) == GONE
    return answers


def check_alike(survivors: list[Any]) -> None:
    """The same calls had the same ends, up to the one that failed, and left the same table."""
    for log, table, *_ in survivors:
        assert log == survivors[0][0]
        assert table == survivors[0][1]


def check_bounded(survivors: list[Any]) -> None:
    """The error came in time, says what to do, and is what every later call raises."""
    for _, _, error, _, took_s, refused, faults in survivors:
        assert took_s < TIMEOUT_S + SLACK_S
        assert error.endswith("or go on with those that live by survivors(group)")
        assert refused == [True, True, True]
        assert faults == []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "seed"), [(2, 1), (4, 2), (4, 3)])
def test_rank_when_killed_then_survivors_have_one_table_and_a_clear_error(
    size: int, seed: int
) -> None:
    """Killed at a random moment: all others end at the same call, in time, and name the rank."""
    survivors = killed(size, seed)
    check_alike(survivors)
    check_bounded(survivors)
    victim = random.Random(seed).randrange(size)
    for one in survivors:
        assert one[3] in ((victim,), ())  # "another rank has given up" before it was missed
        assert f"rank {victim} is lost" in one[2] or "a rank is lost" in one[2]


@pytest.mark.soak
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("seed", range(50, 70))
def test_rank_when_killed_at_many_moments_then_survivors_have_one_table(
    size: int, seed: int
) -> None:
    """The same with many seeds."""
    survivors = killed(size, seed)
    check_alike(survivors)
    check_bounded(survivors)


@pytest.mark.slow
def test_rank_when_killed_with_the_store_then_bounded_and_reconciled_by_survivors() -> None:
    """Without the store tables may differ in the last meeting; a group of survivors mends that."""
    port = free_port()
    store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    answers = killed(3, 4, store_on_rank_0=True, then="survivors", port=port)
    del store
    check_bounded([lost for lost, _ in answers])
    (kept, _, table, faults), (kept_2, _, table_2, faults_2) = (new for _, new in answers)
    assert kept == kept_2
    assert table == table_2
    assert faults == faults_2 == []


@pytest.mark.slow
def test_survivors_when_a_rank_is_lost_then_whole_sessions_go_on_and_others_are_named() -> None:
    """What was replicated goes on with its bits; what the lost rank held a part of has ended."""
    port = free_port()
    store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    answers = killed(3, 6, then="survivors", port=port)
    del store
    check_alike([lost for lost, _ in answers])
    had = {row[0] for row in answers[0][0][1]}
    for _, (kept, ended, table, faults) in answers:
        assert set(kept) | set(ended) == had
        assert all(why.endswith("held a part of it, and is lost") for why in ended.values())
        assert [row[0] for row in table] == [*kept, "anew"]
        assert faults == []


def test_rank_when_later_than_the_timeout_then_all_are_told_in_time() -> None:
    """One that comes too late finds that the others have given up; nobody waits for it longer."""
    with Team(2) as team:
        (found, took_s, table), (late_found, _, late_table) = team.play(late, 2.5, 1.0)
    assert found.startswith("RankLostError: relieve: rank 1 is lost (no answer within 1 s)")
    assert 1.0 <= took_s < 1.0 + SLACK_S
    assert late_found.startswith("RankLostError: relieve: ")
    assert table == late_table
