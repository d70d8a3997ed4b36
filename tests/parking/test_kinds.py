"""What every kind of object owes to parking, asked of each kind, with real files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statekit.books.record import Record
from statekit.parking.disk import DiskTier
from statekit.pressure.putting_away import ParkedUnit, put_away
from statekit.session import SessionState
from tests.equivalence.bits import assert_same_bits
from tests.kinds import Kind, copied, each_kind


@pytest.fixture
def tier(tmp_path: Path) -> Any:
    """A folder to park in."""
    made = DiskTier(tmp_path / "parked")
    yield made
    made.close()


def parked(kind: Kind, tier: DiskTier, obj: Any) -> ParkedUnit | None:
    """What putting away `obj`, the only value of a session, comes to."""
    session = SessionState()
    session.put("value", obj)
    record = session.record = Record(session)
    record.managed = True
    unit = put_away(record, ["value"], tier, lambda unit: None)
    if unit is not None:
        KEPT.append(session)
    return unit


KEPT: list[SessionState] = []
"""Sessions of parked objects, which end with their tier."""


def committed(kind: Kind) -> Any:
    obj = kind.make()
    obj.append(kind.payload(1))
    return obj


@each_kind
def test_object_when_parked_then_holds_nothing_until_it_is_read(kind: Kind, tier: DiskTier) -> None:
    """Parked, it is resident and has no bytes; a reader gets the bits and strides that it had."""
    obj = committed(kind)
    before = copied(obj.view())
    assert parked(kind, tier, obj) is not None
    assert (obj.resident, obj.nbytes, obj.committed()) == (True, 0, None)
    assert_same_bits(obj.view(), before, strides=True)
    assert obj.nbytes == kind.nbytes


USES: dict[str, Callable[[Kind, Any], object]] = {
    "append": lambda kind, obj: kind.write(obj, 7),
    "stage": lambda kind, obj: obj.stage(kind.payload(7)) if not kind.once else obj.view(),
    "capture": lambda kind, obj: obj.roll_back(obj.capture()),
    "twin": lambda kind, obj: obj.take_over(obj.twin(obj.capture()).capture()),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@each_kind
def test_object_when_parked_and_used_then_as_one_that_never_was(
    kind: Kind, use: Callable[[Kind, Any], object], tier: DiskTier
) -> None:
    """Whatever is done with it first, it goes on from what it held, its bounds too."""
    obj, other = committed(kind), committed(kind)
    assert parked(kind, tier, obj) is not None
    use(kind, obj)
    use(kind, other)
    assert_same_bits(obj.view(), other.view())
    for value in (8, 9):
        kind.write(obj, value)
        kind.write(other, value)
        assert_same_bits(obj.view(), other.view())
    assert obj.nbytes == other.nbytes


@pytest.mark.parametrize("operation", ["reset", "evict"])
@each_kind
def test_object_when_parked_and_given_up_then_parked_copy_is_gone(
    kind: Kind, operation: str, tier: DiskTier, tmp_path: Path
) -> None:
    """Nobody can ask for the copy any more, so its file goes."""
    obj = committed(kind)
    unit = parked(kind, tier, obj)
    assert unit is not None
    getattr(obj, operation)()
    assert (obj.resident, unit.keys, unit.record.units) == (False, set(), [])
    obj.allocate(**kind.sizes)
    assert_same_bits(obj.view(), kind.empty)


@each_kind
def test_object_when_staged_or_empty_then_not_parked(kind: Kind, tier: DiskTier) -> None:
    """What a step has under way stays, and of nothing there is no copy."""
    empty = kind.make()
    if not kind.starts_full:
        assert parked(kind, tier, empty) is None
    empty.stage(kind.payload(3))
    assert parked(kind, tier, empty) is None
    assert_same_bits(empty.view(), kind.shown(kind.payload(3)))


@each_kind
def test_object_when_parked_then_in_a_snapshot_from_where_it_is(kind: Kind, tier: DiskTier) -> None:
    """A snapshot is taken of the parked copy, which stays parked."""
    from statekit import restore_session
    from statekit.snapshot.contents import contents_of

    obj = committed(kind)
    before = copied(obj.view())
    unit = parked(kind, tier, obj)
    assert unit is not None
    session = unit.record.session
    assert session is not None
    data = contents_of(session, parked={id(unit): unit.copy()}).to_bytes()
    assert obj.nbytes == 0
    other: Any = restore_session(data).get("value")
    assert_same_bits(other.view(), before)
