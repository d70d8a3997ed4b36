"""Groups of two and three real processes: one decision for all, and how often they meet for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.distributed import odd_scenes as odd
from tests.distributed import short_scenes as scenes
from tests.distributed.ranks import Team


@pytest.fixture(scope="module")
def pair() -> Iterator[Team]:
    """Two ranks that stay for all tests of this module; each scene makes a group of its own."""
    with Team(2) as team:
        yield team


def alike(answers: list[Any]) -> Any:
    """What all ranks have answered."""
    assert all(one == answers[0] for one in answers), answers
    return answers[0]


def test_collectives_when_counted_then_none_on_a_forward_that_changes_no_decision(
    pair: Team,
) -> None:
    """Going on and ending meet nobody; what decides meets as often as it must, and no more."""
    assert alike(pair.play(scenes.counts)) == {
        "begin": 1,
        "five forwards": 0,
        "end": 0,
        "lost": 0,
        "begin under pressure": 4,
        "drop": 2,
        "drop of nothing": 0,
        "return": 2,
        "eight forwards": 1,
        "relieve": 1,
        "expire": 0,
        "figures": 0,
    }


def test_begin_when_one_rank_has_no_room_then_all_refuse_with_its_numbers(pair: Team) -> None:
    """Rank 1 has room for one session, so no rank begins a second one; each says why."""
    refused, begun, table = alike(pair.play(scenes.refusal))
    assert refused.startswith("SessionAdmissionError: session 'two' is refused: it declares 8192")
    assert "on rank1/cpu" in refused
    assert begun == "None"
    assert [row[0] for row in table] == ["two"]


@pytest.mark.parametrize("alone", [True, False])
def test_park_when_it_fails_on_one_rank_then_parked_on_none(pair: Team, alone: bool) -> None:
    """What rank 1 cannot park stays everywhere; the group parks something else instead."""
    answers = pair.play(scenes.a_rank_fails_to_park, alone)
    parked = alike([one[0] for one in answers])
    assert any(parked.values())
    assert [one[1] for one in answers] == [0, 1]
    assert [one[2] for one in answers] == [[], []]
    if alone:
        assert parked["one"] == []
        assert parked["two"] == ["cache"]


def test_return_when_it_fails_on_one_rank_then_no_rank_has_the_session(pair: Team) -> None:
    """Rank 1 cannot read its disk: all ranks raise the same, none is in use, the next try works."""
    parked, error, leases, faults = alike(pair.play(scenes.a_rank_fails_to_restore))
    assert parked["one"] == ["cache"]
    assert error.startswith("ParkError: restore (rank 1 tier): ")
    assert leases == 0
    assert faults == []


def test_calls_when_ranks_differ_then_all_are_told_where(pair: Team) -> None:
    """Two forwards of different sessions are found at the next meeting, and named on all ranks."""
    first, later, again = alike(pair.play(odd.differing_calls))
    assert first.startswith(
        "RanksDifferError: the ranks differ: call 5 differs: "
        "rank 0: continue 'one'; rank 1: continue 'two'; "
    )
    assert later == again == first


def test_calls_when_ranks_meet_about_different_things_then_nothing_is_done(pair: Team) -> None:
    """One rank drops while the other looks: neither happens."""
    error, table = alike(pair.play(odd.a_call_too_many))
    assert "rank 0: relieve; rank 1: drop 'one'" in error
    assert [row[0] for row in table] == ["one"]


def test_begin_when_schemas_differ_then_refused_and_the_group_goes_on(pair: Team) -> None:
    """Ranks with different schemas for one session are told so; the next call is as if none was."""
    error, begun, count = alike(pair.play(odd.differing_schemas))
    assert error.startswith("RanksDifferError: the ranks differ: ranks 0 and 1 begin 'one'")
    assert begun == "None"
    assert count == 1


def test_group_when_ranks_are_set_up_differently_then_refused_on_all(pair: Team) -> None:
    """Settings, policies, parallel groups and sessions that differ are named before anything."""
    settings, policy, groups, sessions = alike(pair.play(odd.set_up_differently))
    assert "settings are [64, 8, None, 'plan_release'] on rank 0 and [64, 9," in settings
    assert "'_first'" in policy
    assert "groups are {'tp': 2} on rank 0 and {'sp': 2} on rank 1" in groups
    assert "their managers do not hold the same sessions" in sessions


def test_group_when_a_manager_does_not_fit_then_refused_before_anybody_meets(pair: Team) -> None:
    """A manager of another rank, or one that would decide by itself, says what to change."""
    no_ranks, other_rank, budgets, idle = pair.play(odd.managers_that_do_not_fit)[1]
    assert "the manager is rank 0 of 1, the process group has it as rank 1 of 2" in no_ranks
    assert "ranks=Ranks({" in no_ranks
    assert "the manager is rank 0 of 2" in other_rank
    assert "give them to the group instead" in budgets
    assert "give them to the group instead" in idle


def test_group_when_one_rank_cannot_hold_a_session_then_refused_on_all(pair: Team) -> None:
    """`specs` are checked against the budgets of all ranks."""
    error = alike(pair.play(odd.too_small))
    assert error.startswith("BudgetTooSmallError")
    assert "rank1/cpu" in error


def test_budgets_when_fractions_then_of_each_ranks_own_memory_and_known_to_all(
    pair: Team,
) -> None:
    """A fraction is of what is free on the rank, and of the folder that it parks in."""
    budgets = alike(pair.play(odd.fractions))
    assert sorted(budgets) == ["rank0/cpu", "rank0/disk", "rank1/cpu", "rank1/disk"]
    assert all(nbytes > 1 << 20 for nbytes in budgets.values())


def test_policy_when_it_fails_or_differs_then_an_error_on_all_and_nothing_done(pair: Team) -> None:
    """A policy that raises, and one that is not the same function on all ranks, change nothing."""
    raised, parked, dropped, differed, parked_2, dropped_2 = alike(pair.play(odd.policies))
    assert raised.startswith("PolicyError")
    assert differed.startswith("RanksDifferError: the ranks differ: the policy decided differently")
    assert parked == parked_2 == "{'one': [], 'two': []}"
    assert dropped == dropped_2 == "True"


def test_lease_when_left_without_a_word_then_ends_once_all_ranks_have_noticed(pair: Team) -> None:
    """Garbage is collected when each rank likes; the group ends what is gone everywhere."""
    assert alike(pair.play(odd.left_without_a_word)) == [2, 2, 0, 0]


def test_expiry_when_clocks_differ_then_the_leaders_counts(pair: Team) -> None:
    """Rank 1's clock runs ahead by minutes, and no session ends for it."""
    first, second, error, kept = alike(pair.play(scenes.idle_by_the_leader))
    assert first == ()
    assert second == ("one",)
    assert "expired" in error
    assert kept == ["two", "three"] or kept == ["three"]


def test_table_when_full_then_the_same_session_leaves_on_all(pair: Team) -> None:
    """Eviction by count is the group's; who is evicted and still held on one rank blocks its id."""
    kept, refused, lost, blocked, last, here = alike(pair.play(odd.full_table))
    assert kept == ["one", "three"]
    assert "the table holds 2 sessions" in refused
    assert "evicted" in lost
    assert blocked.startswith("SessionExistsError")
    assert last == ["one", "two"]
    assert here == 2


def test_drop_when_a_reset_fails_on_one_rank_then_an_error_on_all(pair: Team) -> None:
    """The session is gone everywhere, and no rank goes on as if all was well."""
    (here, count, begun), (there, *_) = pair.play(odd.a_reset_that_fails)
    assert here == (
        "GroupError: drop 'one': rank 1 failed with OSError('the engine does not answer'); "
        "the session is gone all the same"
    )
    assert there == "OSError: the engine does not answer"
    assert count == 0
    assert begun == "None"


def test_look_when_declared_growth_fills_the_room_then_it_comes_unasked(pair: Team) -> None:
    """Nobody says a word while growth that the schema declares fits; then all ranks look."""
    seen = alike(pair.play(scenes.growth))
    met = [one for _, one, _ in seen]
    look = met.index(4)
    assert sum(met) == 4
    assert seen[look - 1][0] * 1024 > 5 * 1024 >= seen[look - 2][0] * 1024
    assert [parked for *_, parked in seen] == [index >= look for index in range(len(met))]


def test_forward_when_it_rebuilds_what_was_released_then_room_is_made_before(pair: Team) -> None:
    """Released values come back within the budgets of all ranks."""
    missing, gone, met, over = alike(pair.play(scenes.room_for_what_was_released))
    assert missing == ["kv", "freqs"]
    assert over == {}
    assert met in (0, 4)
    assert gone in ([], ["kv", "freqs"])


def test_sessions_when_begun_behind_the_groups_back_then_named(pair: Team) -> None:
    """A session that one manager made by itself is found at the next meeting."""
    error, fine, lost = alike(pair.play(odd.strange_sessions))
    assert "rank 1 and the group do not have the same sessions: 'mine'" in error
    assert fine.startswith("Plan(")
    assert lost.startswith("SessionStateLostError")


def test_exchange_when_words_are_large_then_two_collectives_once(pair: Team) -> None:
    """The buffer grows when something does not fit, and stays so."""
    first, second, count = alike(pair.play(scenes.large_words))
    assert first <= 6
    assert second <= 4
    assert count == 91


def test_values_when_one_rank_alone_has_them_then_parked_there_and_known_to_all(
    pair: Team,
) -> None:
    """Rank 0 holds nothing of the session, and knows that its next use is agreed upon."""
    here, there = pair.play(scenes.values_on_one_rank)
    assert here[0] == {"one": [], "two": [], "three": []}
    assert there[0]["one"] == ["cache"]
    assert here[1] == there[1]
    assert here[1][0][4] is True
    assert here[2]
    assert there[2]
    assert there[3]["one"] == []


def test_bytes_when_ranks_hold_different_parts_then_all_know_all(pair: Team) -> None:
    """Used bytes go by rank and device; what is declared is each rank's own part."""
    (used, declared, budget), (used_2, declared_2, _) = pair.play(scenes.spread_bytes)
    assert used == used_2
    assert used["rank0/cpu"] != used["rank1/cpu"]
    assert declared["cpu"] == 4096 + 2048 + 0 + 4096 + 1024 + 1024 + 512
    assert declared_2["cpu"] == declared["cpu"] + 2048
    assert budget == 1 << 30


def test_rank_when_late_but_in_time_then_waited_for(pair: Team) -> None:
    """A slow rank holds the others up, and nothing else."""
    (found, took_s, table), other = pair.play(odd.late, 0.4, 10.0)
    assert found.startswith("Plan(")
    assert 0.2 < took_s < 5.0
    assert other[2] == table


def test_exchange_when_it_polls_then_the_same(pair: Team) -> None:
    """A backend whose waits cannot be timed, as an accelerator's, is asked again and again."""
    (found, met), other = pair.play(scenes.polled)
    assert found.startswith("Plan(")
    assert met == 3
    assert other == (found, met)


def test_forward_when_its_session_is_idle_too_long_then_it_goes_on(pair: Team) -> None:
    """The look that a forward begins with ends other idle sessions, not the one that is used."""
    assert alike(pair.play(scenes.used_after_long)) == ("None", ["two"])


def test_begin_when_the_old_session_is_idle_then_it_ends_and_a_new_one_begins(pair: Team) -> None:
    """An id whose session is idle by the leader's clock is free in the same call."""
    assert alike(pair.play(scenes.begun_anew)) == ("None", False, 1)


def test_group_when_of_some_ranks_then_their_own_and_apart_from_the_models() -> None:
    """A group of two of three ranks counts them from 0, whatever their place in the whole."""
    with Team(3) as team:
        outside, first, second = team.play(odd.a_group_of_its_own)
    assert outside == "another model"
    assert (first[0], second[0]) == (0, 1)
    assert first[1:] == second[1:]
    assert first[2] == ["rank0/cpu", "rank1/cpu"]
