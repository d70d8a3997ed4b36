"""Leases, admission, parking under pressure: the manager as an operator with budgets meets it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit.errors import (
    BudgetTooSmallError,
    SessionAdmissionError,
    SessionExistsError,
    SessionStateLostError,
)
from statekit.events import (
    AboveDeclared,
    Dropped,
    Event,
    Evicted,
    Expired,
    Lost,
    OverBudget,
    Parked,
    Released,
    Restored,
)
from statekit.manager import SessionStateManager
from statekit.objects import EncodeOnce, HeldValue
from statekit.parking.parked_file import HEAD_NBYTES
from statekit.spec import ModelSpec, Park, Rebuild, Size, ValueSpec

KIB = 1024
ON_DISK = 64 * KIB + HEAD_NBYTES
PARKABLE = ModelSpec(
    model="toy",
    values=(
        ValueSpec(
            name="cache",
            bucket="StateObject",
            type="list[torch.Tensor | None]",
            device="cpu",
            object="HeldValue",
            dtype="uint8",
            size=Size(elements="64 * 1024"),
            park=Park(tiers=("disk",)),
            operations=("park",),
        ),
    ),
    resets={"session": ("cache",)},
)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def fill(session: Any, seed: int, nbytes: int = 64 * KIB) -> list[torch.Tensor | None]:
    """Give a session a cache of known bytes: two tensors over one storage, and a None."""
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randint(0, 255, (nbytes,), dtype=torch.uint8, generator=generator)
    cache: list[torch.Tensor | None] = [whole[: nbytes // 2], None, whole[nbytes // 4 :]]
    session.get_or_create("cache", lambda: HeldValue().allocate(), HeldValue).append(cache)
    return cache


def read(session: Any) -> Any:
    """The cache as a reader gets it."""
    return session.get("cache").view()


def manager_with(tmp_path: Path, **budgets: object) -> tuple[SessionStateManager, list[Event]]:
    """A manager that can park on disk, and the list of its events."""
    manager = SessionStateManager(budgets=budgets, park_folder=tmp_path)
    events: list[Event] = []
    manager.subscribe(events.append)
    return manager, events


def test_lease_when_continuing_then_the_same_session_with_its_values(tmp_path: Path) -> None:
    """What one lease wrote, the next one reads, the very object."""
    manager, _ = manager_with(tmp_path)
    with manager.lease("a", begin=PARKABLE) as session:
        cache = fill(session, 1)
    with manager.lease("a") as again:
        assert again is session
        assert read(again) is cache


def test_lease_when_nothing_to_continue_then_lost_and_nothing_is_made(tmp_path: Path) -> None:
    """A continuation never starts afresh."""
    manager, _ = manager_with(tmp_path)
    with pytest.raises(SessionStateLostError, match="no session of this id is remembered"):
        manager.lease("a").begin()
    assert len(manager) == 0


def test_lease_when_session_was_dropped_then_error_says_so_and_when() -> None:
    """The bounded memory of the departed tells how, how long ago, and why."""
    clock = Clock()
    manager = SessionStateManager(clock=clock)
    manager.lease("a", begin=PARKABLE).end()
    with manager.lease("a", begin=PARKABLE):
        pass
    manager.drop_session("a")
    clock.now += 7
    with pytest.raises(SessionStateLostError) as caught:
        manager.lease("a").begin()
    assert (caught.value.how, caught.value.ago_s) == ("dropped", 7.0)


def test_begin_when_id_lives_then_refused_and_untouched(tmp_path: Path) -> None:
    """A fresh start under a living id is refused, also while nobody uses it."""
    manager, _ = manager_with(tmp_path)
    with manager.lease("a", begin=PARKABLE) as session:
        cache = fill(session, 1)
    with pytest.raises(SessionExistsError):
        manager.lease("a", begin=PARKABLE).begin()
    with manager.lease("a") as session:
        assert read(session) is cache


def test_pressure_when_second_session_begins_then_the_first_is_parked(tmp_path: Path) -> None:
    """Room for one session only: the idle one goes to disk, and comes back bit for bit."""
    manager, events = manager_with(tmp_path, cpu=100 * KIB)
    with manager.lease("a", begin=PARKABLE) as session:
        expected = [None if one is None else one.clone() for one in fill(session, 1)]
    with manager.lease("b", begin=PARKABLE) as session:
        fill(session, 2)
        stats = manager.stats()
        assert stats["nbytes:cpu"] == 64 * KIB
        assert stats["parked_nbytes:disk"] == stats["nbytes:disk"] == ON_DISK
    assert [one.values for one in events if isinstance(one, Parked)] == [("cache",)]

    with manager.lease("a") as session:
        back = read(session)
        assert [None if one is None else one.tolist() for one in back] == [
            None if one is None else one.tolist() for one in expected
        ]
        assert back[0].untyped_storage().data_ptr() == back[2].untyped_storage().data_ptr()
        assert manager.stats()["nbytes:cpu"] == 64 * KIB
    assert [type(one) for one in events if isinstance(one, Parked | Restored)] == [
        Parked,
        Parked,
        Restored,
    ]


def test_pressure_when_all_are_leased_then_nothing_is_touched_and_the_new_one_refused(
    tmp_path: Path,
) -> None:
    """Admission fails with the figures and the holders; the leased session keeps its object."""
    manager, _ = manager_with(tmp_path, cpu=100 * KIB)
    with manager.lease("a", begin=PARKABLE) as session:
        cache = fill(session, 1)
        with pytest.raises(SessionAdmissionError) as caught:
            manager.lease("b", begin=PARKABLE).begin()
        assert (caught.value.device, caught.value.need) == ("cpu", 64 * KIB)
        assert caught.value.available == 36 * KIB
        assert caught.value.holders == (("a", 64 * KIB),)
        assert read(session) is cache
    assert "b" not in manager


def test_admission_when_declared_but_not_yet_held_then_the_promise_counts(tmp_path: Path) -> None:
    """Two sessions cannot be promised the same room, though none holds a byte yet."""
    manager, _ = manager_with(tmp_path, cpu=100 * KIB)
    with manager.lease("a", begin=PARKABLE), pytest.raises(SessionAdmissionError):
        manager.lease("b", begin=PARKABLE).begin()


def test_budget_when_it_cannot_hold_one_session_then_refused_at_start(tmp_path: Path) -> None:
    """The figure is in the error."""
    with pytest.raises(BudgetTooSmallError, match="65536"):
        SessionStateManager(budgets={"cpu": 1000}, specs=[PARKABLE])


def test_growth_when_over_budget_and_nothing_can_go_then_an_event_and_no_loss() -> None:
    """Growth of an admitted session is surfaced, never data loss."""
    manager = SessionStateManager(budgets={"cpu": 100 * KIB})
    events: list[Event] = []
    manager.subscribe(events.append)
    with manager.lease("a", begin=PARKABLE) as session:
        cache = fill(session, 1, nbytes=200 * KIB)
    assert [type(one) for one in events if isinstance(one, OverBudget | AboveDeclared)] == [
        AboveDeclared,
        OverBudget,
    ]
    stats = manager.stats()
    assert stats["budget_nbytes:cpu"] == 100 * KIB
    assert stats["over_budget_nbytes:cpu"] == 100 * KIB
    with manager.lease("a") as session:
        assert read(session) is cache


def test_drop_when_leased_then_it_takes_effect_when_the_lease_ends(tmp_path: Path) -> None:
    """Until then the session is untouched; after it, it is gone."""
    manager, _ = manager_with(tmp_path)
    with manager.lease("a", begin=PARKABLE) as session:
        cache = fill(session, 1)
        assert manager.drop_session("a")
        assert read(session) is cache
    assert "a" not in manager
    assert not session.get("cache").resident
    with pytest.raises(SessionStateLostError, match="dropped"):
        manager.lease("a").begin()


def test_lease_when_its_holder_goes_away_without_a_word_then_it_ends(tmp_path: Path) -> None:
    """A client that is gone needs no goodbye: the lease ends with its last reference."""
    manager, _ = manager_with(tmp_path)
    lease = manager.lease("a", begin=PARKABLE)
    lease.begin()
    assert manager.stats()["leases"] == 1
    del lease
    gc.collect()
    assert manager.stats()["leases"] == 0


def test_expire_when_idle_for_long_then_gone_and_leased_ones_stay() -> None:
    """Idle sessions end; one in use does not, however long."""
    clock = Clock()
    manager = SessionStateManager(idle_timeout_s=10, clock=clock)
    manager.lease("idle", begin=PARKABLE).begin()
    gc.collect()
    busy = manager.lease("busy", begin=PARKABLE)
    busy.begin()
    clock.now += 11
    assert manager.expire() == ("idle",)
    assert "busy" in manager
    busy.end()


def test_parked_value_when_read_without_a_lease_then_it_comes_back(tmp_path: Path) -> None:
    """A reader who holds the session gets the value, not an empty one."""
    manager, _ = manager_with(tmp_path, cpu=100 * KIB)
    with manager.lease("a", begin=PARKABLE) as first:
        expected = fill(first, 1)[0].tolist()
    manager.lease("b", begin=PARKABLE).end()
    with manager.lease("b", begin=PARKABLE) as second:
        fill(second, 2)
    assert first.parked or second.parked
    assert read(first)[0].tolist() == expected


REBUILDABLE = ModelSpec(
    model="kv",
    inputs={"prompt": True},
    values=tuple(
        ValueSpec(
            name=name,
            bucket="StateObject",
            type="torch.Tensor",
            device="cpu",
            object="EncodeOnce",
            dtype="uint8",
            size=Size(elements="1024"),
            rebuild=Rebuild(sources=("prompt",)),
            operations=("stage", "release"),
        )
        for name in ("kv", "freqs")
    ),
    atomic={"branch": ("kv", "freqs")},
    resets={"session": ("kv", "freqs")},
)


def test_release_when_values_are_an_atomic_group_then_all_or_none_of_them() -> None:
    """What can be rebuilt goes first, and never half of a group."""
    manager = SessionStateManager(budgets={"cpu": 3 * KIB})
    events: list[Event] = []
    manager.subscribe(events.append)
    for name in ("a", "b"):
        with manager.lease(name, begin=REBUILDABLE) as session:
            for key in ("kv", "freqs"):
                member = session.get_or_create(key, lambda: EncodeOnce().allocate(), EncodeOnce)
                member.append(torch.zeros(KIB, dtype=torch.uint8))
    released = [one for one in events if isinstance(one, Released)]
    assert [(one.session_id, one.value, one.nbytes) for one in released] == [
        ("a", "kv+freqs", 2 * KIB)
    ]
    with manager.lease("a") as session:
        assert not session.get("kv").resident
        assert not session.get("freqs").resident


def test_explain_when_parked_then_says_where_how_much_and_what_next(tmp_path: Path) -> None:
    """Each value has a place, bytes, and what would be done with it."""
    manager, _ = manager_with(tmp_path, cpu=100 * KIB)
    with manager.lease("a", begin=PARKABLE) as session:
        fill(session, 1)
    with manager.lease("b", begin=PARKABLE) as session:
        fill(session, 2)
    places = {name: manager.explain(name).values[0] for name in ("a", "b")}
    assert places["a"].where == "parked in disk"
    assert places["a"].nbytes == {"disk": ON_DISK}
    assert places["b"].where == "resident"
    assert places["b"].next == "stays; could be parked in disk"
    assert "parked in disk" in str(manager.explain("a"))


def test_departed_when_evicted_by_count_then_subscribers_hear_of_it() -> None:
    """Eviction by count is an event with its reason."""
    manager = SessionStateManager(max_sessions=1)
    events: list[Event] = []
    stop = manager.subscribe(events.append)
    manager.get_or_create_session("a")
    manager.get_or_create_session("b")
    stop()
    manager.get_or_create_session("c")
    assert [(type(one), one.session_id) for one in events] == [(Evicted, "a")]


def test_events_when_sessions_end_or_are_missed_then_each_kind_is_told() -> None:
    """Dropped, expired and lost are events of their own, with the reason."""
    clock = Clock()
    manager = SessionStateManager(idle_timeout_s=10, clock=clock)
    events: list[Event] = []
    manager.subscribe(events.append)
    for name in ("dropped", "idle"):
        with manager.lease(name, begin=PARKABLE):
            pass
    manager.drop_session("dropped")
    clock.now += 11
    manager.expire()
    with pytest.raises(SessionStateLostError):
        manager.lease("idle").begin()
    told = [one for one in events if isinstance(one, Dropped | Expired | Lost)]
    assert [(type(one), one.session_id, one.how) for one in told] == [
        (Dropped, "dropped", "dropped"),
        (Expired, "idle", "expired"),
        (Lost, "idle", "expired"),
    ]
