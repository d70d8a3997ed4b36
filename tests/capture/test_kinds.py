"""What every kind of object owes to steps, forks and snapshots, asked of each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statekit import restore_session, session_bytes
from statekit.capture.capturable import Capturable
from statekit.objects import FixedState, HeldValue
from statekit.session import SessionState
from tests.equivalence.bits import assert_same_bits
from tests.kinds import Kind, copied, each_kind


def seen(obj: Any) -> Any:
    """Copies of what a reader gets, with what is staged and without."""
    if not obj.resident:
        return "not resident"
    return [copied(obj.view(include_staged=include)) for include in (True, False)]


CHANGES: dict[str, Callable[[Kind, Any], object]] = {
    "append": lambda kind, obj: kind.write(obj, 7),
    "commit": lambda kind, obj: obj.commit(),
    "discard": lambda kind, obj: obj.discard(),
    "reset": lambda kind, obj: obj.reset(),
    "evict": lambda kind, obj: obj.evict(),
    "reset_and_anew": lambda kind, obj: (obj.reset(), vars(obj).update(vars(kind.full()))),
    "several": lambda kind, obj: [kind.write(obj, value) for value in range(5)],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@each_kind
def test_object_when_rolled_back_then_as_captured(
    kind: Kind, change: Callable[[Kind, Any], object]
) -> None:
    """Committed and staged data, and whether it is resident, are those of the capture."""
    obj = kind.full()
    assert isinstance(obj, Capturable)
    before, nbytes = seen(obj), obj.nbytes
    memo = obj.capture()
    assert_same_bits(seen(obj), before, "a capture changes nothing")
    change(kind, obj)
    obj.roll_back(memo)
    assert_same_bits(seen(obj), before)
    assert obj.nbytes == nbytes
    kind.write(obj, 9)  # it goes on
    assert obj.resident


@each_kind
def test_object_when_rolled_back_twice_within_one_another_then_each_as_captured(
    kind: Kind,
) -> None:
    """Of two captures the newer one is gone back to first."""
    obj = kind.full()
    first, outer = seen(obj), obj.capture()
    kind.write(obj, 5)
    second, inner = seen(obj), obj.capture()
    kind.write(obj, 6)
    obj.roll_back(inner)
    assert_same_bits(seen(obj), second)
    kind.write(obj, 7)
    obj.roll_back(outer)
    assert_same_bits(seen(obj), first)


@each_kind
def test_twin_when_made_then_equal_and_neither_sees_the_other(kind: Kind) -> None:
    """A twin holds what was captured, whatever became of the object since."""
    obj = kind.full()
    before, memo = seen(obj), obj.capture()
    kind.write(obj, 5)
    changed = seen(obj)
    one, two = obj.twin(memo), obj.twin(memo)
    obj.settle(memo)
    for twin in (one, two):
        assert type(twin) is type(obj)
        assert_same_bits(seen(twin), before)
    kind.write(one, 6)
    assert_same_bits(seen(obj), changed)
    assert_same_bits(seen(two), before)
    two.reset()
    assert_same_bits(seen(obj), changed)


@each_kind
def test_object_when_taken_over_from_a_twin_then_holds_what_it_held(kind: Kind) -> None:
    """What became of a twin becomes the object's, staged data too."""
    obj = kind.full()
    memo = obj.capture()
    twin = obj.twin(memo)
    obj.settle(memo)
    kind.write(twin, 8)
    wanted = seen(twin)
    obj.take_over(twin.capture())
    assert_same_bits(seen(obj), wanted)


@each_kind
def test_memo_when_looked_at_then_leads_to_what_it_keeps(kind: Kind) -> None:
    """What is kept to go back to can be counted, when the object holds something else."""
    from statekit.accounting import device_bytes

    obj = kind.full()
    nbytes = obj.nbytes
    memo = obj.capture()
    obj.reset()
    assert device_bytes(obj.held_by(memo)).get("cpu", 0) >= nbytes > 0


@pytest.mark.parametrize("late", [False, True], ids=["in_the_body", "in_a_commit"])
@each_kind
def test_object_when_its_step_fails_then_bit_for_bit_as_before(kind: Kind, late: bool) -> None:
    """Whether the body fails, or a commit after the object's own; fixed addresses stay."""
    session = SessionState()
    obj = kind.full()
    session.put("value", obj)
    session.put("bomb", Bomb().allocate())
    before, places = seen(obj), addresses(obj)
    with pytest.raises(KeyError, match="forward" if not late else "commit"), session.step():
        kind.write(obj, 7)
        if not kind.once:
            obj.stage(kind.payload(8))
        if not late:
            raise KeyError("forward")
        session.get("bomb").stage(1)  # type: ignore[union-attr]
    assert_same_bits(seen(obj), before)
    assert addresses(obj) == places
    with session.step():
        kind.write(obj, 9)
    assert obj.staged() is None


class Bomb(HeldValue[int]):
    """An object that cannot commit."""

    def _promote(self) -> None:
        raise KeyError("commit")


def addresses(obj: Any) -> list[int]:
    """Where the buffers of a FixedState are."""
    return [one.data_ptr() for one in obj.buffers()] if isinstance(obj, FixedState) else []


@each_kind
def test_object_when_in_a_snapshot_then_comes_back_with_its_data_and_bounds(kind: Kind) -> None:
    """Committed and staged data, and what the next write does."""
    session = SessionState()
    obj = kind.full()
    session.put("value", obj)
    other: Any = restore_session(session_bytes(session)).get("value")
    assert type(other) is type(obj)
    assert_same_bits(seen(other), seen(obj), strides=True)
    assert other.nbytes == obj.nbytes
    for value in (3, 4):
        kind.write(obj, value)
        kind.write(other, value)
        assert_same_bits(seen(other), seen(obj))
