"""Many parts by several threads: `statekit.bulk.moving` and `cutting`."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit.bulk.checksum import PART_NBYTES, part_checksum
from statekit.bulk.cutting import cut, part_count
from statekit.bulk.moving import Moving, move_now

LARGE = 40 << 20  # more than is moved without threads


def test_parts_when_moved_then_sums_are_in_their_order() -> None:
    """Whichever thread is faster, the sums are those of the parts in turn."""
    parts = [(i, memoryview(bytes([i] * (1 + i % 7)))) for i in range(200)]
    moved: dict[int, bytes] = {}

    def move(part: memoryview, offset: int) -> int:
        threading.Event().wait(0.0001 * (offset % 3))
        moved[offset] = bytes(part)
        return part_checksum(part)

    for nbytes in (1, LARGE):
        moved.clear()
        assert move_now(move, parts, nbytes) == [part_checksum(part) for _, part in parts]
        assert moved == {offset: bytes(part) for offset, part in parts}


@pytest.mark.parametrize("nbytes", [1, LARGE])
def test_move_when_one_part_fails_then_its_error_is_told_and_the_rest_stops(nbytes: int) -> None:
    """The fault is reported, and parts after it are left alone."""
    moved: list[int] = []

    def move(part: memoryview, offset: int) -> int:
        if offset == 20:
            raise OSError(5, "no")
        moved.append(offset)
        return 0

    with pytest.raises(OSError, match="no"):
        move_now(move, ((i, memoryview(b"x")) for i in range(10_000)), nbytes)
    assert len(moved) < 10_000


def test_parts_when_making_them_fails_then_the_error_is_told() -> None:
    """An error of the parts themselves (no memory, say) ends the move too."""

    def parts():  # type: ignore[no-untyped-def]
        yield 0, memoryview(b"x")
        raise MemoryError("none")

    with pytest.raises(MemoryError, match="none"):
        move_now(lambda part, offset: 0, parts(), LARGE)


def test_move_when_no_thread_can_start_then_the_caller_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the exit of the interpreter executors take nothing; a last save still goes on."""

    def refuse(*args: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    found = move_now(lambda part, offset: threading.get_ident(), [(0, memoryview(b"x"))], LARGE)
    assert found == [threading.get_ident()]


def test_moving_when_the_executor_is_shut_down_then_it_is_cancelled_and_let_go() -> None:
    """What waits for the end of the work hears of it, although none began."""
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    ended: list[bool] = []
    with pytest.raises(CancelledError):
        Moving(executor, 2, lambda part, offset: 0, [], after=lambda: ended.append(True))
    assert ended == [True]


@given(
    st.lists(st.lists(st.integers(0, 3 * PART_NBYTES), max_size=3), max_size=3),
    st.integers(0, 5000),
)
def test_storages_when_cut_then_parts_follow_each_other(sizes: list[list[int]], first: int) -> None:
    """Parts cover every byte once, in order, and depend on a storage's size alone."""
    memory = torch.empty(3 * PART_NBYTES, dtype=torch.uint8)
    parts = list(cut([[memory[:n] for n in pieces] for pieces in sizes], first))
    wanted = []
    offset = first
    for pieces in sizes:
        left = sum(pieces)
        assert part_count(left) == -(-left // PART_NBYTES)
        while left:
            wanted.append((offset, min(left, PART_NBYTES)))
            offset += wanted[-1][1]
            left -= wanted[-1][1]
    assert [(offset, len(part)) for offset, part in parts] == wanted
