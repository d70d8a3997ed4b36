"""What others do in the middle of a park or a restore, step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from statekit.errors import SessionAdmissionError
from statekit.events import Event, OverBudget, Parked, ParkFailed, Restored
from statekit.manager import SessionStateManager
from statekit.session import SessionState
from tests.pressure.toys import DECLARED, KEPT, bits, copied, peek, read, same, write

Hook = Callable[[], None]


class SlowTier:
    """The disk tier; between the copy and the moment when it is good, `hook` runs."""

    name, takes_nbytes = "disk", 4096

    def __init__(self, tier: Any) -> None:
        self.tier = tier
        self.on_park: Hook | None = None
        self.on_restore: Hook | None = None

    def begin_park(self, image: Any) -> Any:
        return SlowTransfer(self.tier.begin_park(image), self, "on_park")

    def close(self) -> None:
        self.tier.close()


class SlowTransfer:
    def __init__(self, transfer: Any, tier: SlowTier, hook: str) -> None:
        self.transfer, self.tier, self.hook = transfer, tier, hook

    def finish(self) -> Any:
        outcome = self.transfer.finish()
        hook = getattr(self.tier, self.hook)
        setattr(self.tier, self.hook, None)
        if hook is not None:
            hook()
        return SlowParked(outcome, self.tier) if self.hook == "on_park" else outcome

    def abort(self) -> None:
        self.transfer.abort()


class SlowParked:
    def __init__(self, parked: Any, tier: SlowTier) -> None:
        self.parked, self.tier = parked, tier

    def begin_restore(self) -> Any:
        return SlowTransfer(self.parked.begin_restore(), self.tier, "on_restore")

    def discard(self) -> None:
        self.parked.discard()

    def nbytes_by_device(self, seen: Any = None) -> dict[str, int]:
        return self.parked.nbytes_by_device(seen)


class Scene:
    """A manager with room for one session and a half, in which "a" is idle and about to go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manager = SessionStateManager(budgets={"cpu": DECLARED + 4096}, park_folder=folder)
        tiers: Any = self.manager._relief._tiers
        self.tier = tiers["disk"] = SlowTier(tiers["disk"])
        self.events: list[Event] = []
        self.manager.subscribe(self.events.append)
        with self.manager.lease("a", begin=KEPT) as session:
            self.want = {name: write(session, name, 1) for name in ("cache", "state", "note")}
        self.session = session
        self.threads: list[threading.Thread] = []

    def thread(self, target: Callable[..., Any], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def press(self) -> None:
        """Have "a" parked, because "b" begins."""
        with self.manager.lease("b", begin=KEPT):
            pass
        self.join()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive(), "stuck"

    def files(self) -> int:
        return len(list(self.folder.glob("owner-*/*.park")))

    def assert_whole(self) -> None:
        for name, want in self.want.items():
            assert same(read(self.session, name), want), name


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_park_when_value_is_read_meanwhile_then_reader_and_copy_are_good(scene: Scene) -> None:
    """A reader in another thread is handed the value and does not wait for the copy."""
    got: list[Any] = []

    def hook() -> None:
        scene.thread(lambda: got.append(read(scene.session, "cache"))).join(10)

    scene.tier.on_park = hook
    scene.press()
    assert same(got[0], scene.want["cache"])
    assert scene.files() == 1
    scene.assert_whole()


def _new_value(session: SessionState) -> Any:
    return write(session, "cache", 2)


def _other_entries(session: SessionState) -> Any:
    cache = peek(session, "cache")
    cache[1] = cache[0].clone()
    return copied(cache)


def _reset(session: SessionState) -> Any:
    session.get("cache").reset()


@pytest.mark.parametrize("change", [_new_value, _other_entries, _reset])
def test_park_when_value_is_changed_meanwhile_then_the_change_stays(
    scene: Scene, change: Callable[[SessionState], Any]
) -> None:
    """A copy of what is not there any more is thrown away, the file too."""

    def hook() -> None:
        scene.want["cache"] = change(scene.session)

    scene.tier.on_park = hook
    scene.press()
    assert scene.files() <= 1  # of what was parked in another attempt
    scene.assert_whole()
    assert scene.files() == 0


def test_park_when_session_is_leased_meanwhile_then_it_stays(scene: Scene) -> None:
    """The lease waits for the copy, which is then thrown away: the very object is there."""
    before = peek(scene.session, "cache")
    started, release = threading.Event(), threading.Event()
    seen: list[Any] = []

    def user() -> None:
        with scene.manager.lease("a") as session:
            seen.append(peek(session, "cache"))
            started.set()
            release.wait(10)

    def hook() -> None:
        scene.thread(user)
        record = scene.session.record
        assert record is not None
        while not record.leases:
            pass

    scene.tier.on_park = hook
    lease = scene.manager.lease("b", begin=KEPT)
    with pytest.raises(SessionAdmissionError):
        lease.begin()
    assert started.wait(10)
    release.set()
    scene.join()
    assert seen[0] is before
    assert scene.files() == 0
    assert not any(isinstance(one, Parked) for one in scene.events)


def test_park_when_other_sessions_work_meanwhile_then_they_do_not_wait(scene: Scene) -> None:
    """While one session is copied, others lease, grow and end, and statistics are read."""
    done: list[str] = []

    def user() -> None:
        with scene.manager.lease("c") as session:
            write(session, "cache", 3, 30_000)  # over the budget: relief passes "a" over
        scene.manager.stats()
        scene.manager.get_or_create_session("d")
        done.append("worked")

    scene.manager._relief.budgets["cpu"] *= 10
    scene.manager.lease("c", begin=KEPT).begin()
    scene.manager.stats()
    scene.manager._relief.budgets["cpu"] = DECLARED + 4096

    def hook() -> None:
        scene.thread(user).join(10)
        done.append("copied")

    scene.tier.on_park = hook
    write(scene.session, "cache", 1, 40_000)
    scene.want["cache"] = copied(peek(scene.session, "cache"))
    scene.manager.relieve()
    scene.join()
    assert done == ["worked", "copied"]
    assert not any(isinstance(one, OverBudget | ParkFailed) for one in scene.events[:-1])
    scene.assert_whole()


def test_park_when_session_is_dropped_meanwhile_then_no_file_is_left(scene: Scene) -> None:
    """The drop takes effect when the copy is made; nothing is parked for a session that is gone."""

    def hook() -> None:
        thread = scene.thread(scene.manager.drop_session, "a")
        record = scene.session.record
        assert record is not None
        while not record.dropped:
            pass
        assert thread.is_alive()

    scene.tier.on_park = hook
    with suppress(SessionAdmissionError):  # the drop may come a moment too late for it
        scene.press()
    scene.join()
    assert scene.files() == 0
    assert scene.session.names == ("cache", "state")
    assert not scene.session.get("cache").resident


def test_restore_when_two_readers_come_at_once_then_one_copy_for_both(scene: Scene) -> None:
    """The second reader waits for the first one's restore and gets the same object."""
    scene.press()
    assert scene.files() == 1
    got: list[Any] = []

    def reader() -> None:
        got.append(read(scene.session, "cache"))

    def hook() -> None:
        scene.thread(reader)

    scene.tier.on_restore = hook
    reader()
    scene.join()
    assert got[0] is got[1]
    assert sum(isinstance(one, Restored) for one in scene.events) == 1
    scene.assert_whole()


def test_restore_when_value_is_replaced_under_its_key_then_the_new_one_stays(scene: Scene) -> None:
    """What comes back goes to the object that it was taken from."""
    scene.press()
    old = scene.session.get("cache")
    scene.session.remove("cache")
    want = write(scene.session, "cache", 9)
    scene.manager.lease("b").end()
    with scene.manager.lease("a") as session:
        assert same(read(session, "cache"), want)
        assert same(old.view(), scene.want["cache"])
        assert same(read(session, "state"), scene.want["state"])


def test_restore_when_value_is_written_meanwhile_then_the_new_one_stays(scene: Scene) -> None:
    """What comes back is not put over what was written while it was being read."""
    scene.press()
    new = [bits(7, 100)]

    def hook() -> None:
        scene.thread(scene.session.get("cache").append, new)
        while peek(scene.session, "cache") is not new:
            pass

    scene.tier.on_restore = hook
    assert same(read(scene.session, "state"), scene.want["state"])
    scene.join()
    assert read(scene.session, "cache") is new
