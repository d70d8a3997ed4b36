"""What a group is made of, each for itself and without processes: words, registers, schedules."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from statekit.distributed.calls import Calls, first_difference
from statekit.distributed.hands import batches_of
from statekit.distributed.merging import Memory, merge_values, on_rank
from statekit.distributed.register import Register, StoreError
from statekit.distributed.schedule import Schedule
from statekit.distributed.table import Entry, GroupTable
from statekit.manager import SessionStateManager
from statekit.pressure.plan import Decision, Facts, Plan, SessionFacts, ValueFacts
from statekit.pressure.planner import plan_release
from statekit.pressure.putting_away import begin_putting_away
from tests.distributed.toys import COPIED
from tests.pressure.test_planner_properties import facts as any_facts
from tests.pressure.toys import read, same, write

# -- facts of all ranks ------------------------------------------------------------------------


def test_values_when_merged_then_one_unit_with_the_bytes_of_all_ranks() -> None:
    """Bytes add up by rank; a say is had by those that have the value."""
    here = ValueFacts("kv", {"cuda:0": 5}, rebuildable=True, cost=1.0, tiers=("host", "disk"))
    there = ValueFacts("kv", {"cuda:1": 7, "cpu": 1}, rebuildable=False, cost=3.0, tiers=("disk",))
    (merged,) = merge_values([[here], [there], []])
    assert merged.nbytes == {"rank0/cuda:0": 5, "rank1/cuda:1": 7, "rank1/cpu": 1}
    assert (merged.rebuildable, merged.cost, merged.tiers) == (False, 3.0, ("disk",))


def test_values_when_released_on_some_ranks_only_then_not_released() -> None:
    """A value is gone for the group once it is gone on all ranks that have it."""
    gone, there = ValueFacts("kv", released=True), ValueFacts("kv", {"cpu": 4})
    assert not merge_values([[gone], [there]])[0].released
    assert merge_values([[gone], [gone]])[0].released


def test_memory_when_nothing_changed_then_nothing_is_said_and_all_is_known() -> None:
    """A session is told once, and again when it is another one."""
    one = SessionFacts("one", 0, values=(ValueFacts("kv", {"cpu": 4}, sources=("a",)),))
    memory = Memory(0, 1)
    news = memory.news([(one, {"cpu": 9})])
    memory.hear([news], ["one"])
    assert memory.news([(one, {"cpu": 9})]) == {}
    facts = memory.facts([Entry("one", order=3, leases=1)], {}, {}, {})
    assert facts.sessions == (
        SessionFacts(
            "one", 3, True, False, (attrs.evolve(one.values[0], nbytes={"rank0/cpu": 4}),)
        ),
    )
    assert memory.holders("rank0/cpu") == [("one", 9)]
    memory.hear([{}], [])
    assert memory.holders("rank0/cpu") == []
    assert memory.news([(one, {"cpu": 9})]) == news


def by_rank(facts: Facts) -> Facts:
    """The facts of a group of one rank."""
    sessions = tuple(
        attrs.evolve(
            session,
            values=tuple(
                attrs.evolve(value, nbytes=on_rank(0, value.nbytes)) for value in session.values
            ),
        )
        for session in facts.sessions
    )
    budgets, used = on_rank(0, facts.budgets), on_rank(0, facts.used)
    return attrs.evolve(facts, budgets=budgets, used=used, sessions=sessions)


def plain(plan: Plan) -> list[tuple[Any, ...]]:
    return [
        (one.action, one.session_id, one.value, one.tier, {d: n for d, n in one.frees.items() if n})
        for one in plan.decisions
    ]


@given(any_facts())
@settings(max_examples=50)
def test_plan_when_of_one_rank_then_that_of_a_manager(facts: Facts) -> None:
    """Device names that begin with a rank change the names in a plan, and nothing else."""
    expected = plan_release(facts)
    found = plan_release(by_rank(facts))
    assert [(*one[:4], on_rank(0, one[4])) for one in plain(expected)] == plain(found)
    assert on_rank(0, expected.still_over) == found.still_over


def test_plan_when_ranks_park_then_each_into_its_own_tier() -> None:
    """A value goes to the hosts of all its ranks, or, where one of them is full, to no host."""
    value = ValueFacts("kv", {"rank0/cuda:0": 10, "rank1/cuda:0": 30}, tiers=("host", "disk"))
    budgets = {"rank0/cuda:0": 5, "rank1/cpu": 40}
    used = {"rank0/cuda:0": 10, "rank1/cuda:0": 30, "rank1/cpu": 10}
    facts = Facts(budgets, used, (SessionFacts("one", 0, values=(value,)),), {"host": 1})
    assert [one.tier for one in plan_release(facts).decisions] == ["disk"]
    roomy = attrs.evolve(facts, budgets={**budgets, "rank1/cpu": 41})
    assert [one.tier for one in plan_release(roomy).decisions] == ["host"]


def test_batches_when_some_are_to_go_alone_then_they_do() -> None:
    """Neighbouring parks of one session are one batch, but for those that failed together."""
    parks = [Decision("park", "one", name, {}, {}, "disk") for name in "abc"]
    assert [len(one) for one in batches_of(parks, ())] == [3]
    assert [len(one) for one in batches_of(parks, {("one", "b")})] == [1, 1, 1]
    alone = {("one", name) for name in "abc"}
    assert [len(one) for one in batches_of(parks, alone)] == [1, 1, 1]


def test_putting_away_when_aborted_then_nothing_has_happened(tmp_path: Path) -> None:
    """Between the copy and its end the value is read as before; an abort leaves no file."""
    manager = SessionStateManager(park_folder=tmp_path)
    with manager.lease("one", begin=COPIED) as session:
        written = write(session, "cache", 1)
    record = manager._table.holds("one")
    assert record is not None
    tier = manager._relief._tiers["disk"]
    files = set(tmp_path.rglob("*"))
    with record.transition:
        putting = begin_putting_away(record, ["cache"], tier, lambda unit: None)
        assert putting is not None
        assert set(tmp_path.rglob("*")) > files
        assert same(read(session, "cache"), written)
        putting.abort()
        assert not record.units
        assert set(tmp_path.rglob("*")) == files
        again = begin_putting_away(record, ["cache"], tier, lambda unit: None)
        assert again is not None
        write(session, "cache", 2)
        assert again.finish() is None
    assert not record.units
    assert set(tmp_path.rglob("*")) == files


# -- calls -------------------------------------------------------------------------------------


def test_calls_when_the_same_then_the_same_digest_and_none_once_agreed() -> None:
    """Two ranks that were called alike have the same digest, whatever came before the last look."""
    here, there = Calls(), Calls()
    for calls in (here, there):
        calls.note("continue", "one")
    assert here.digest() == there.digest()
    here.note("end", "one")
    assert here.digest() != there.digest()
    here.agreed()
    assert (here.count, here.kept, here.last) == (2, [], "end 'one'")


def test_difference_when_a_rank_has_fewer_calls_then_said_so() -> None:
    """The first call that is not the same on all ranks is named, with who made which."""
    more = ["", 7, [("begin", "a"), ("end", "a")]]
    less = ["", 7, [("begin", "a")]]
    found = first_difference([more, less, more])
    assert found == "call 9 differs: ranks 0, 2: end 'a'; rank 1: nothing more"
    assert "their calls are the same" in first_difference([less, less])


def test_calls_when_very_many_then_kept_in_bounds_and_still_compared() -> None:
    """Calls that meet nobody, of lost sessions say, do not pile up; a difference is still found."""
    here, there = Calls(), Calls()
    for number in range(10_000):
        here.note("continue", "lost")
        there.note("continue", "lost" if number else "other")
    assert len(here.kept) < 4096
    assert here.digest() != there.digest()
    assert "4096 calls ago" in first_difference([here.told(), there.told()])
    here.agreed()
    there.agreed()
    assert here.digest() == there.digest()


# -- the register ------------------------------------------------------------------------------


def registers(count: int, timeout_s: float = 5.0, store: Any = None) -> list[Register]:
    """Registers of as many ranks, at one store."""
    store = dist.HashStore() if store is None else store
    found = [Register(store, "test", rank, count, timeout_s) for rank in range(count)]
    for one in found:
        one.begin()
    return found


def test_register_when_all_write_the_same_then_that_is_the_outcome() -> None:
    """The ordinary case: everybody heard everybody."""
    ranks = registers(3)
    for meeting in (1, 2, 5):
        assert [one.settle(meeting, {"n": meeting}) for one in ranks] == [{"n": meeting}] * 3
    assert not ranks[0].has_failed()
    ranks[1].settle(6, {"failed": None})
    assert not ranks[0].has_failed()


def test_register_when_one_gave_up_first_then_nobody_acts() -> None:
    """A rank that did not hear the others was faster: the outcome of those that did is void."""
    here, there, other = registers(3)
    assert there.give_up(1) is None
    assert here.settle(1, {"n": 1}) is None
    assert other.give_up(1) is None
    assert here.has_failed()


def test_register_when_one_gives_up_late_then_it_finds_the_outcome() -> None:
    """A rank that did not hear the others does what they do, and no later meeting succeeds."""
    here, there, other = registers(3)
    assert here.settle(1, {"n": 1}) == {"n": 1}
    assert there.give_up(1) == {"n": 1}
    assert other.settle(1, {"n": 1}) == {"n": 1}
    assert here.settle(2, {"n": 2}) is None
    assert other.give_up(2) is None


def test_register_when_a_rank_sleeps_through_a_failure_then_its_outcome_still_counts() -> None:
    """Meeting 2 failed before this rank wrote what meeting 1 came to: 1 stands, 2 does not."""
    here, asleep = registers(2)
    assert here.settle(1, {"n": 1}) == {"n": 1}
    assert here.give_up(2) is None
    assert asleep.settle(1, {"n": 1}) == {"n": 1}
    assert asleep.settle(2, {"n": 2}) is None


@given(st.permutations([0, 1, 2]), st.lists(st.booleans(), min_size=3, max_size=3))
def test_register_when_any_order_then_one_outcome_for_all(
    order: list[int], heard: list[bool]
) -> None:
    """Whoever hears or does not, in whatever order: all act, or none."""
    ranks = registers(3)
    found = [
        ranks[rank].settle(1, {"n": 1}) if heard[rank] else ranks[rank].give_up(1) for rank in order
    ]
    assert all(one == found[0] for one in found)


class Hanging:
    """A store that stops answering."""

    def __init__(self) -> None:
        self.store = dist.HashStore()
        self.released = threading.Event()
        self.hangs = False

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        if self.hangs:
            self.released.wait(20)
        found: bytes = self.store.compare_set(key, expected, desired)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def test_register_when_the_store_hangs_then_an_error_in_time_and_from_then_on() -> None:
    """No call takes longer than the timeout; later ones fail at once."""
    store = Hanging()
    (here,) = registers(1, 0.2, store)
    store.hangs = True
    began_at = time.monotonic()
    with pytest.raises(StoreError, match=r"did not answer within 0\.2 s"):
        here.settle(1, {"n": 1})
    with pytest.raises(StoreError):
        here.give_up(1)
    assert time.monotonic() - began_at < 1.0
    assert here.has_failed()
    assert here.unheard() == []
    store.released.set()


def test_register_when_ranks_live_then_none_is_missed() -> None:
    """Those that say that they live are not among the lost ones."""
    here, there, _ = registers(3)
    waiting = threading.Thread(target=there.unheard)
    waiting.start()
    assert here.unheard() == [2]
    waiting.join()


# -- the schedule ------------------------------------------------------------------------------


def test_look_when_so_many_forwards_then_due() -> None:
    """H1: after so many forwards, whatever they were."""
    schedule, entry = Schedule(3), Entry("one")
    schedule.looked({"rank0/cpu": 5})
    for due in (False, False, True):
        entry.uses += 1
        schedule.forward(entry)
        assert schedule.due is due
    schedule.looked({})
    assert not schedule.due


@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 60))
def test_look_when_declared_growth_may_fill_the_room_then_due(
    every: int, nbytes: int, room: int
) -> None:
    """H2: due at the first forward with which the growth is more than the room; not before."""
    schedule = Schedule(10_000)
    entry = Entry("one", growth=(("rank1/cpu", nbytes, every),), uses=1)
    schedule.looked({"rank1/cpu": room})
    for step in range(2, 80):
        entry.uses = step
        schedule.forward(entry)
        grown = nbytes * ((step - 1) // every)
        assert schedule.due is (grown > room)


def test_look_when_a_device_had_no_room_then_growth_asks_for_none() -> None:
    """What could not be helped at the last look is looked at again by count alone."""
    schedule, entry = Schedule(100), Entry("one", growth=(("rank0/cpu", 9, 1),), uses=5)
    schedule.looked({"rank0/cpu": -1})
    schedule.forward(entry)
    assert not schedule.due
    assert not schedule.lacks({"rank0/cpu": 1})


def test_released_when_there_is_room_then_nobody_meets_for_it() -> None:
    """H3: what comes back is compared with the room that is left, and takes of it."""
    schedule = Schedule(100)
    schedule.looked({"rank0/cpu": 10})
    assert not schedule.lacks({"rank0/cpu": 10, "rank1/cpu": 99})
    schedule.forward(Entry("one", released={"rank0/cpu": 10}, uses=3))
    assert schedule.lacks({"rank0/cpu": 1})


# -- the table ---------------------------------------------------------------------------------


def test_table_when_a_dropped_session_is_left_then_gone_with_the_last_lease() -> None:
    """A session that is in use ends with its last user."""
    table, entry = GroupTable(), Entry("one")
    table.add(entry)
    table.use(entry)
    table.use(entry)
    entry.dropped = True
    table.leave(entry, 1.0)
    assert "one" in table
    table.leave(entry, 2.0)
    assert len(table) == 0


def test_table_when_asked_who_leaves_then_the_least_recently_used_that_may() -> None:
    """Not one in use, nor one that may not be lost."""
    table = GroupTable()
    for key, may_be_lost in (("a", False), ("b", True), ("c", True)):
        table.add(Entry(key, may_be_lost))
    first = table.next_to_leave()
    assert first is not None
    assert first.key == "b"
    table.use(first)
    second = table.next_to_leave()
    assert second is not None
    assert second.key == "c"
    assert [row[0] for row in table.plain()] == ["a", "c", "b"]
