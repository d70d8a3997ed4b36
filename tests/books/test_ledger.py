"""Ledger: sums that are kept up to date, against bytes that are counted one by one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from statekit.books.footprint import Interval
from statekit.books.ledger import Ledger

GPU = "cuda:0"

STRIDE = 400_000  # bytes that stand for one, so that intervals end in the same MiB and in others
INTERVALS = st.builds(
    lambda device, start, count: (device, start * STRIDE, (start + count) * STRIDE),
    st.sampled_from(["cpu", GPU]),
    st.integers(1, 12),
    st.integers(1, 6),
)
VALUES = st.lists(INTERVALS, max_size=4).map(tuple)


def union(intervals: list[Interval]) -> dict[str, int]:
    """Bytes by device, found stride by stride."""
    covered = {
        (device, address)
        for device, start, end in intervals
        for address in range(start, end, STRIDE)
    }
    counts = Counter(device for device, _ in covered)
    return {device: count * STRIDE for device, count in counts.items()}


@given(st.lists(st.tuples(st.integers(0, 3), VALUES, st.integers(0, 2)), max_size=30))
def test_totals_when_values_change_in_any_order_then_the_union_of_all(
    changes: list[tuple[int, tuple[Interval, ...], int]],
) -> None:
    """After each rebooking the sums are the union of what the values hold, handles added."""
    ledger = Ledger()
    held: dict[int, tuple[tuple[Interval, ...], dict[str, int]]] = {}
    for value, intervals, handle in changes:
        old, old_handles = held.get(value, ((), {}))
        handles = {"cpu": handle} if handle else {}
        ledger.rebook(old, intervals, old_handles, handles)
        held[value] = (intervals, handles)
        want = Counter(union([one for intervals, _ in held.values() for one in intervals]))
        for _, handles in held.values():
            want.update(handles)
        assert ledger.totals() == dict(want)


@given(st.lists(VALUES, min_size=1, max_size=4), st.integers(0, 3))
def test_exclusive_when_memory_is_shared_then_what_giving_them_up_frees(
    values: list[tuple[Interval, ...]], which: int
) -> None:
    """The exclusive bytes of a value are those by which the union shrinks without it, at most.

    Two intervals of the value itself that overlap count once.
    """
    ledger = Ledger()
    for intervals in values:
        ledger.rebook((), intervals)
    mine = values[which % len(values)]
    others = [one for index, v in enumerate(values) if index != which % len(values) for one in v]
    everything = Counter(union([*mine, *others]))
    everything.subtract(union(others))
    want = {device: nbytes for device, nbytes in everything.items() if nbytes}
    assert ledger.exclusive(mine) == want


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_holds_alone_when_nothing_overlaps_then_all_of_it_is_exclusive(
    values: list[tuple[Interval, ...]],
) -> None:
    """What is held alone is exclusive to the last byte, whatever else is booked."""
    ledger = Ledger()
    for intervals in values:
        ledger.rebook((), intervals)
    for intervals in values:
        if ledger.holds_alone(frozenset(intervals)):
            assert ledger.exclusive(intervals) == union(list(intervals))


def test_holds_alone_when_others_come_and_go_then_only_while_nobody_shares() -> None:
    """A second holder takes the word back, and its leaving gives it again."""
    ledger = Ledger()
    interval = (GPU, 10, 20)
    ledger.rebook((), [interval])
    assert ledger.holds_alone(frozenset([interval]))
    ledger.rebook((), [interval])
    assert not ledger.holds_alone(frozenset([interval]))
    ledger.rebook([interval], ())
    assert ledger.holds_alone(frozenset([interval]))
    ledger.rebook((), [(GPU, 15, 30)])
    assert not ledger.holds_alone(frozenset([interval]))
    ledger.rebook([(GPU, 15, 30)], ())
    assert ledger.totals() == {GPU: 10}
    assert ledger.holds_alone(frozenset([interval]))
