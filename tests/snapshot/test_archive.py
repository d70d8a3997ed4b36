"""A manager's sessions in a folder: written while they are served, and read again."""

from __future__ import annotations

import gc
import math
import os
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.errors import (
    DamagedSnapshotError,
    IncompatibleSnapshotError,
    SessionExistsError,
    SessionStateLostError,
    SnapshotError,
    UnsavableError,
)
from statekit.events import Event, NotSaved, Parked, Restored, Saved
from statekit.manager import SessionStateManager
from statekit.snapshot.folder import file_of, files_in
from tests.capture.sessions import dreamzero, latents
from tests.pressure.toys import DECLARED, KEPT, read, same, write

SPEC = DreamZeroStateAdapter.SPEC
IDS = ("left/arm", "../right", "UPPER", "upper", ".", "ü\ud800", "x" * 300)


def test_all_sessions_when_saved_and_loaded_then_each_under_its_id(tmp_path: Path) -> None:
    """Ids with slashes, dots, other cases and lone surrogates each have one file in the folder."""
    manager = SessionStateManager()
    for number, name in enumerate(IDS):
        dreamzero(manager, name).call_count = number
    seen: list[tuple[int, int, str]] = []
    done = manager.save_all(tmp_path / "a" / "b", progress=lambda *now: seen.append(now))
    assert set(done.done) == set(IDS)
    assert (done.failed, done.unchanged) == ({}, ())
    assert [now[:2] for now in seen] == [(n, len(IDS)) for n in range(1, len(IDS) + 1)]
    files = list(files_in(tmp_path / "a" / "b"))
    assert sum(file.stat().st_size for file in files) == sum(done.done.values())
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {files[0].parent}

    other = SessionStateManager()
    loaded = other.load_all(tmp_path / "a" / "b", SPEC, progress=lambda *now: seen.append(now))
    assert set(loaded.done) == set(IDS)
    assert [DreamZeroStateAdapter(name, other).call_count for name in IDS] == [*range(len(IDS))]
    assert len(seen) == 2 * len(IDS)
    assert str(loaded).startswith(f"{len(IDS)} sessions, ")


def test_sessions_when_served_meanwhile_then_each_file_is_a_moment_between_two_steps(
    tmp_path: Path,
) -> None:
    """Threads that step without pause: counter, latents and feature map are of one step."""
    manager = SessionStateManager()
    names = [f"s{n}" for n in range(4)]
    stop = threading.Event()
    errors: list[BaseException] = []

    def serve(name: str) -> None:
        try:
            with manager.lease(name, begin=SPEC):
                state = DreamZeroStateAdapter(name, manager)
                state.vae_enc_feat_map = [torch.zeros(2)] * 3
                while not stop.is_set():
                    with state.step():
                        state.call_count += 1
                        state.append_video_latents(latents(float(state.call_count)))
                        feat_map: Any = state.vae_enc_feat_map
                        for entry in range(3):
                            feat_map[entry] = torch.full((2,), float(state.call_count))
                        if state.call_count % 50 == 0:
                            state.reset_window()
                            state.video_latents_across_time = []
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=serve, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(manager) == 4)
    for turn in range(6):
        done = manager.save_all(tmp_path, wait_s=20)
        assert done.failed == {}
        other = SessionStateManager()
        assert not other.load_all(tmp_path, SPEC).failed
        for name in names:
            state = DreamZeroStateAdapter(name, other)
            kept = state.video_latents_across_time
            assert len(kept) == state.call_count, f"turn {turn}"
            if kept:
                assert float(kept[-1].flatten()[0]) == state.call_count
                values = [float(one[0]) for one in state.vae_enc_feat_map or () if one is not None]
                assert values == [state.call_count] * 3
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def test_session_when_leased_without_steps_then_saved_when_the_lease_ends(tmp_path: Path) -> None:
    """A use without steps has its boundary at its end; nobody is looked at before."""
    manager = SessionStateManager()
    lease = manager.lease("s", begin=SPEC)
    session = lease.begin()
    session.attrs["call_count"] = 1
    found: list[Any] = []
    saver = threading.Thread(
        target=lambda: found.append(manager.save_all(tmp_path, wait_s=30)), daemon=True
    )
    saver.start()
    wait_for(lambda: session.visitors)
    session.attrs["call_count"] = 2
    assert not any(tmp_path.glob("*.statekit"))
    lease.end()
    saver.join()
    assert list(found[0].done) == ["s"]
    other = SessionStateManager()
    other.load_all(tmp_path, SPEC)
    assert DreamZeroStateAdapter("s", other).call_count == 2


@pytest.mark.parametrize("wait_s", [0.0, 0.05])
def test_session_when_in_use_all_the_time_then_reported_and_the_old_file_stays(
    tmp_path: Path, wait_s: float
) -> None:
    """Others are saved; the error says that there was no boundary, an event does too."""
    manager = SessionStateManager()
    events: list[Event] = []
    manager.subscribe(events.append)
    with manager.lease("busy", begin=SPEC):
        pass
    with manager.lease("free", begin=SPEC):
        pass
    manager.save_all(tmp_path)
    old = (tmp_path / file_of("busy")).read_bytes()
    with manager.lease("busy") as session:
        session.attrs["call_count"] = 5
        done = manager.save_all(tmp_path, wait_s=wait_s)
        assert list(done.done) == ["free"]
        assert "in use, and between no two steps" in str(done.failed["busy"])
        assert type(done.failed["busy"]) is SnapshotError
        assert session.visitors == []
        with pytest.raises(SnapshotError, match="use steps, or wait longer"):
            manager.save("busy", tmp_path / "x", wait_s=wait_s)
    assert (tmp_path / file_of("busy")).read_bytes() == old
    assert [one.session_id for one in events if isinstance(one, NotSaved)] == ["busy", "busy"]
    assert "1 failed: busy" in str(done)


def test_parked_session_when_saved_then_it_stays_parked_and_the_file_is_whole(
    tmp_path: Path,
) -> None:
    """What lies on disk is read, not brought back; restored elsewhere it is in memory."""
    manager = SessionStateManager(budgets={"cpu": DECLARED + 8000}, park_folder=tmp_path / "park")
    events: list[Event] = []
    manager.subscribe(events.append)
    wanted = {}
    for seed, name in enumerate(("a", "b")):
        with manager.lease(name, begin=KEPT) as session:
            wanted[name] = {one: write(session, one, seed) for one in ("cache", "state", "frames")}
    parked = manager.stats()["parked_nbytes:disk"]
    assert parked > 8000
    assert [one for one in events if isinstance(one, Parked)]
    done = manager.save_all(tmp_path / "saved")
    assert done.failed == {}
    assert manager.stats()["parked_nbytes:disk"] == parked
    assert not [one for one in events if isinstance(one, Restored)]
    other = SessionStateManager()
    assert not other.load_all(tmp_path / "saved", KEPT).failed
    for name in ("a", "b"):
        for one, value in wanted[name].items():
            assert same(read(other.get_or_create_session(name), one), value), (name, one)
            with manager.lease(name) as session:
                assert same(read(session, one), value)
    manager.close()


def test_evicted_session_when_somebody_holds_it_then_saved_and_a_fork_is_not(
    tmp_path: Path,
) -> None:
    """What can be found by its id is saved; what is in no table is its holder's affair."""
    manager = SessionStateManager(max_sessions=1)
    held = dreamzero(manager, "held")
    fork = held.fork()
    dreamzero(manager, "new")
    assert "held" not in manager
    assert set(manager.save_all(tmp_path).done) == {"held", "new"}
    assert fork.call_count == 2
    assert len(list(files_in(tmp_path))) == 2


def test_folder_when_some_files_are_bad_then_the_others_are_loaded_and_each_is_named(
    tmp_path: Path,
) -> None:
    """Damaged, foreign, of another model, of a live session: reported, nothing of them begun."""
    manager = SessionStateManager()
    for name in ("good", "cut", "flipped", "live"):
        dreamzero(manager, name)
    manager.save_all(tmp_path)
    cut, flipped = tmp_path / file_of("cut"), tmp_path / file_of("flipped")
    cut.write_bytes(cut.read_bytes()[:-7])
    data = bytearray(flipped.read_bytes())
    data[-3] ^= 16
    flipped.write_bytes(data)
    (tmp_path / "foreign.statekit").write_bytes(b"PK\x03\x04" + bytes(400))
    (tmp_path / "link.statekit").symlink_to(tmp_path / file_of("good"))
    (tmp_path / "folder.statekit").mkdir()
    (tmp_path / "notes.txt").write_text("not ours")
    other_model = SessionStateManager()
    with other_model.lease("toy", begin=KEPT):
        pass
    other_model.save_all(tmp_path)

    target = SessionStateManager()
    dreamzero(target, "live").call_count = 77
    done = target.load_all(tmp_path, SPEC)
    assert list(done.done) == ["good"]
    kinds = {name: type(error) for name, error in done.failed.items()}
    assert kinds.pop("live") is SessionExistsError
    assert kinds.pop("toy") is IncompatibleSnapshotError
    assert len(kinds) == 3
    assert set(kinds.values()) == {DamagedSnapshotError}
    assert len(target) == 2
    assert DreamZeroStateAdapter("live", target).call_count == 77
    assert (tmp_path / "notes.txt").exists()


def test_save_all_when_one_session_cannot_be_saved_then_the_others_are(tmp_path: Path) -> None:
    """The error names it; its older file is as it was."""
    manager = SessionStateManager()
    for name in ("a", "b", "c"):
        dreamzero(manager, name)
    manager.save_all(tmp_path)
    old = (tmp_path / file_of("b")).read_bytes()
    DreamZeroStateAdapter("b", manager).session.attrs["odd"] = object()
    done = manager.save_all(tmp_path)
    assert set(done.done) == {"a", "c"}
    assert isinstance(done.failed["b"], UnsavableError)
    assert "odd" in str(done.failed["b"])
    assert (tmp_path / file_of("b")).read_bytes() == old


def test_folder_when_it_cannot_be_used_then_one_typed_error(tmp_path: Path) -> None:
    """A file where the folder should be: named, with the cure, before anything is looked at."""
    place = tmp_path / "file"
    place.write_text("")
    manager = SessionStateManager()
    dreamzero(manager)
    for call in (lambda: manager.save_all(place), lambda: manager.load_all(place, SPEC),
                 lambda: manager.load_all(tmp_path / "missing", SPEC)):  # fmt: skip
        with pytest.raises(SnapshotError, match="name a folder that this process may"):
            call()
    assert place.read_text() == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_when_read_only_then_each_session_fails_with_a_typed_error(tmp_path: Path) -> None:
    """Nothing is written, nothing is left."""
    manager = SessionStateManager()
    dreamzero(manager)
    tmp_path.chmod(0o500)
    done = manager.save_all(tmp_path)
    tmp_path.chmod(0o700)
    assert list(done.failed) == ["s"]
    assert list(tmp_path.iterdir()) == []


def test_session_when_there_is_none_then_lost(tmp_path: Path) -> None:
    """To save what is gone is the error that to continue it is."""
    manager = SessionStateManager()
    with pytest.raises(SessionStateLostError):
        manager.save("gone", tmp_path / "x")
    with pytest.raises(SessionStateLostError):
        manager.to_bytes("gone")


# -- every so often -----------------------------------------------------------------------------


def wait_for(true: Any) -> None:
    until = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until, "nothing happened for 20 s"
        time.sleep(0.002)


def test_periodic_snapshots_when_running_then_each_session_is_saved_after_it_was_used(
    tmp_path: Path,
) -> None:
    """A session that nobody used is not written again; one that was is, within the interval."""
    manager = SessionStateManager()
    events: list[Event] = []
    manager.subscribe(events.append)
    saved = lambda: [one.session_id for one in events if isinstance(one, Saved)]  # noqa: E731
    with manager.lease("a", begin=SPEC), manager.lease("b", begin=SPEC):
        pass
    periodic = manager.save_every(tmp_path, 0.02)
    assert periodic.age_s() in (math.inf, 0.0)
    wait_for(lambda: periodic.last is not None and periodic.last.unchanged == ("a", "b"))
    assert sorted(saved()) == ["a", "b"]
    assert periodic.age_s() == 0.0
    with manager.lease("b") as session:
        session.attrs["call_count"] = 5
    wait_for(lambda: saved().count("b") == 2)
    assert saved().count("a") == 1
    periodic.stop()
    assert not any(thread.name == "statekit-snapshots" for thread in threading.enumerate())
    with manager.lease("a"):
        pass
    assert periodic.age_s() > 0.0
    other = SessionStateManager()
    other.load_all(tmp_path, SPEC)
    assert DreamZeroStateAdapter("b", other).call_count == 5


def test_periodic_snapshots_when_a_session_has_ended_then_its_file_goes_and_no_other(
    tmp_path: Path,
) -> None:
    """Dropped sessions do not come back; what this manager did not write is left alone."""
    earlier = SessionStateManager()
    dreamzero(earlier, "of an earlier process")
    earlier.save_all(tmp_path)
    manager = SessionStateManager(max_sessions=2)
    for name in ("stays", "goes"):
        dreamzero(manager, name)
    periodic = manager.save_every(tmp_path, 1000)
    periodic.save_now()
    manager.drop_session("goes")
    dreamzero(manager, "new")
    dreamzero(manager, "newer")  # the table is full: "stays" is evicted
    periodic.save_now()
    names = {file.name for file in files_in(tmp_path)}
    assert names == {file_of(name) for name in ("of an earlier process", "stays", "new", "newer")}
    manager.close()
    assert not any(thread.name == "statekit-snapshots" for thread in threading.enumerate())


def test_periodic_snapshots_when_the_manager_is_forgotten_then_the_thread_ends(
    tmp_path: Path,
) -> None:
    """The thread keeps no manager alive; the handle need not be kept either."""
    manager = SessionStateManager()
    dreamzero(manager)
    manager.save_every(tmp_path, 0.01)
    gone = weakref.ref(manager)
    wait_for(lambda: any(files_in(tmp_path)))
    del manager
    wait_for(lambda: (gc.collect(), gone() is None)[1])
    wait_for(lambda: all(one.name != "statekit-snapshots" for one in threading.enumerate()))


def test_periodic_snapshots_when_the_interval_is_none_then_refused(tmp_path: Path) -> None:
    """An interval is above 0."""
    with pytest.raises(ValueError, match="every_s must be above 0, got 0"):
        SessionStateManager().save_every(tmp_path, 0)


PEAK = Path("/proc/self/clear_refs")


@pytest.mark.skipif(not PEAK.exists(), reason="peak memory is read from Linux's /proc")
def test_save_all_when_sessions_are_large_then_no_copy_of_one_is_made(tmp_path: Path) -> None:
    """Three sessions of 96 MiB are written from where they lie: less than a third of one more."""
    manager = SessionStateManager()
    for name in ("a", "b", "c"):
        dreamzero(manager, name).vae_enc_feat_map = [torch.ones(1 << 20) for _ in range(24)]
    manager.save_all(tmp_path)  # what is allocated once is there now

    def peak_nbytes() -> int:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.split("VmHWM:")[1].split()[0])

    PEAK.write_text("5")  # the peak from now on
    before = peak_nbytes()
    done = manager.save_all(tmp_path)
    assert min(done.done.values()) > 96 << 20
    assert peak_nbytes() - before < 32 << 20
