"""What every kind of object owes to steps, forks and snapshots, asked of each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from statekit import restore_session, session_bytes
from statekit.capture.capturable import Capturable
from statekit.objects import EncodeOnce, FixedState, HeldValue, LatentBuffer
from statekit.session import SessionState
from statekit.spec import Update
from tests.equivalence.bits import assert_same_bits


@attrs.frozen
class Kind:
    """One kind of object, allocated in one way."""

    new: Callable[[], Any]
    array: bool = False
    once: bool = False

    def payload(self, value: int) -> Any:
        """One payload; as large as all others."""
        data = np.full((2, 3), value, np.float32)
        return data if self.array else torch.from_numpy(data).clone()

    def full(self) -> Any:
        """An object with committed data and, where that may be, staged data."""
        obj = self.new()
        obj.append(self.payload(1))
        if not self.once:
            obj.stage(self.payload(2))
        return obj

    def write(self, obj: Any, value: int) -> None:
        """Change what it holds."""
        if self.once:
            obj.clear()
        obj.append(self.payload(value))


def buffer(**sizes: Any) -> Callable[[], Any]:
    return lambda: LatentBuffer[Any]().allocate(**sizes)


def held(update: Update) -> Callable[[], Any]:
    return lambda: HeldValue[Any]().allocate(update=update)


KINDS = {
    "buffer_unbounded": Kind(buffer()),
    "buffer_ring_of_items": Kind(buffer(maxlen=2)),
    "buffer_ring_of_frames_torch": Kind(buffer(maxlen=3, axis=0)),
    "buffer_ring_of_frames_numpy": Kind(buffer(maxlen=3, axis=-2), array=True),
    "buffer_changed_in_place": Kind(buffer(maxlen=2, update="in_place")),
    "encode_once": Kind(lambda: EncodeOnce[Any]().allocate(), once=True),
    "held_replaced": Kind(held("replaced")),
    "held_entries": Kind(held("entries")),
    "held_in_place": Kind(held("in_place")),
    "fixed_state": Kind(lambda: FixedState[Any]().allocate(shape=(2, 3), dtype=torch.float32)),
    "fixed_state_sized_by_payload": Kind(lambda: FixedState[Any]().allocate()),
}


@pytest.fixture(params=list(KINDS.values()), ids=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    """Every kind of object, in every way that changes what a capture does."""
    found: Kind = request.param
    return found


def seen(obj: Any) -> tuple[Any, Any]:
    """Copies of what a reader gets, with what is staged and without."""
    copies = []
    for include in (True, False):
        view = obj.view(include_staged=include) if obj.resident else "not resident"
        copies.append([one.copy() if isinstance(one, np.ndarray) else one for one in _flat(view)])
    return tuple([one.clone() if isinstance(one, torch.Tensor) else one for one in copy]
                 for copy in copies)  # type: ignore[return-value]  # fmt: skip


def _flat(view: Any) -> list[Any]:
    return view if isinstance(view, list) else [view]


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


def test_memo_when_looked_at_then_leads_to_what_it_keeps(kind: Kind) -> None:
    """What is kept to go back to can be counted, when the object holds something else."""
    from statekit.accounting import device_bytes

    obj = kind.full()
    nbytes = obj.nbytes
    memo = obj.capture()
    obj.reset()
    assert device_bytes(obj.held_by(memo)).get("cpu", 0) >= nbytes > 0


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
