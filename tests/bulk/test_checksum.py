"""The checksum of bytes in files: `statekit.bulk.checksum`."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from statekit.bulk.checksum import PART_NBYTES, combined_checksum, part_checksum


def data(nbytes: int) -> bytearray:
    return bytearray((i * i + i // 251) % 256 for i in range(nbytes))


WHOLE = data(100_003)


@settings(max_examples=200, deadline=None)
@given(st.sets(st.integers(0, len(WHOLE) * 8 - 1), min_size=1, max_size=2))
def test_bits_when_one_or_two_flip_then_the_sum_changes(bits: set[int]) -> None:
    """No flip of one or two bits goes unseen, the tail and the same bit of two words included."""
    changed = bytearray(WHOLE)
    for bit in bits:
        changed[bit // 8] ^= 1 << bit % 8
    assert part_checksum(memoryview(changed)) != part_checksum(memoryview(WHOLE))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, len(WHOLE) - 1))
def test_bytes_when_they_move_then_the_sum_changes(shift: int) -> None:
    """Bytes rotated within a part give another sum."""
    moved = WHOLE[shift:] + WHOLE[:shift]
    assert part_checksum(memoryview(moved)) != part_checksum(memoryview(WHOLE))


def test_words_when_they_change_places_at_a_period_then_the_sum_changes() -> None:
    """Words a whole period apart meet in one fold, and are told apart by the other."""
    for distance in (2048 * 8, 2047 * 8, 8):
        changed = bytearray(WHOLE)
        changed[80:88], changed[80 + distance : 88 + distance] = (
            WHOLE[80 + distance : 88 + distance],
            WHOLE[80:88],
        )
        assert changed != WHOLE
        assert part_checksum(memoryview(changed)) != part_checksum(memoryview(WHOLE))


def test_periods_when_compared_with_a_part_then_no_two_words_meet_twice() -> None:
    """The part is shorter than the distance at which both folds would miss a pair."""
    assert PART_NBYTES // 8 < 2048 * 2047


def test_parts_when_they_change_places_then_the_sum_changes() -> None:
    """The order of parts counts, and so does an empty or a missing one."""
    orders = [[1, 2], [2, 1], [1], [1, 2, 1], [1, 2, 0], []]
    assert len({combined_checksum(sums) for sums in orders}) == len(orders)
