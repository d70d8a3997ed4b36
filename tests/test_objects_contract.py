"""The StateObject contract, asked of every kind of object."""

from __future__ import annotations

from typing import Any

import pytest

from statekit.accounting import SeenStorages
from statekit.errors import NotAllocatedError, PayloadError
from statekit.on_commit import OnCommit
from statekit.state_object import StateObject
from tests.equivalence.bits import assert_same_bits
from tests.kinds import KINDS, Kind, each_kind


class Failing(OnCommit):
    """A copy that runs out of memory."""

    def apply(self, payload: Any) -> Any:
        raise MemoryError("no room for the copy")


def staged_nbytes(obj: StateObject[Any, Any]) -> int:
    return sum(obj.staged_nbytes_by_device().values())


@pytest.mark.parametrize("operation", ["stage", "commit", "commit_payload", "append", "view"])
@each_kind
def test_object_when_not_allocated_then_use_names_the_cure(kind: Kind, operation: str) -> None:
    """Whatever needs the object allocated raises a RuntimeError saying so, and changes nothing."""
    calls = {
        "stage": lambda obj: obj.stage(kind.payload(0)),
        "commit": lambda obj: obj.commit(),
        "commit_payload": lambda obj: obj.commit(kind.payload(0)),
        "append": lambda obj: obj.append(kind.payload(0)),
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


@each_kind
def test_object_when_not_allocated_then_letting_go_is_allowed(kind: Kind) -> None:
    """discard, evict and reset of an unallocated object do nothing."""
    obj = kind.new()
    obj.discard()
    obj.reset()
    assert obj.evict() == 0
    assert not obj.resident


@each_kind
def test_allocate_when_called_then_object_itself_is_empty_and_resident(kind: Kind) -> None:
    """allocate() returns the object, resident and holding nothing."""
    obj = kind.new()
    assert obj.allocate(**kind.sizes) is obj
    assert obj.resident
    assert_same_bits(obj.view(), kind.empty)
    assert obj.nbytes == kind.empty_nbytes


@each_kind
def test_allocate_when_size_is_mistyped_then_type_error(kind: Kind) -> None:
    """A keyword that the kind does not know is Python's own TypeError."""
    with pytest.raises(TypeError, match="max_len"):
        kind.new().allocate(max_len=3)


@each_kind
def test_stage_when_not_committed_then_only_the_including_view_shows_it(kind: Kind) -> None:
    """Staged data is in view() and not in view(include_staged=False); its bytes are told apart."""
    obj = kind.make()
    empty = obj.view()
    obj.stage(kind.payload(0))
    assert_same_bits(obj.view(include_staged=False), empty)
    assert_same_bits(obj.view(), kind.shown(kind.payload(0)))
    assert (obj.nbytes, staged_nbytes(obj)) == (kind.empty_nbytes, kind.nbytes)


@each_kind
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


@each_kind
def test_discard_when_staged_then_committed_stays(kind: Kind) -> None:
    """S1: discard drops what is staged and leaves committed data as it was."""
    obj = kind.make()
    if not kind.once:
        obj.append(kind.payload(0))
    before = obj.view()
    obj.stage(kind.payload(50))
    obj.discard()
    assert_same_bits(obj.view(), before)
    assert staged_nbytes(obj) == 0
    obj.commit()
    assert_same_bits(obj.view(), before)


@each_kind
def test_append_when_called_then_same_as_stage_and_commit(kind: Kind) -> None:
    """append(), commit(payload) and stage() with commit() leave the same committed data."""
    one, two, three = kind.make(), kind.make(), kind.make()
    one.append(kind.payload(0))
    two.commit(kind.payload(0))
    three.stage(kind.payload(0))
    three.commit()
    for obj in (one, two, three):
        assert_same_bits(obj.view(include_staged=False), one.view())
        assert obj.nbytes_by_device() == {"cpu": kind.nbytes}


@each_kind
def test_write_when_payload_is_none_then_refused(kind: Kind) -> None:
    """None is no payload: stage and append refuse it instead of losing it."""
    obj = kind.make()
    for write in (obj.stage, obj.append):
        with pytest.raises(PayloadError, match="None"):
            write(None)
    assert_same_bits(obj.view(), kind.empty)


@each_kind
def test_write_when_copy_fails_then_nothing_has_changed(kind: Kind) -> None:
    """S3: a write that raises leaves committed and staged data as they were."""
    obj = kind.make()
    if not kind.once:
        obj.append(kind.payload(0))
    obj.stage(kind.payload(10))
    committed, shown = obj.view(include_staged=False), obj.view()
    obj._on_commit = Failing(compact=True)
    for write in (obj.stage, obj.append, obj.commit):
        with pytest.raises(MemoryError):
            write(kind.payload(20))
        assert_same_bits(obj.view(include_staged=False), committed)
        assert_same_bits(obj.view(), shown)


@each_kind
def test_evict_when_staged_then_only_committed_bytes_are_freed(kind: Kind) -> None:
    """S1, S4: evict returns the committed bytes, leaves staged ones, and the object unallocated."""
    obj = kind.make()
    if not kind.once:
        obj.append(kind.payload(0))
    obj.stage(kind.payload(10))
    assert obj.evict() == (0 if kind.once else kind.nbytes)
    assert not obj.resident
    assert (obj.nbytes, staged_nbytes(obj)) == (0, kind.nbytes)
    with pytest.raises(NotAllocatedError):
        obj.view()


def test_evict_when_staged_shares_the_storage_then_nothing_is_freed() -> None:
    """Bytes that the object still holds through staged data are not reported as freed."""
    kind = KINDS["buffer_unbounded"]
    obj = kind.make()
    payload = kind.payload(0)
    obj.append(payload)
    obj.stage(payload)
    assert obj.evict() == 0


@pytest.mark.parametrize("policy", [None, "any"])
@each_kind
def test_evict_when_committed_then_storage_is_given_back(kind: Kind, policy: object) -> None:
    """evict returns exactly the bytes held and holds none afterwards, whatever the policy."""
    obj = kind.make()
    obj.append(kind.payload(0))
    assert obj.evict(policy) == kind.nbytes
    assert (obj.nbytes, obj.evict(policy)) == (0, 0)


@each_kind
def test_reset_when_filled_then_unallocated_until_allocated_anew(kind: Kind) -> None:
    """reset drops both kinds of data; allocate makes the object usable and empty again."""
    obj = kind.make()
    if not kind.once:
        obj.append(kind.payload(0))
    obj.stage(kind.payload(0))
    obj.reset()
    assert not obj.resident
    assert (obj.nbytes, staged_nbytes(obj)) == (0, 0)
    obj.allocate(**kind.sizes)
    assert_same_bits(obj.view(), kind.empty)
    obj.append(kind.payload(0))
    assert obj.nbytes == kind.nbytes


@each_kind
def test_bytes_when_counted_with_one_seen_then_each_storage_once(kind: Kind) -> None:
    """A storage that `seen` has met counts nothing, for committed and staged data alike."""
    payload = kind.payload(0)
    one, two = kind.make(), kind.make()
    one.append(payload)
    two.stage(payload)
    seen = SeenStorages()
    assert one.nbytes_by_device(seen) == {"cpu": kind.nbytes}
    assert one.nbytes_by_device(seen) == {}
    assert two.staged_nbytes_by_device(seen) == ({"cpu": kind.own} if kind.own else {})
    assert two.staged_nbytes_by_device(seen) == {}


@each_kind
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
