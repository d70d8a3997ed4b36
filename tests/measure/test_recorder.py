"""The recorder: what counts as a step, what is seen of it, and that it disturbs nothing."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import Any
from weakref import ref

import pytest
import torch

from statekit import measure
from statekit.manager import SessionStateManager
from statekit.measure import log, recorder
from statekit.measure.looking import Looks
from statekit.measure.recording import MeasuredSession, MeasuredValue, Together
from tests.measure.toy import H, Toy, W, good_step, measured

FRAME = H * W * 4


def only(record: measure.Measurement) -> MeasuredSession:
    (session,) = record.recording.sessions
    return session


def value(session: MeasuredSession, name: str) -> MeasuredValue:
    found = session.value("toy", name)
    assert found is not None
    return found


def test_step_when_outermost_then_counted_once_with_what_it_left() -> None:
    """An inner step is none of its own; first, last, peak and life of each value are exact."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        state = Toy("robot", manager)
        for frames in (0, 1, 3, 2, 0):
            with state.step(), state.step():
                state.pending = torch.zeros(frames, H, W) if frames else None
    session = only(record)
    assert session.counted == {"step": 5}
    assert session.steps == (1, 2, 3, 4, 5)
    pending = value(session, "pending")
    assert pending.nbytes == {"cpu": (0, FRAME, 3 * FRAME, 2 * FRAME, 0)}
    assert (pending.first_nbytes, pending.last_nbytes) == (0, 0)
    assert (pending.peak_nbytes, pending.peak_step) == (3 * FRAME, 3)
    assert (pending.held_from, pending.held_to) == (2, 4)
    assert pending.peak_shapes == ((3, H, W),)
    assert session.nbytes == pending.nbytes


def test_step_when_it_fails_then_what_it_left_is_what_was_before() -> None:
    """A step that is undone counts, and leaves what the one before left."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        state = Toy("robot", manager)
        with state.step():
            state.pending = torch.zeros(1, H, W)
        with pytest.raises(ZeroDivisionError), state.step():
            state.pending = torch.zeros(3, H, W)
            raise ZeroDivisionError
    assert value(only(record), "pending").nbytes == {"cpu": (FRAME, FRAME)}


def test_lease_when_there_is_no_step_in_it_then_it_is_one() -> None:
    """A server with leases alone is measured at the end of each, whoever begins the session."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        with manager.lease("robot", begin=Toy.SPEC, overrides={"H": H}):
            good_step(Toy("robot", manager), 0)
        for step in (1, 2):
            with manager.lease("robot"):
                good_step(Toy("robot", manager), step)
    session = only(record)
    assert session.counted == {"lease": 3}
    assert session.overrides == {"H": H}
    assert value(session, "pending").nbytes == {"cpu": (FRAME, 2 * FRAME, 3 * FRAME)}


def test_lease_when_there_are_steps_in_it_then_they_count_and_it_ends_the_last() -> None:
    """Two forwards in one lease are two steps; what comes after the last belongs to it."""
    manager = SessionStateManager()
    with measure.record(manager) as record, manager.lease("robot", begin=Toy.SPEC):
        state = Toy("robot", manager)
        for frames in (1, 2):
            with state.step():
                state.pending = torch.zeros(frames, H, W)
        state.pending = None
    session = only(record)
    assert session.counted == {"step": 2}
    pending = value(session, "pending")
    assert pending.last_nbytes == 0
    assert pending.peak_nbytes == 2 * FRAME


def test_look_up_when_a_session_has_neither_then_each_ends_the_step_before() -> None:
    """A new adapter for every forward: as many steps as forwards, the last one too."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        for frames in (1, 2, 3):
            Toy("robot", manager).pending = torch.zeros(frames, H, W)
    session = only(record)
    assert session.counted == {"look-up": 3}
    assert value(session, "pending").nbytes == {"cpu": (FRAME, 2 * FRAME, 3 * FRAME)}


def test_look_up_when_the_session_is_dropped_or_evicted_then_its_last_step_is_seen() -> None:
    """What a session held last is measured before it is emptied, or let go of."""
    manager = SessionStateManager(1)
    with measure.record(manager) as record:
        Toy("first", manager).pending = torch.zeros(1, H, W)
        assert manager.drop_session("first")
        Toy("second", manager).pending = torch.zeros(2, H, W)
        Toy("third", manager).pending = torch.zeros(3, H, W)
    peaks = {one.session_id: one.peak_nbytes for one in record.recording.sessions}
    assert peaks == {"first": FRAME, "second": 2 * FRAME, "third": 3 * FRAME}


def test_look_up_when_steps_follow_then_they_alone_count() -> None:
    """An adapter that is made for each step is no step of its own."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        for step in range(3):
            with Toy("robot", manager).step() as session:
                session.attrs["pending"] = torch.zeros(step + 1, H, W)
    assert only(record).counted == {"step": 3}


def test_session_when_it_lives_already_then_measured_from_its_next_step_on() -> None:
    """Recording may begin in the middle of a rollout."""
    manager = SessionStateManager()
    state = Toy("robot", manager)
    with state.step():
        state.pending = torch.zeros(1, H, W)
    with measure.record() as record, state.step():
        state.latent = torch.zeros(1, 4, 2, 4)
    session = only(record)
    assert session.step_count == 1
    assert value(session, "pending").peak_nbytes == FRAME


def test_managers_when_none_is_named_then_all_of_the_process() -> None:
    """Those that are made meanwhile too; with one named, no other."""
    before, named = SessionStateManager(), SessionStateManager()
    with measure.record() as record, measure.record(named) as narrow:
        after = SessionStateManager()
        for manager in (before, named, after):
            with Toy("robot", manager).step():
                pass
    assert len(record.recording.sessions) == 3
    assert len(narrow.recording.sessions) == 1


def test_manager_when_recording_ends_then_as_it_was() -> None:
    """No stand-in, no subscriber, no visitor is left, in whatever order recorders end."""
    manager = SessionStateManager()
    state = Toy("robot", manager)
    before = dict(vars(manager))
    one, two = measure.record(manager), measure.record(manager)
    first, second = one.__enter__(), two.__enter__()
    with state.step():
        pass
    one.__exit__(None, None, None)
    with state.step():
        pass
    two.__exit__(None, None, None)
    assert state.session.visitors == []
    assert only(first).step_count == 1
    assert only(second).step_count == 2
    assert manager.get_or_create_session("robot") is state.session
    with measure.record(manager):
        pass
    assert vars(manager).keys() - before.keys() <= {"get_or_create_session", "drop_session"}


def test_session_when_recorded_then_freed_as_soon_as_nobody_holds_it() -> None:
    """The recorder keeps neither a session nor a tensor nor a manager alive."""
    manager = SessionStateManager()
    with measure.record(manager):
        state = Toy("robot", manager)
        with state.step():
            state.pending = torch.zeros(1, H, W)
        tensor, session = ref(state.pending), ref(state.session)
        state.pending = None
        assert tensor() is None
        manager.drop_session("robot")
        del state
        gc.collect()
        assert session() is None
        weakly = ref(manager)
        del manager
        gc.collect()
        assert weakly() is None


def test_look_when_it_fails_then_the_run_goes_on_and_the_recording_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fault of ours is told in the recording, never to the one who serves."""

    def broken(self: Any, session: Any, trouble: Any) -> Any:
        raise RuntimeError("no look today")

    monkeypatch.setattr(Looks, "look", broken)
    record = measured(steps=3)
    assert record.recording.troubles == ("RuntimeError: no look today",)
    assert record.recording.sessions == ()


def test_value_when_it_cannot_be_looked_at_then_the_others_are() -> None:
    """A value of somebody's own make may fail: the recording says so, all others are measured."""

    class Odd:
        def nbytes_by_device(self, seen: Any) -> dict[str, int]:
            raise RuntimeError("not now")

    def forward(state: Any, step: int) -> None:
        state.cache = Odd()
        state.pending = torch.zeros(1, H, W)

    record = measured(forward, 2)
    assert record.recording.troubles == ("RuntimeError: not now",)
    assert value(only(record), "pending").nbytes == {"cpu": (FRAME, FRAME)}


def test_value_when_no_schema_speaks_of_it_then_recorded_by_its_key() -> None:
    """Numbers in keys are left open, so that a cache with a key for each step is one value."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        for step in range(4):
            with Toy("robot", manager).step() as session:
                session.attrs[f"cache_{step}"] = torch.zeros(8)
    found = only(record).value("", "cache_*")
    assert found is not None
    assert found.nbytes == {"cpu": (32, 64, 96, 128)}


def test_family_when_measured_then_all_members_are_one_value() -> None:
    """Members are counted, and memory that they share is counted once."""

    def step(state: Any, number: int) -> None:
        if not number:
            both = torch.zeros(1, 6, 8)
            for layer in range(3):
                state.text_object(layer).append(both if layer < 2 else torch.zeros(1, 6, 8))

    text = value(only(measured(step, 2)), "text")
    assert text.members == {"layer": 3}
    assert text.peak_nbytes == 2 * 6 * 8 * 4


def test_memory_when_there_are_100_000_steps_then_bounded() -> None:
    """Points are thinned out; first, last and peak stay exact."""
    one = log.SessionLog("robot", 1, "cpu", 16)
    manager = SessionStateManager()
    state, looks = Toy("robot", manager), Looks()
    sights = looks.look(state.session, pytest.fail)
    for step in range(100_000):
        if step in (0, 1, 50_000, 50_001, 99_999):
            state.pending = None if step == 1 else torch.zeros(1 + step // 50_000 % 2, H, W)
        sights = (
            looks.look(state.session, pytest.fail) if step % 10_000 < 2 or step > 99_990 else sights
        )
        one.add("step", sights)
    session = one.measured()
    assert session.step_count == 100_000
    assert len(session.steps) <= 32
    pending = value(session, "pending")
    assert (pending.first_nbytes, pending.last_nbytes) == (FRAME, 2 * FRAME)
    assert (pending.peak_nbytes, pending.peak_step) == (2 * FRAME, 50_001)
    assert max(pending.nbytes["cpu"]) == 2 * FRAME


def test_sessions_when_there_are_thousands_then_the_telling_ones_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of sessions that are gone, those stay in which a value held most; the rest is a number."""
    monkeypatch.setattr(recorder, "SESSIONS", 8)
    manager = SessionStateManager()
    with measure.record(manager) as record:
        for number in range(100):
            state = Toy(f"request-{number}", manager)
            with state.step():
                state.pending = torch.zeros(3 if number == 40 else 1, H, W)
            with state.step():
                state.latent = torch.zeros(1, 4, 2, 8 if number == 60 else 4)
            manager.drop_session(f"request-{number}")
    recording = record.recording
    names = {one.session_id for one in recording.sessions}
    assert len(names) <= 8
    assert {"request-40", "request-60"} <= names
    assert recording.left_out == 100 - len(names)


def test_sessions_when_used_by_threads_then_each_step_is_counted() -> None:
    """Threads with sessions of their own, and with new adapters all the time."""
    manager = SessionStateManager()

    def serve(name: str) -> None:
        for step in range(50):
            with Toy(name, manager).step() as session:
                session.attrs["pending"] = torch.zeros(step % 3 + 1, H, W)

    with measure.record(manager) as record:
        threads = [threading.Thread(target=serve, args=(f"robot-{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert record.recording.troubles == ()
    assert [one.counted for one in record.recording.sessions] == [{"step": 50}] * 4


def test_parking_when_a_lease_ends_then_what_it_left_was_measured_before() -> None:
    """A look at the end of a lease comes before anything of the session is put away."""
    manager = SessionStateManager(budgets={"cpu": "1GiB"})
    with measure.record(manager) as record, manager.lease("robot", begin=Toy.SPEC,
                                                          overrides={"H": H, "W": W, "LAYERS": 2,
                                                                     "TOKENS": 8}):  # fmt: skip
        good_step(Toy("robot", manager), 0)
    assert value(only(record), "ring").peak_nbytes == FRAME


def test_measuring_when_on_then_no_warning_and_the_same_bits() -> None:
    """A session that is recorded holds what one that is not holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        manager, other = SessionStateManager(), SessionStateManager()
        measured(manager=manager)
        state = Toy("robot", other)
        for step in range(12):
            with state.step():
                good_step(state, step)
    assert manager.stats() == other.stats()


def test_recording_when_it_has_ended_then_nothing_more_is_recorded() -> None:
    """Steps after the context are nobody's business."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        state = Toy("robot", manager)
        with state.step():
            pass
    with state.step():
        state.pending = torch.zeros(1, H, W)
    Toy("another", manager)
    assert only(record).step_count == 1


def test_sessions_when_they_live_at_once_then_what_they_hold_together() -> None:
    """The most at once is of those that live: what has been dropped is not added."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        for name, frames in (("a", 1), ("b", 2)):
            with Toy(name, manager).step() as session:
                session.attrs["pending"] = torch.zeros(frames, H, W)
        manager.drop_session("b")
        with Toy("c", manager).step() as session:
            session.attrs["pending"] = torch.zeros(1, H, W)
    assert record.recording.together == {"toy": Together(3 * FRAME, 2)}


def test_lease_when_it_began_before_the_recording_then_its_end_is_a_lease() -> None:
    """A recording that starts in the middle of a use knows what ends."""
    manager = SessionStateManager()
    with manager.lease("robot", begin=Toy.SPEC):
        recording = measure.record(manager)
        record = recording.__enter__()
    recording.__exit__(None, None, None)
    assert only(record).counted == {"lease": 1}
