"""The StateObject contract, asked of every kind of object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from statekit.accounting import SeenStorages
from statekit.errors import NotAllocatedError, PayloadError
from statekit.objects import EncodeOnce, FixedState, LatentBuffer
from statekit.on_commit import OnCommit
from statekit.state_object import StateObject
from tests.equivalence.bits import assert_same_bits

FRAME = 3 * 4  # bytes of one frame of every payload below: 3 elements of 4 bytes


@attrs.frozen
class Kind:
    """One kind of object, made empty, and payloads of 2 frames for it."""

    new: Callable[[], Any]
    sizes: dict[str, Any]
    array: bool = False
    once: bool = False
    one: bool = False  # the view is the newest payload, not a list of them
    copies: bool = False  # a commit copies the payload

    def make(self, **more: Any) -> Any:
        return self.new().allocate(**self.sizes, **more)

    @property
    def empty(self) -> Any:
        return None if self.one else []

    def shown(self, payload: Any) -> Any:
        return payload if self.one else [payload]

    def payload(self, start: int = 0) -> Any:
        data = np.arange(start, start + 6, dtype=np.float32).reshape(2, 3)
        return data if self.array else torch.from_numpy(data).clone()


KINDS = {
    "buffer_unbounded": Kind(LatentBuffer, {}),
    "buffer_ring_of_items": Kind(LatentBuffer, {"maxlen": 2}),
    "buffer_ring_of_frames_torch": Kind(LatentBuffer, {"maxlen": 3, "axis": 0}),
    "buffer_ring_of_frames_numpy": Kind(LatentBuffer, {"maxlen": 3, "axis": -2}, array=True),
    "encode_once": Kind(EncodeOnce, {}, once=True, one=True),
    "fixed_state_sized_by_payload": Kind(FixedState, {}, one=True, copies=True),
}


@pytest.fixture(params=list(KINDS.values()), ids=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    """Every kind of StateObject."""
    found: Kind = request.param
    return found


class Failing(OnCommit):
    """A copy that runs out of memory."""

    def apply(self, payload: Any) -> Any:
        raise MemoryError("no room for the copy")


def staged_nbytes(obj: StateObject[Any, Any]) -> int:
    return sum(obj.staged_nbytes_by_device().values())


@pytest.mark.parametrize("operation", ["stage", "commit", "commit_payload", "append", "view"])
def test_object_when_not_allocated_then_use_names_the_cure(kind: Kind, operation: str) -> None:
    """Whatever needs the object allocated raises a RuntimeError saying so, and changes nothing."""
    calls = {
        "stage": lambda obj: obj.stage(kind.payload()),
        "commit": lambda obj: obj.commit(),
        "commit_payload": lambda obj: obj.commit(kind.payload()),
        "append": lambda obj: obj.append(kind.payload()),
        "view": lambda obj: obj.view(),
    }
    obj = kind.new()
    with pytest.raises(
        NotAllocatedError, match=r"not allocated; call allocate\(\) first"
    ) as caught:
        calls[operation](obj)
    assert isinstance(caught.value, RuntimeError)
    assert not obj.resident
    assert (obj.nbytes, staged_nbytes(obj)) == (0, 0)


def test_object_when_not_allocated_then_letting_go_is_allowed(kind: Kind) -> None:
    """discard, evict and reset of an unallocated object do nothing."""
    obj = kind.new()
    obj.discard()
    obj.reset()
    assert obj.evict() == 0
    assert not obj.resident


def test_allocate_when_called_then_object_itself_is_empty_and_resident(kind: Kind) -> None:
    """allocate() returns the object, resident and holding nothing."""
    obj = kind.new()
    assert obj.allocate(**kind.sizes) is obj
    assert obj.resident
    assert obj.view() == kind.empty
    assert obj.nbytes_by_device() == {}


def test_allocate_when_size_is_mistyped_then_type_error(kind: Kind) -> None:
    """A keyword that the kind does not know is Python's own TypeError."""
    with pytest.raises(TypeError, match="max_len"):
        kind.new().allocate(max_len=3)


def test_stage_when_not_committed_then_only_the_including_view_shows_it(kind: Kind) -> None:
    """Staged data is in view() and not in view(include_staged=False); its bytes are told apart."""
    obj = kind.make()
    empty = obj.view()
    obj.stage(kind.payload())
    assert_same_bits(obj.view(include_staged=False), empty)
    assert_same_bits(obj.view(), kind.shown(kind.payload()))
    assert (obj.nbytes, staged_nbytes(obj)) == (0, 2 * FRAME)


def test_commit_when_staged_then_view_does_not_change(kind: Kind) -> None:
    """S2: what a reader sees before the commit is what it sees after, bit for bit."""
    obj = kind.make()
    for step in range(1 if kind.once else 4):
        obj.stage(kind.payload(10 * step))
        before = obj.view()
        obj.commit()
        assert_same_bits(obj.view(), before, strides=True)
        assert_same_bits(obj.view(include_staged=False), before, strides=True)
        assert staged_nbytes(obj) == 0


def test_discard_when_staged_then_committed_stays(kind: Kind) -> None:
    """S1: discard drops what is staged and leaves committed data as it was."""
    obj = kind.make()
    if not kind.once:
        obj.append(kind.payload())
    before = obj.view()
    obj.stage(kind.payload(50))
    obj.discard()
    assert_same_bits(obj.view(), before)
    assert staged_nbytes(obj) == 0
    obj.commit()
    assert_same_bits(obj.view(), before)


def test_append_when_called_then_same_as_stage_and_commit(kind: Kind) -> None:
    """append(), commit(payload) and stage() with commit() leave the same committed data."""
    one, two, three = kind.make(), kind.make(), kind.make()
    one.append(kind.payload())
    two.commit(kind.payload())
    three.stage(kind.payload())
    three.commit()
    for obj in (one, two, three):
        assert_same_bits(obj.view(include_staged=False), one.view())
        assert obj.nbytes_by_device() == {"cpu": 2 * FRAME}


def test_write_when_payload_is_none_then_refused(kind: Kind) -> None:
    """None is no payload: stage and append refuse it instead of losing it."""
    obj = kind.make()
    for write in (obj.stage, obj.append):
        with pytest.raises(PayloadError, match="None"):
            write(None)
    assert_same_bits(obj.view(), kind.empty)


def test_write_when_copy_fails_then_nothing_has_changed(kind: Kind) -> None:
    """S3: a write that raises leaves committed and staged data as they were."""
    obj = kind.make()
    if not kind.once:
        obj.append(kind.payload())
    obj.stage(kind.payload(10))
    committed, shown = obj.view(include_staged=False), obj.view()
    obj._on_commit = Failing(compact=True)
    for write in (obj.stage, obj.append, obj.commit):
        with pytest.raises(MemoryError):
            write(kind.payload(20))
        assert_same_bits(obj.view(include_staged=False), committed)
        assert_same_bits(obj.view(), shown)


def test_evict_when_staged_then_only_committed_bytes_are_freed(kind: Kind) -> None:
    """S1, S4: evict returns the committed bytes, leaves staged ones, and the object unallocated."""
    obj = kind.make()
    if not kind.once:
        obj.append(kind.payload())
    obj.stage(kind.payload(10))
    assert obj.evict() == (0 if kind.once else 2 * FRAME)
    assert not obj.resident
    assert (obj.nbytes, staged_nbytes(obj)) == (0, 2 * FRAME)
    with pytest.raises(NotAllocatedError):
        obj.view()


def test_evict_when_staged_shares_the_storage_then_nothing_is_freed() -> None:
    """Bytes that the object still holds through staged data are not reported as freed."""
    kind = KINDS["buffer_unbounded"]
    obj = kind.make()
    payload = kind.payload()
    obj.append(payload)
    obj.stage(payload)
    assert obj.evict() == 0


@pytest.mark.parametrize("policy", [None, "any"])
def test_evict_when_committed_then_storage_is_given_back(kind: Kind, policy: object) -> None:
    """evict returns exactly the bytes held and holds none afterwards, whatever the policy."""
    obj = kind.make()
    obj.append(kind.payload())
    assert obj.evict(policy) == 2 * FRAME
    assert (obj.nbytes, obj.evict(policy)) == (0, 0)


def test_reset_when_filled_then_unallocated_until_allocated_anew(kind: Kind) -> None:
    """reset drops both kinds of data; allocate makes the object usable and empty again."""
    obj = kind.make()
    if not kind.once:
        obj.append(kind.payload())
    obj.stage(kind.payload())
    obj.reset()
    assert not obj.resident
    assert (obj.nbytes, staged_nbytes(obj)) == (0, 0)
    obj.allocate(**kind.sizes)
    assert obj.view() == kind.empty
    obj.append(kind.payload())
    assert obj.nbytes == 2 * FRAME


def test_bytes_when_counted_with_one_seen_then_each_storage_once(kind: Kind) -> None:
    """A storage that `seen` has met counts nothing, for committed and staged data alike."""
    payload = kind.payload()
    one, two = kind.make(), kind.make()
    one.append(payload)
    two.stage(payload)
    seen = SeenStorages()
    assert one.nbytes_by_device(seen) == {"cpu": 2 * FRAME}
    assert one.nbytes_by_device(seen) == {}
    assert two.staged_nbytes_by_device(seen) == ({"cpu": 2 * FRAME} if kind.copies else {})
    assert two.staged_nbytes_by_device(seen) == {}


def test_recomputable_when_source_is_resident_then_true(kind: Kind) -> None:
    """recomputable follows the source: absent, resident, evicted."""
    obj, source = kind.make(), kind.make()
    assert not obj.recomputable
    obj.recompute_source = source
    assert obj.recomputable
    source.evict()
    assert not obj.recomputable


def test_state_object_when_abstract_then_not_constructible() -> None:
    """The contract itself cannot be instantiated."""
    with pytest.raises(TypeError, match="abstract"):
        StateObject()  # type: ignore[abstract]
