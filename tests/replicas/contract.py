"""What holds of a service over every transport: tests that two modules run, each over its own.

A module that runs them has two fixtures: `shared`, a deployment of two replicas "a" and "b" that
save after every step, for tests that leave no session behind; and `deploy`, which makes one that a
test may do anything with.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Protocol

import pytest

from statekit.errors import (
    MoveError,
    QueueFullError,
    ServiceError,
    SessionAdmissionError,
    SessionExistsError,
    SessionRewoundError,
    SessionStateLostError,
    StaleEpochError,
    StepCancelledError,
    StepOrderError,
)
from statekit.replicas.fleet import Options
from statekit.replicas.lane import Limits
from statekit.replicas.sessions import Pending, Sessions
from tests.replicas.toy import FRAME_NBYTES, ToyError, alone

__all__ = ["Bounds", "Contract", "Deaths", "Deploy", "Deployment", "eventually"]

ONE = 4 * FRAME_NBYTES
"""What one session declares."""


class Deployment(Protocol):
    """A service that runs."""

    sessions: Sessions

    def kill(self, name: str) -> None:
        """A replica dies."""

    def add(self, name: str) -> None:
        """Another replica serves."""


class Deploy(Protocol):
    """Makes a deployment."""

    def __call__(
        self,
        *names: str,
        every: int | None = None,
        limits: Limits | None = None,
        options: Options | None = None,
        **manager: Any,
    ) -> Deployment:
        """Replicas of these names, which save after every so many steps."""


def eventually(claim: Any, within_s: float = 20.0) -> None:
    """Wait until it is so."""
    until = time.monotonic() + within_s
    while not claim():
        assert time.monotonic() < until, "it never came to be so"
        time.sleep(0.005)


def running(sessions: Sessions, session_id: str, tmp_path: Path, x: int = 1) -> Pending:
    """A step that runs, until the file "gate" is there."""
    started = tmp_path / f"started-{session_id}"
    pending = sessions.submit(session_id, x, gate=str(tmp_path / "gate"), started=str(started))
    eventually(started.exists)
    return pending


class Contract:
    """The life of a session; all tests share a service."""

    # -- begin, continue, close --------------------------------------------------------------------

    def test_steps_when_done_then_outputs_are_those_of_one_process(
        self, shared: Deployment
    ) -> None:
        """Begin and continue give what a session gives that is served alone."""
        sessions = shared.sessions
        for name in ("one", "two"):
            assert sessions.begin(name, len(name)) == len(name)
        got: dict[str, list[Any]] = {"one": [], "two": []}
        for x in range(6):
            for name in got:
                got[name].append(sessions.step(name, x))
        assert got == {name: alone(3, list(range(6))) for name in got}
        assert sessions.close("one")
        assert sessions.close("two")

    def test_sessions_when_begun_then_they_are_spread(self, shared: Deployment) -> None:
        """Each goes where most is left: two sessions on two replicas, and affinity holds."""
        sessions = shared.sessions
        sessions.begin("one")
        sessions.begin("two")
        assert {sessions.where("one").owner, sessions.where("two").owner} == {"a", "b"}
        for x in range(3):
            place = sessions.where("one")
            sessions.step("one", x)
            assert sessions.where("one") == place
        sessions.close("one")
        sessions.close("two")

    def test_begin_when_the_session_lives_then_refused(self, shared: Deployment) -> None:
        """Begin is no continue, and leaves the one that lives alone."""
        sessions = shared.sessions
        sessions.begin("one", 5)
        with pytest.raises(SessionExistsError):
            sessions.begin("one")
        assert sessions.step("one", 1)[0] == 16
        sessions.close("one")

    def test_step_when_never_begun_or_closed_then_lost(self, shared: Deployment) -> None:
        """Continue is no begin: what does not live is an error that says what became of it."""
        sessions = shared.sessions
        with pytest.raises(SessionStateLostError) as unknown:
            sessions.step("never", 1)
        assert unknown.value.how == "unknown"
        sessions.begin("one")
        assert sessions.close("one")
        assert not sessions.close("one")
        with pytest.raises(SessionStateLostError) as closed:
            sessions.step("one", 1)
        assert closed.value.how == "dropped"

    def test_begin_when_it_was_closed_then_it_begins_anew(self, shared: Deployment) -> None:
        """An id is free once its session is closed; nothing of the old one is left."""
        sessions = shared.sessions
        sessions.begin("one", 7)
        first = sessions.where("one")
        sessions.step("one", 1)
        sessions.close("one")
        sessions.begin("one")
        assert sessions.where("one").epoch > first.epoch
        assert [sessions.step("one", 1)] == alone(0, [1])
        sessions.close("one")

    def test_begin_when_the_model_fails_then_nothing_is_left(self, shared: Deployment) -> None:
        """A failed begin frees its affinity and its id."""
        sessions = shared.sessions
        with pytest.raises(ToyError):
            sessions.begin("one", fail=True)
        with pytest.raises(SessionStateLostError):
            sessions.step("one", 1)
        sessions.begin("one")
        assert sum(one.sessions for one in sessions.status().replicas) == 1
        sessions.close("one")
        assert sum(one.facts.sessions for one in sessions.status().replicas) == 0

    def test_begin_when_no_such_model_is_served_then_error_names_those(
        self, shared: Deployment
    ) -> None:
        """A model is named by its schema's name."""
        with pytest.raises(ServiceError, match="toy"):
            shared.sessions.begin("one", model="dreamzero")

    def test_step_when_the_model_fails_then_the_session_is_as_before(
        self, shared: Deployment
    ) -> None:
        """A failed step is undone and not counted; the next one goes on from the one before."""
        sessions = shared.sessions
        sessions.begin("one")
        first = sessions.step("one", 1)
        with pytest.raises(ToyError):
            sessions.step("one", 5, fail=True)
        assert [first, sessions.step("one", 2)] == alone(0, [1, 2])
        sessions.close("one")

    # -- order, bounds, cancel ---------------------------------------------------------------------

    def test_submitted_steps_when_many_then_they_run_in_order(self, shared: Deployment) -> None:
        """Steps of one session run in the order in which a client submits them."""
        sessions = shared.sessions
        sessions.begin("one")
        pending = [sessions.submit("one", x) for x in range(8)]
        assert [one.result(20) for one in pending] == alone(0, list(range(8)))
        sessions.close("one")

    def test_submitted_steps_when_one_fails_then_those_after_it_do_not_run(
        self, shared: Deployment
    ) -> None:
        """A step is not run on a state that it was not meant for; numbers go on from there."""
        sessions = shared.sessions
        sessions.begin("one")
        pending = [sessions.submit("one", x, fail=x == 1) for x in range(4)]
        outputs = [pending[0].result(20)]
        with pytest.raises(ToyError):
            pending[1].result(20)
        for one in pending[2:]:
            with pytest.raises(StepOrderError):
                one.result(20)
        again = [sessions.submit("one", x) for x in range(1, 4)]
        outputs += [one.result(20) for one in again]
        assert outputs == alone(0, list(range(4)))
        sessions.close("one")

    def test_queued_step_when_cancelled_then_it_has_not_run(
        self, shared: Deployment, tmp_path: Path
    ) -> None:
        """Cancelled while it waits: it does not run, and says so."""
        sessions = shared.sessions
        sessions.begin("one")
        first = running(sessions, "one", tmp_path)
        second = sessions.submit("one", 5)
        assert second.cancel() == "not run"
        (tmp_path / "gate").touch()
        outputs = [first.result(20)]
        with pytest.raises(StepCancelledError) as refused:
            second.result(20)
        assert refused.value.state == "not run"
        outputs.append(sessions.submit("one", 2).result(20))
        assert outputs == alone(0, [1, 2])
        sessions.close("one")

    def test_running_step_when_cancelled_then_it_is_rolled_back(
        self, shared: Deployment, tmp_path: Path
    ) -> None:
        """Cancelled while it runs: undone whole, and says so; the next one runs."""
        sessions = shared.sessions
        sessions.begin("one")
        outputs = [sessions.step("one", 1)]
        pending = running(sessions, "one", tmp_path, 9)
        assert pending.cancel() == "rolled back"
        with pytest.raises(StepCancelledError) as undone:
            pending.result(20)
        assert undone.value.state == "rolled back"
        outputs.append(sessions.step("one", 2))
        assert outputs == alone(0, [1, 2])
        sessions.close("one")

    def test_done_step_when_cancelled_then_it_is_done(self, shared: Deployment) -> None:
        """Too late to cancel: the output is there, and the step counts."""
        sessions = shared.sessions
        sessions.begin("one")
        pending = sessions.submit("one", 1)
        eventually(pending.done)
        assert pending.cancel() == "done"
        assert [pending.result(20), sessions.step("one", 2)] == alone(0, [1, 2])
        sessions.close("one")

    # -- moving ------------------------------------------------------------------------------------

    def test_session_when_moved_then_it_goes_on_bit_for_bit(self, shared: Deployment) -> None:
        """A move between two steps shows in nothing but the place."""
        sessions = shared.sessions
        sessions.begin("one", 2)
        outputs = []
        for x in range(8):
            outputs.append(sessions.step("one", x))
            if x % 2:
                before = sessions.where("one")
                after = sessions.move("one")
                assert after.owner != before.owner
                assert after.epoch > before.epoch
                assert after.step == x + 1
        assert outputs == alone(2, list(range(8)))
        assert sum(one.facts.sessions for one in sessions.status().replicas) == 1
        sessions.close("one")

    def test_session_when_moved_under_load_then_every_step_runs_once(
        self, shared: Deployment
    ) -> None:
        """Moves while steps run and wait: none is lost, none runs twice."""
        sessions = shared.sessions
        sessions.begin("one")
        outputs: list[Any] = []

        def serve() -> None:
            for x in range(0, 60, 3):
                pending = [sessions.submit("one", y) for y in (x, x + 1, x + 2)]
                outputs.extend(one.result(30) for one in pending)

        thread = threading.Thread(target=serve)
        thread.start()
        moves = 0
        while thread.is_alive() and moves < 10:
            sessions.move("one")
            moves += 1
        thread.join(60)
        assert outputs == alone(0, list(range(60)))
        sessions.close("one")

    def test_late_step_when_its_epoch_is_over_then_refused(self, shared: Deployment) -> None:
        """What reaches the old owner after a move is refused there, whatever it is."""
        sessions = shared.sessions
        sessions.begin("one")
        old = sessions.where("one")
        new = sessions.move("one")
        late = sessions.link(old.owner)
        for epoch in (old.epoch, new.epoch):
            with pytest.raises(StaleEpochError):
                late.call("step", "one", epoch, None, None, (1,), {})
        with pytest.raises(StaleEpochError):
            late.call("begin", "one", old.epoch, "toy", {}, (), {})
        assert [sessions.step("one", 1)] == alone(0, [1])
        sessions.close("one")


class Deaths:
    """Replicas that die; each test has a service of its own."""

    def test_session_when_its_replica_dies_then_it_goes_on_from_its_last_snapshot(
        self, deploy: Deploy
    ) -> None:
        """The client is told at which step it is, sends again what came after, and all is equal."""
        deployment = deploy("a", "b", every=2)
        sessions = deployment.sessions
        sessions.begin("one", 4)
        outputs = [sessions.step("one", x) for x in range(5)]
        place = sessions.where("one")
        deployment.kill(place.owner)
        with pytest.raises(SessionRewoundError) as told:
            sessions.step("one", 5)
        assert (told.value.step, told.value.seen) == (4, 5)
        assert sessions.where("one").owner != place.owner
        del outputs[4:]
        outputs += [sessions.step("one", x) for x in range(4, 7)]
        assert outputs == alone(4, list(range(7)))
        status = sessions.status()
        assert [one.state for one in status.replicas].count("dead") == 1
        assert not status.lost

    def test_session_when_nothing_was_saved_then_lost_and_listed(self, deploy: Deploy) -> None:
        """Without a snapshot it is gone: an error, an entry in the list, never an empty session."""
        deployment = deploy("a", "b")
        sessions = deployment.sessions
        for name in ("one", "two"):
            sessions.begin(name)
            sessions.step(name, 1)
        dead = sessions.where("one").owner
        deployment.kill(dead)
        for _ in range(2):
            with pytest.raises(SessionStateLostError) as lost:
                sessions.step("one", 2)
            assert lost.value.how == "replica died"
        assert [sessions.step("two", 2)] == alone(0, [1, 2])[1:]
        (listed,) = sessions.status().lost
        assert (listed.session_id, listed.replica, listed.saved_step) == ("one", dead, None)
        sessions.begin("one")
        assert not sessions.status().lost
        assert [sessions.step("one", 1)] == alone(0, [1])


class Bounds:
    """What is full, and what takes too long; each test has a service of its own."""

    def test_steps_when_too_many_wait_then_refused_and_not_run(
        self, deploy: Deploy, tmp_path: Path
    ) -> None:
        """Bounds of a session's queue and of its replica's: the refused ones have not run."""
        limits = Limits(queue=3, queue_per_session=2)
        sessions = deploy("a", limits=limits).sessions
        for name in ("one", "two"):
            sessions.begin(name)
        pending = [running(sessions, "one", tmp_path)]
        pending += [sessions.submit("one", x) for x in (2, 3)]
        eventually(lambda: sessions.status().replicas[0].waiting == 2)
        with pytest.raises(QueueFullError) as full:
            sessions.step("one", 4)
        assert (full.value.of, full.value.limit) == ("session", 2)
        other = sessions.submit("two", 1)
        eventually(lambda: sessions.status().replicas[0].waiting == 3)
        with pytest.raises(QueueFullError) as full:
            sessions.step("two", 2)
        assert (full.value.of, full.value.limit) == ("replica", 3)
        (tmp_path / "gate").touch()
        assert [one.result(20) for one in pending] == alone(0, [1, 2, 3])
        assert [other.result(20), sessions.step("two", 2)] == alone(0, [1, 2])

    def test_move_when_a_step_takes_too_long_then_the_session_stays(
        self, deploy: Deploy, tmp_path: Path
    ) -> None:
        """What cannot move stays, and is served, under another epoch."""
        options = Options(wait_s=0.2)
        sessions = deploy("a", "b", options=options).sessions
        sessions.begin("one")
        owner = sessions.where("one").owner
        pending = running(sessions, "one", tmp_path)
        with pytest.raises(MoveError):
            sessions.move("one")
        (tmp_path / "gate").touch()
        assert sessions.where("one").owner == owner
        assert [pending.result(20), sessions.step("one", 2)] == alone(0, [1, 2])

    def test_replica_when_drained_then_its_sessions_are_elsewhere(self, deploy: Deploy) -> None:
        """Drained and removed while served; a new replica takes part from then on."""
        deployment = deploy("a", "b")
        sessions = deployment.sessions
        names = [f"s{i}" for i in range(6)]
        for name in names:
            sessions.begin(name)
        outputs = {name: [sessions.step(name, 1)] for name in names}
        drained = sessions.drain("a")
        assert len(drained.moved) == 3
        assert not drained.stayed
        assert {sessions.where(name).owner for name in names} == {"b"}
        sessions.begin("new")
        assert sessions.where("new").owner == "b"
        sessions.remove("a")
        deployment.add("c")
        sessions.begin("newer")
        assert sessions.where("newer").owner == "c"
        for name in names:
            outputs[name].append(sessions.step(name, 2))
        assert outputs == {name: alone(0, [1, 2]) for name in names}

    def test_begin_when_it_fits_nowhere_then_refused_with_figures(self, deploy: Deploy) -> None:
        """Two replicas with room for one session each: the third is refused, and leaves nothing."""
        sessions = deploy("a", "b", budgets={"cpu": ONE + 10}).sessions
        sessions.begin("one")
        sessions.begin("two")
        with pytest.raises(SessionAdmissionError) as refused:
            sessions.begin("three")
        assert (refused.value.need, refused.value.device) == (ONE, "cpu")
        assert sessions.close("two")
        sessions.begin("three")

    def test_begin_when_room_is_in_pieces_then_an_idle_session_moves(self, deploy: Deploy) -> None:
        """Half a session's room on each of two replicas becomes one on one of them."""
        sessions = deploy("a", "b", budgets={"cpu": 3 * ONE}).sessions
        small = {"N": 128}
        for name in ("one", "two"):
            sessions.begin(name, overrides=small)  # half of one each, on a and on b
        owners = {sessions.where(name).owner for name in ("one", "two")}
        assert owners == {"a", "b"}
        large = {"N": 256 * 5 // 2 + 64}  # 2.75 of one
        sessions.begin("large", overrides=large)
        assert sessions.where("one").owner == sessions.where("two").owner
        assert sessions.where("large").owner != sessions.where("one").owner

    def test_session_when_every_step_is_saved_then_a_death_undoes_none(
        self, deploy: Deploy
    ) -> None:
        """Saved before each answer: no step that a client knows of is undone."""
        deployment = deploy("a", "b", every=1)
        sessions = deployment.sessions
        sessions.begin("one")
        outputs = [sessions.submit("one", x).result(20) for x in range(3)]
        deployment.kill(sessions.where("one").owner)
        with pytest.raises(SessionRewoundError) as told:
            sessions.submit("one", 3).result(20)
        assert (told.value.step, told.value.seen) == (3, 3)
        outputs.append(sessions.submit("one", 3).result(20))
        assert outputs == alone(0, list(range(4)))

    def test_session_when_the_operator_forbids_it_then_not_restored(self, deploy: Deploy) -> None:
        """Lost although there is a snapshot, which the operator may restore by name."""
        deployment = deploy("a", "b", every=1, options=Options(restore="never"))
        sessions = deployment.sessions
        sessions.begin("one")
        outputs = [sessions.step("one", 1)]
        deployment.kill(sessions.where("one").owner)
        with pytest.raises(SessionStateLostError, match="step 1"):
            sessions.step("one", 2)
        assert [one.saved_step for one in sessions.status().lost] == [1]
        assert sessions.restore("one").step == 1
        outputs.append(sessions.step("one", 2))
        assert outputs == alone(0, [1, 2])
        assert not sessions.status().lost

    def test_begin_when_a_replica_is_dead_then_elsewhere(self, deploy: Deploy) -> None:
        """Nobody has told that it is dead: the session begins on the other one."""
        deployment = deploy("a", "b")
        deployment.kill("a")
        for name in ("one", "two"):
            deployment.sessions.begin(name)
            assert deployment.sessions.where(name).owner == "b"
