"""What events say for those who watch: durations, waits, tiers, causes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from statekit.errors import ParkError, SessionAdmissionError
from statekit.events import (
    Dropped,
    Event,
    Evicted,
    Expired,
    Leased,
    Parked,
    Refused,
    Restored,
    RestoreFailed,
)
from statekit.manager import SessionStateManager
from statekit.parking.disk import DiskParked, DiskTier
from statekit.spec import ModelSpec
from tests.pressure.toys import DECLARED, KEPT, LOSABLE, VALUES, write

SLOW_S = 0.05


def begin(manager: SessionStateManager, key: str, spec: ModelSpec = KEPT) -> None:
    with manager.lease(key, begin=spec) as session:
        for name in VALUES:
            write(session, name, 1)


def watched(**arguments: Any) -> tuple[SessionStateManager, list[Event]]:
    manager, heard = SessionStateManager(**arguments), list[Event]()
    manager.subscribe(heard.append)
    return manager, heard


def of(heard: list[Event], kind: type[Any]) -> list[Any]:
    return [one for one in heard if type(one) is kind]


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parking on disk takes a while."""
    begin_park = DiskTier.begin_park

    def slow(self: DiskTier, image: Any) -> Any:
        time.sleep(SLOW_S)
        return begin_park(self, image)

    monkeypatch.setattr(DiskTier, "begin_park", slow)


@pytest.mark.usefixtures("slow_disk")
def test_times_when_values_are_parked_and_come_back_then_real_seconds_and_the_tier(
    tmp_path: Path,
) -> None:
    """Also where the manager's clock stands still: durations are real."""
    budgets = {"cpu": DECLARED * 3 // 2}
    manager, heard = watched(budgets=budgets, park_folder=tmp_path, clock=lambda: 5.0)
    start = time.perf_counter()
    begin(manager, "a")
    begin(manager, "b")
    took_s = time.perf_counter() - start
    parked = of(heard, Parked)
    assert {one.session_id for one in parked} >= {"a"}
    for one in parked:
        assert SLOW_S <= one.took_s <= took_s
        assert (one.tier, one.at) == ("disk", 5.0)
    with manager.lease("a"):
        pass
    restored = of(heard, Restored)
    assert len(restored) == sum(one.session_id == "a" for one in parked)
    for one in restored:
        assert one.tier == "disk"
        assert 0 < one.took_s < 10
    waits = [one.waited_s for one in of(heard, Leased)]
    assert waits[-1] >= sum(one.took_s for one in restored)


@pytest.mark.usefixtures("slow_disk")
def test_wait_when_room_has_to_be_made_then_the_lease_says_how_long(tmp_path: Path) -> None:
    """A session that begins waits for what others give up for it."""
    manager, heard = watched(budgets={"cpu": DECLARED * 3 // 2}, park_folder=tmp_path)
    begin(manager, "a")
    begin(manager, "b")
    first, second = (one.waited_s for one in of(heard, Leased))
    assert first < SLOW_S
    assert of(heard, Parked)
    assert second >= SLOW_S


def test_refused_when_there_is_no_room_then_it_says_what_there_is_no_room_for() -> None:
    """A device, or the table."""
    manager, heard = watched(budgets={"cpu": DECLARED})
    held = manager.lease("a", begin=KEPT)
    held.begin()
    with pytest.raises(SessionAdmissionError):
        begin(manager, "b")
    full, told = watched(max_sessions=1)
    other = full.lease("a", begin=KEPT)
    other.begin()
    with pytest.raises(SessionAdmissionError):
        begin(full, "b")
    assert [one.device for one in of(heard, Refused)] == ["cpu"]
    assert [one.device for one in of(told, Refused)] == ["sessions"]
    held.end()
    other.end()


def test_departed_when_evicted_then_it_says_of_what_there_was_too_much() -> None:
    """By count, for its bytes; a drop and an expiry need no cause."""
    now = [0.0]
    manager, heard = watched(
        max_sessions=2,
        budgets={"cpu": DECLARED * 3 // 2},
        idle_timeout_s=10,
        clock=lambda: now[0],
    )
    for key in "ab":
        begin(manager, key, LOSABLE)
    assert [one.cause for one in of(heard, Evicted)] == ["bytes"]
    for key in "xyz":
        manager.get_or_create_session(key)
    assert [one.cause for one in of(heard, Evicted)][-1] == "sessions"
    manager.drop_session("z")
    begin(manager, "c", LOSABLE)
    now[0] = 20.0
    manager.expire()
    assert [one.cause for one in of(heard, Dropped)] == [""]
    assert [one.cause for one in of(heard, Expired)] == [""]


def test_restore_failed_when_a_lease_cannot_begin_then_said_and_the_values_stay_parked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease raises what it always did; who watches learns of it."""
    manager, heard = watched(budgets={"cpu": DECLARED * 3 // 2}, park_folder=tmp_path)
    begin(manager, "a")
    begin(manager, "b")
    with monkeypatch.context() as patch:
        error = ParkError("disk", "restore", "the disk is gone", "mount it")
        patch.setattr(DiskParked, "begin_restore", lambda self: raised(error))
        with pytest.raises(ParkError, match="the disk is gone"):
            manager.lease("a").begin()
    (failed,) = of(heard, RestoreFailed)
    assert (failed.session_id, failed.tier) == ("a", "disk")
    assert failed.values == next(o.values for o in of(heard, Parked) if o.session_id == "a")
    assert "the disk is gone" in failed.reason
    with manager.lease("a") as session:
        assert session.get("cache").view() is not None  # type: ignore[union-attr]


def raised(error: Exception) -> None:
    raise error
