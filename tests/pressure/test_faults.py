"""What fails while a manager works: disks, memory, subscribers, policies, engines; no loss."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import re
import threading
import warnings
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch

from statekit.errors import ParkError, PolicyError, SessionAdmissionError, SessionStateLostError
from statekit.events import (
    Created,
    Departed,
    Event,
    Leased,
    OverBudget,
    Parked,
    ParkFailed,
    Rebuilt,
    Refused,
    Released,
    Restored,
)
from statekit.manager import SessionStateManager
from statekit.objects import EngineHandle, HeldValue
from statekit.parking import disk
from statekit.parking.parked_file import HEAD_NBYTES
from statekit.pressure.plan import Decision, Facts, Plan
from statekit.pressure.planner import plan_release
from statekit.session import SessionState
from statekit.spec import ModelSpec
from tests.block_pool import BlockPool, PoolFullError
from tests.parking.fakes import FakeEngine, fail_after
from tests.pressure.toys import DECLARED, KEPT, LOSABLE, bits, copied, peek, read, same, write

PARKED = ("cache", "frames", "state")
ROOM = DECLARED + 512
"""For one session, and what stays of another one that is parked."""


def held(session: SessionState, seed: int = 1) -> dict[str, Any]:
    """Fill what can be parked, and the note."""
    return {name: write(session, name, seed) for name in (*PARKED, "note")}


class Scene:
    """A manager with room for one session and a bit; "a" is idle, holds values, and would go."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.manager = SessionStateManager(budgets={"cpu": ROOM}, park_folder=folder, **more)
        self.folder = folder
        self.events: list[Event] = []
        self.manager.subscribe(self.events.append)
        with self.manager.lease("a", begin=KEPT) as session:
            self.want = held(session)
        self.session = session

    def press(self) -> None:
        """Begin and end another session."""
        with self.manager.lease("b", begin=KEPT):
            pass

    def park(self) -> None:
        self.press()
        self.manager.drop_session("b")
        assert len(self.session.parked) == 1

    def files(self) -> list[Path]:
        return [one for one in self.folder.glob("owner-*/*") if one.name != "lock"]

    def assert_whole(self) -> None:
        with self.manager.lease("a") as session:
            assert session is self.session
            for name, want in self.want.items():
                assert same(read(session, name), want), name

    def heard(self, kind: type[Event]) -> list[Any]:
        return [one for one in self.events if isinstance(one, kind)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def no_space(*args: Any, **named: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_right(*args: Any, **named: Any) -> int:
    raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def no_memory(*args: Any, **named: Any) -> int:
    raise MemoryError("cannot allocate")


# -- parking fails -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "failure", "message"),
    [
        ("write_part", no_space, "free disk space"),
        ("write_part", no_right, "give this process the right"),
        ("write_part", no_memory, "free memory"),
        ("write_head", no_space, "free disk space"),
        ("part_checksum", no_memory, "free memory"),
    ],
)
def test_park_when_it_fails_then_an_event_and_all_is_as_it_was(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, place: str, failure: Any, message: str
) -> None:
    """The new session is refused, the old one keeps its very objects, no file is left."""
    before = {name: peek(scene.session, name) for name in PARKED}
    with monkeypatch.context() as patch:
        patch.setattr(disk, place, failure)
        with pytest.raises(SessionAdmissionError):
            scene.press()
    (failed,) = scene.heard(ParkFailed)
    assert failed.values == tuple(sorted(PARKED))
    assert message in failed.reason
    assert scene.files() == []
    assert all(peek(scene.session, name) is before[name] for name in PARKED if name != "frames")
    assert "b" not in scene.manager
    scene.assert_whole()
    scene.press()
    assert len(scene.heard(Parked)) == 1
    scene.assert_whole()


def test_park_when_it_fails_at_the_end_of_a_lease_then_the_lease_ends_well(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Growth that finds no place is an event; whoever worked with the session is not disturbed."""
    monkeypatch.setattr(disk, "write_part", no_space)
    with scene.manager.lease("a") as session:
        scene.want["cache"] = write(session, "cache", 2, 30_000)
    assert len(scene.heard(ParkFailed)) == 1
    assert [(one.device, one.budget_nbytes) for one in scene.heard(OverBudget)] == [("cpu", ROOM)]
    scene.assert_whole()


def test_park_when_a_value_has_no_picture_then_an_event_that_names_the_part(tmp_path: Path) -> None:
    """What cannot be parked stays, the others are parked; the reason leads to the part."""
    scene = Scene(tmp_path)
    with scene.manager.lease("a") as session:
        session.get("cache").append([torch.ones(3900, requires_grad=True) * 2])
    with pytest.raises(SessionAdmissionError):
        scene.press()
    (failed,) = scene.heard(ParkFailed)
    assert failed.values == ("cache",)
    assert "['cache'][0]" in failed.reason
    assert sorted(one.values for one in scene.heard(Parked)) == [("frames",), ("state",)]


# -- restoring fails -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "failure", "message"),
    [
        ("read_part", no_right, "give this process the right"),
        ("read_part", no_memory, "free memory"),
        ("empty_bytes", no_memory, "free memory"),
        ("part_checksum", lambda part: 1, "its bytes have changed"),
    ],
)
def test_restore_when_it_fails_then_the_lease_says_so_and_the_copy_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, place: str, failure: Any, message: str
) -> None:
    """The lease raises, ends, and a later one succeeds with every bit."""
    scene.park()
    with monkeypatch.context() as patch:
        patch.setattr(disk, place, failure)
        for _ in range(2):
            with pytest.raises(ParkError, match=message):
                scene.manager.lease("a").begin()
        with pytest.raises(ParkError, match=message):
            read(scene.session, "cache")
    assert len(scene.files()) == 1
    assert scene.manager.stats()["leases"] == 0
    assert scene.manager.stats()["parked_nbytes:disk"] > HEAD_NBYTES
    assert not scene.heard(Restored)
    scene.assert_whole()
    assert scene.files() == []


def test_restore_when_memory_ends_in_its_middle_then_the_copy_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of several buffers cannot be had, all of the unit stays parked."""
    scene.park()
    for allowed in range(3):
        with monkeypatch.context() as patch:
            fail_after(patch, allowed, MemoryError("no more"))
            with pytest.raises(ParkError, match="free memory"):
                scene.manager.lease("a").begin()
        assert all(peek(scene.session, name) is None for name in PARKED)
    scene.assert_whole()


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_restore_when_the_file_is_damaged_then_the_error_names_it(
    scene: Scene, damage: str
) -> None:
    """A damaged copy is never handed out; repaired, it serves again."""
    scene.park()
    (file,) = scene.files()
    good = file.read_bytes()
    if damage == "flip":
        file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    elif damage == "truncate":
        file.write_bytes(good[:-1])
    else:
        file.unlink()
    with pytest.raises(ParkError, match=r"begin the session anew|removing files"):
        scene.manager.lease("a").begin()
    file.write_bytes(good)
    scene.assert_whole()


# -- host memory and back ------------------------------------------------------------------------


def test_move_to_disk_when_it_fails_then_the_host_copy_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Device to host, host to disk, and back; a failed move leaves the copy where it is."""
    from statekit.parking.host import HostTier

    scene = Scene(tmp_path)
    tiers: Any = scene.manager._relief._tiers
    tiers["host"] = HostTier(engine=FakeEngine(), chunk_bytes=1024)
    _park_in(scene, "host")
    assert [one.tier for one in scene.session.parked] == ["host"]
    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_part", no_space)
        _park_in(scene, "disk")
    assert scene.heard(ParkFailed)[-1].tier == "disk"
    assert [one.tier for one in scene.session.parked] == ["host"]
    _park_in(scene, "disk")
    assert [one.tier for one in scene.session.parked] == ["disk"]
    assert [one.tier for one in scene.heard(Parked)] == ["host", "disk"]
    assert len(scene.files()) == 1
    stats = scene.manager.stats()
    assert stats["parked_nbytes:disk"] == stats["nbytes:disk"]
    scene.assert_whole()


def test_park_when_one_part_is_on_host_then_both_go_to_disk(tmp_path: Path) -> None:
    """A decision about what is parked and one about what is here are both carried out."""
    from statekit.parking.host import HostTier

    scene = Scene(tmp_path)
    tiers: Any = scene.manager._relief._tiers
    tiers["host"] = HostTier(engine=FakeEngine(), chunk_bytes=1024)
    record = scene.session.record
    assert record is not None
    _decide(scene, [Decision("park", "a", "cache", {}, {}, "host")])
    _decide(
        scene,
        [
            Decision("park", "a", "parked in host: cache", {}, {}, "disk"),
            Decision("park", "a", "state", {}, {}, "disk"),
        ],
    )
    assert sorted(key for unit in record.units for key in unit.keys) == ["cache", "state"]
    assert [unit.tier for unit in record.units] == ["disk", "disk"]
    scene.assert_whole()


def _decide(scene: Scene, decisions: list[Decision]) -> None:
    record = scene.session.record
    assert record is not None
    for unit in scene.session.adopted.units:
        object.__setattr__(unit, "tiers", ("host", "disk")) if unit.tiers else None
    scene.manager._relief.carry_out(Plan(tuple(decisions)), [record])


def _park_in(scene: Scene, tier: Any) -> None:
    parked = [
        f"parked in {one.tier}: {', '.join(sorted(one.keys))}" for one in scene.session.parked
    ]
    _decide(scene, [Decision("park", "a", name, {}, {}, tier) for name in parked or PARKED])


# -- subscribers ---------------------------------------------------------------------------------


def test_subscriber_when_it_raises_then_a_warning_and_the_others_hear(tmp_path: Path) -> None:
    """A broken subscriber changes nothing for anybody else."""
    manager = SessionStateManager(budgets={"cpu": ROOM}, park_folder=tmp_path)
    heard: list[Event] = []
    manager.subscribe(lambda event: 1 / 0)
    manager.subscribe(heard.append)
    lease = manager.lease("a", begin=KEPT)
    with pytest.warns(UserWarning, match="a subscriber failed on"):
        lease.begin()
    assert [type(one) for one in heard] == [Created, Leased]
    lease.end()


def test_subscriber_when_its_failure_is_an_error_then_no_lease_is_left(scene: Scene) -> None:
    """Where warnings are errors, the lease that could not begin has ended."""
    stop = scene.manager.subscribe(lambda event: 1 / 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for begin in (None, KEPT):
            with pytest.raises(UserWarning, match="a subscriber failed"):
                scene.manager.lease("a" if begin is None else "b", begin=begin).begin()
    stop()
    assert scene.manager.stats()["leases"] == 0


def test_subscriber_when_it_uses_the_manager_then_it_does_not_wait_for_itself(
    tmp_path: Path,
) -> None:
    """Events are told when every lock is given back: a subscriber may even begin a session."""
    scene = Scene(tmp_path)
    begun: list[str] = []

    def begin(event: Event) -> None:
        if isinstance(event, Parked) and not begun:
            begun.append(event.session_id)
            with contextlib.suppress(SessionAdmissionError):
                scene.manager.lease("from a subscriber", begin=KEPT).begin()
            scene.manager.stats()

    scene.manager.subscribe(begin)
    thread = threading.Thread(target=scene.press, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert begun == ["a"]


# -- policies ------------------------------------------------------------------------------------


def raising(facts: Facts) -> Plan:
    raise KeyError("cuda:7")


def returning_none(facts: Facts) -> Any:
    return None


@pytest.mark.parametrize(
    ("policy", "message"), [(raising, "KeyError"), (returning_none, "NoneType, not a Plan")]
)
def test_policy_when_it_fails_then_a_clear_error_and_nothing_lost(
    tmp_path: Path, policy: Any, message: str
) -> None:
    """Who begins gets the error; who ends a lease does not: a warning says so."""
    scene = Scene(tmp_path)
    scene.manager._relief._policy = policy
    with pytest.raises(PolicyError, match=re.escape(policy.__qualname__) + ".*" + message):
        scene.press()
    assert "b" not in scene.manager
    lease = scene.manager.lease("a")
    scene.want["cache"] = write(lease.begin(), "cache", 3, 30_000)
    with pytest.warns(UserWarning, match="budgets were not looked at"):
        lease.end()
    with pytest.raises(PolicyError):
        scene.manager.relieve()
    scene.manager._relief._policy = plan_release
    scene.assert_whole()


NONSENSE = [
    Decision("park", "nobody", "cache", {}, {}, "disk"),
    Decision("release", "nobody", "cache", {}, {}),
    Decision("evict", "nobody", None, {}, {}),
    Decision("park", "a", "no such value", {}, {}, "disk"),
    Decision("park", "a", "cache", {}, {}, "host"),
    Decision("park", "a", "note", {}, {}, "disk"),
    Decision("park", "a", None, {}, {}, "disk"),
    Decision("release", "a", "cache", {}, {}),
    Decision("release", "a", None, {}, {}),
    Decision("evict", "a", None, {}, {}),
    Decision("forget", "a", None, {}, {}),  # type: ignore[arg-type]
    Decision("park", "leased", "cache", {}, {}, "disk"),
    Decision("release", "leased", "kv+freqs", {}, {}),
    Decision("evict", "leased", None, {}, {}),
]


@pytest.mark.parametrize("decision", NONSENSE, ids=lambda one: f"{one[0]} {one[1]} {one[2]}")
def test_policy_when_it_decides_nonsense_then_nothing_is_given_up(
    tmp_path: Path, decision: Decision
) -> None:
    """Unknown sessions and values, leased victims, what no schema allows: left undone."""
    scene = Scene(tmp_path)
    lease = scene.manager.lease("leased", begin=attrs.evolve(LOSABLE, symbols={}))
    scene.manager.budgets["cpu"] = 10 * DECLARED
    scene.manager.drop_session("leased")
    lease = scene.manager.lease("leased", begin=LOSABLE)
    leased = lease.begin()
    want = {name: write(leased, name, 5) for name in ("cache", "kv", "freqs")}
    scene.manager.budgets["cpu"] = 100
    scene.manager._relief._policy = lambda facts: Plan((decision,))
    scene.manager.relieve()
    scene.manager._relief._policy = plan_release
    scene.manager.budgets["cpu"] = 10 * DECLARED
    assert not scene.session.parked
    assert not scene.heard(Released)
    assert not scene.heard(Departed)
    assert all(same(read(leased, name), one) for name, one in want.items())
    scene.assert_whole()
    lease.end()


# -- sessions that end ---------------------------------------------------------------------------


def test_session_when_it_dies_while_parked_then_its_file_goes_at_once(tmp_path: Path) -> None:
    """A session that left by count and that nobody holds takes its file along."""
    manager = SessionStateManager(budgets={"cpu": ROOM}, park_folder=tmp_path)
    with manager.lease("a", begin=LOSABLE) as session:
        held(session)
    with manager.lease("b", begin=KEPT):
        pass
    files = list(tmp_path.glob("owner-*/*.park"))
    assert len(session.parked) == len(files) == 1
    manager._table.evict("a")
    assert files[0].exists()
    del session
    assert not files[0].exists()
    assert "nbytes:disk" not in manager.stats()


def test_object_when_its_session_died_while_parked_then_it_can_still_be_read(
    tmp_path: Path,
) -> None:
    """Who holds an object of a session that is gone gets its value, not an empty one."""
    manager = SessionStateManager(budgets={"cpu": ROOM}, park_folder=tmp_path)
    with manager.lease("a", begin=LOSABLE) as session:
        want = held(session)
    with manager.lease("b", begin=KEPT):
        pass
    cache = session.get("cache")
    manager._table.evict("a")
    del session
    manager.stats()
    assert same(cache.view(), want["cache"])
    del cache
    assert not list(tmp_path.glob("owner-*/*.park"))


class CollectingLock:
    """A lock under which garbage is collected, as may happen under any lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __enter__(self) -> None:
        assert self.lock.acquire(timeout=5), "the collector waits for its own thread"
        gc.collect()

    def __exit__(self, *error: object) -> None:
        self.lock.release()


def test_lease_when_garbage_is_collected_under_the_lock_then_no_deadlock() -> None:
    """A forgotten lease in a reference cycle ends later, not inside the collector."""
    manager = SessionStateManager(lock_factory=CollectingLock)
    cycle: list[Any] = [manager.lease("a", begin=KEPT)]
    cycle[0].begin()
    cycle.append(cycle)
    del cycle
    assert "a" in manager
    manager.get_or_create_session("b")  # collects it with the lock held
    assert manager.stats()["leases"] == 0


def test_drop_when_its_last_lease_was_forgotten_then_it_ends(scene: Scene) -> None:
    """A lease that nobody holds any more does not keep a session from being dropped."""
    scene.manager.lease("a").begin()
    assert scene.manager.drop_session("a")
    assert scene.manager.stats()["sessions"] == 0
    with pytest.raises(SessionStateLostError) as caught:
        scene.manager.lease("a").begin()
    assert caught.value.how == "dropped"


def test_go_on_when_dropped_and_still_leased_then_lost_says_dropped(scene: Scene) -> None:
    """Between the drop and the end of the last lease the answer is the same as after it."""
    with scene.manager.lease("a"):
        scene.manager.drop_session("a")
        with pytest.raises(SessionStateLostError) as caught:
            scene.manager.lease("a").begin()
        assert caught.value.how == "dropped"


def test_released_when_reset_then_what_is_written_next_is_no_rebuild() -> None:
    """A reset forgets that something was released."""
    manager = SessionStateManager(budgets={"cpu": ROOM})
    events: list[Event] = []
    manager.subscribe(events.append)
    with manager.lease("a", begin=KEPT) as session:
        for name in ("kv", "freqs"):
            write(session, name, 1)
    manager.budgets["cpu"] = 100
    manager.relieve()
    manager.budgets["cpu"] = ROOM
    assert [one.value for one in events if isinstance(one, Released)] == ["kv+freqs"]
    assert session.record is not None
    assert session.record.released == {"kv", "freqs"}
    with manager.lease("a"):
        session.reset_objects(re.compile("kv"))
        write(session, "kv", 2)
        write(session, "freqs", 2)
    assert [one.value for one in events if isinstance(one, Rebuilt)] == ["freqs"]


def test_hint_when_its_source_is_gone_then_it_is_not_released() -> None:
    """What is rebuilt from a carried value is released only while that value is there."""
    manager = SessionStateManager(budgets={"cpu": ROOM})
    with manager.lease("a", begin=KEPT) as session:
        want = write(session, "hint", 1)
    manager.budgets["cpu"] = 100
    assert manager.relieve().decisions == ()
    assert same(read(session, "hint"), want)
    with manager.lease("a"):
        write(session, "note", 1)
    assert read(session, "hint") is None


# -- an engine's storage -------------------------------------------------------------------------


@pytest.fixture
def engine() -> tuple[BlockPool, SessionStateManager, list[Event]]:
    manager = SessionStateManager(budgets={"cpu": ROOM})
    events: list[Event] = []
    manager.subscribe(events.append)
    return BlockPool(64), manager, events


def with_engine(session: SessionState, pool: BlockPool, blocks: int) -> Any:
    owned = pool.open(sink=1, window=blocks)
    handle: EngineHandle[Any] = EngineHandle()
    session.put("kv_pool", handle.allocate(owned=owned))
    handle.append(torch.ones(16 * blocks, 4))
    return owned


def test_engine_when_it_grows_then_its_bytes_are_in_the_same_budget(engine: Any) -> None:
    """Blocks of a handle without a schema count, are never released alone, and are in no plan."""
    pool, manager, events = engine
    with manager.lease("a", begin=KEPT) as session:
        with_engine(session, pool, 4)
        assert manager.nbytes_by_device() == {"cpu": 4 * pool.block_nbytes}
        session.get("kv_pool").append(torch.ones(16, 4))
        assert manager.nbytes_by_device() == {"cpu": 5 * pool.block_nbytes}
    manager.budgets["cpu"] = 10
    assert manager.relieve().decisions == ()
    assert len(pool.free) == 64 - 5
    assert [type(one) for one in events][-1] is OverBudget


def test_engine_when_its_session_is_evicted_then_it_is_closed(engine: Any) -> None:
    """Eviction is delegated: the engine has its blocks back, the plan counted them."""
    pool, manager, events = engine
    with manager.lease("a", begin=LOSABLE) as session:
        owned = with_engine(session, pool, 4)
    del session
    manager.budgets["cpu"] = 10
    (decision,) = manager.relieve().decisions
    assert (decision.action, decision.frees) == ("evict", {"cpu": 4 * pool.block_nbytes})
    assert owned.closed == 1
    assert len(pool.free) == 64
    assert manager.nbytes_by_device() == {}
    assert not any(isinstance(one, OverBudget) for one in events)


def test_engine_when_its_close_fails_then_all_else_is_reset(engine: Any) -> None:
    """A drop raises what the engine raised; the session is gone, and so is all else it held."""
    pool, manager, events = engine
    with manager.lease("a", begin=KEPT) as session:
        owned = with_engine(session, pool, 2)
        write(session, "cache", 1)
        write(session, "note", 1)
    owned.broken = "close"
    with pytest.raises(PoolFullError, match="close failed"):
        manager.drop_session("a")
    assert session.attrs == {}
    assert not session.get("cache").resident
    assert [one.how for one in events if isinstance(one, Departed)] == ["dropped"]
    with pytest.raises(SessionStateLostError, match="dropped"):
        manager.lease("a").begin()
    assert manager.nbytes_by_device() == {"cpu": 2 * pool.block_nbytes}  # the engine holds them


def test_engine_when_close_fails_as_idle_session_expires_then_others_begin(tmp_path: Path) -> None:
    """An engine that keeps an idle session's blocks is a warning, not the next user's error."""
    now = [0.0]
    pool = BlockPool(64)
    manager = SessionStateManager(idle_timeout_s=10, clock=lambda: now[0])
    for key in ("a", "b"):
        with manager.lease(key, begin=KEPT) as session:
            owned = with_engine(session, pool, 1)
            owned.broken = "close" if key == "a" else ""
    now[0] = 20
    with pytest.warns(UserWarning, match="'a' failed"):
        lease = manager.lease("c", begin=KEPT)
    assert len(manager) == 0
    with lease:
        assert len(pool.free) == 63


# -- accounts ------------------------------------------------------------------------------------


def test_shared_memory_when_parked_beside_a_carried_value_then_counted_once(scene: Scene) -> None:
    """What a parked value shares with one that stays is counted for the one that stays."""
    with scene.manager.lease("a") as session:
        session.attrs["note"] = shared = bits(1, 4000)
        session.get("cache").append([shared, bits(2, 5000)])
        scene.want.update(note=shared.clone(), cache=copied(peek(session, "cache")))
    scene.manager.budgets["cpu"] += 4000 - 512
    scene.park()
    assert scene.manager.nbytes_by_device()["cpu"] == 4000
    del session.attrs["note"]  # now the parked value alone keeps it
    assert scene.manager.nbytes_by_device()["cpu"] == 4000
    session.attrs["note"] = read(session, "cache")[0]
    assert session.attrs["note"] is shared
    assert scene.manager.nbytes_by_device()["cpu"] == 4000 + 5000 + 2048 + 1024
    scene.assert_whole()


def test_shared_memory_when_both_values_are_parked_one_by_one_then_shared_again(
    scene: Scene,
) -> None:
    """Two values over one storage, parked at different times, come back over one storage."""
    with scene.manager.lease("a") as session:
        shared = bits(1, 4000)
        session.get("cache").append([shared])
        session.get("frames").reset()
        session.put("frames", HeldValue().allocate())
        session.get("frames").append([shared[10:]])
    record = session.record
    assert record is not None
    for name in ("cache", "frames"):
        _decide(scene, [Decision("park", "a", name, {}, {}, "disk")])
    assert len(record.units) == 2
    one, other = session.get("cache").view()[0], session.get("frames").view()[0]
    assert other.untyped_storage().data_ptr() == one.untyped_storage().data_ptr()


def test_evict_when_values_share_a_storage_then_the_plan_counts_it() -> None:
    """What the session alone holds is freed by its eviction, however its values share it."""
    manager = SessionStateManager(budgets={"cpu": ROOM})
    with manager.lease("a", begin=LOSABLE) as session:
        session.attrs["note"] = shared = bits(1, 4000)
        session.attrs["more"] = shared[5:]
    del session
    manager.budgets["cpu"] = 10
    (decision,) = manager.relieve().decisions
    assert decision.frees == {"cpu": 4000}
    assert manager.nbytes_by_device() in ({}, {"cpu": 4000})
    del shared
    assert manager.nbytes_by_device() == {}


def test_evicted_when_still_held_then_no_plan_counts_on_it_again() -> None:
    """A session that left and is still held cannot be evicted a second time."""
    manager = SessionStateManager(budgets={"cpu": ROOM})
    with manager.lease("a", begin=LOSABLE) as session:
        write(session, "note", 1)
    manager.budgets["cpu"] = 10
    assert [one.action for one in manager.relieve().decisions] == ["evict"]
    assert manager.relieve().decisions == ()
    assert manager.nbytes_by_device() == {"cpu": 512}
    assert session.attrs


def test_staged_tensor_when_statistics_are_read_then_counted(scene: Scene) -> None:
    """Staged data that is a tensor of many elements is told apart, and is not parked."""
    with scene.manager.lease("a") as session:
        state = session.get("state")
        session.put("cache", HeldValue().allocate())
        session.get("cache").stage(torch.ones(100))
        assert scene.manager.stats()["staged_nbytes:cpu"] == 400
        assert state.staged() is None


def test_disk_budget_when_heads_do_not_fit_then_it_is_not_exceeded(tmp_path: Path) -> None:
    """What a file takes beyond its bytes is part of the plan."""
    nbytes = 8192 + 2048 + 1024
    for spare in (0, 3 * HEAD_NBYTES):
        manager = SessionStateManager(
            budgets={"cpu": ROOM, "disk": nbytes + spare}, park_folder=tmp_path
        )
        with manager.lease("a", begin=KEPT) as session:
            held(session)
        with contextlib.suppress(SessionAdmissionError), manager.lease("b", begin=KEPT):
            pass
        assert (
            len(session.parked) == (1 if spare else 0) or manager.stats()["nbytes:disk"] <= nbytes
        )
        assert manager.stats().get("nbytes:disk", 0) <= nbytes + spare


def test_promise_when_idle_sessions_can_be_parked_then_it_does_not_refuse(tmp_path: Path) -> None:
    """Idle sessions that never filled up, or were released, do not block admission for ever."""
    manager = SessionStateManager(budgets={"cpu": ROOM + 5 * 512}, park_folder=tmp_path)
    for number in range(6):
        with manager.lease(str(number), begin=KEPT) as session:
            write(session, "kv", number)
            write(session, "freqs", number)
            write(session, "cache", number)
    assert manager.nbytes_by_device()["cpu"] <= ROOM + 5 * 512


def test_promise_when_values_can_only_stay_then_it_counts_while_idle(tmp_path: Path) -> None:
    """What can neither be parked nor rebuilt is promised until it is held, also to the idle."""
    spec: ModelSpec = attrs.evolve(
        KEPT, values=tuple(attrs.evolve(one, park=None, rebuild=None) for one in KEPT)
    )
    manager = SessionStateManager(budgets={"cpu": ROOM}, park_folder=tmp_path)
    manager.lease("a", begin=spec).begin()
    gc.collect()
    with pytest.raises(SessionAdmissionError):
        manager.lease("b", begin=spec).begin()
    events: list[Event] = []
    manager.subscribe(events.append)
    with pytest.raises(SessionAdmissionError):
        manager.lease("b", begin=spec).begin()
    assert [type(one) for one in events] == [Refused]
