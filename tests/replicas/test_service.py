"""A service in one process: what operators see and decide, and what sessions do by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from statekit.errors import (
    MoveError,
    ServiceError,
    SessionAdmissionError,
    SessionStateLostError,
    StaleEpochError,
)
from statekit.manager import SessionStateManager
from statekit.replicas.fleet import Options
from statekit.replicas.placement import ReplicaFacts
from statekit.replicas.replica import Replica
from statekit.replicas.saving import MemoryStore, Saving
from statekit.replicas.serving import Serves, Turn
from statekit.replicas.sessions import Sessions
from statekit.spec import ModelSpec, Park
from tests.replicas.toy import SPEC, Toy, alone, replica

LOSABLE = ModelSpec("toy", symbols=SPEC.symbols, values=SPEC.values, may_be_lost=True)


def test_session_when_it_expires_then_it_is_lost_and_its_snapshot_gone() -> None:
    """A replica lets go of it by itself: clients are told how, the id is free, nothing is kept."""
    now = [0.0]
    store = MemoryStore()
    made = replica("a", store=store, idle_timeout_s=10.0, clock=lambda: now[0])
    sessions = Sessions.embedded([made], store=store)
    sessions.begin("one")
    sessions.begin("two")
    sessions.step("one", 1)
    now[0] = 11.0
    made.manager.expire()
    with pytest.raises(SessionStateLostError) as lost:
        sessions.step("one", 2)
    assert lost.value.how == "expired"
    assert store.get("one") is None
    sessions.begin("two")  # nobody has asked for it since
    assert sessions.status().sessions == {"placed": 1}


def test_session_when_it_is_evicted_then_its_client_is_told() -> None:
    """A manager that must make room lets go of what may be lost; it is not begun anew."""
    manager = SessionStateManager(max_sessions=8)
    sessions = Sessions.embedded([Replica("a", manager, [Serves(LOSABLE, Toy())])])
    sessions.begin("one")
    for i in range(8):  # by somebody who does not keep to the rules
        manager.get_or_create_session(f"other{i}")
    with pytest.raises(SessionStateLostError) as lost:
        sessions.step("one", 1)
    assert lost.value.how == "evicted"
    assert sessions.status().sessions == {}


def test_close_when_a_step_runs_then_it_ends_and_the_next_is_refused(tmp_path: Path) -> None:
    """A step that runs may end; what comes after it finds the session closed."""
    sessions = Sessions.embedded([replica("a")])
    sessions.begin("one")
    gate, started = tmp_path / "gate", tmp_path / "started"
    pending = sessions.submit("one", 1, gate=str(gate), started=str(started))
    while not started.exists():
        pass
    assert sessions.close("one")
    gate.touch()
    assert [pending.result(10)] == alone(0, [1])
    with pytest.raises(SessionStateLostError):
        sessions.step("one", 2)
    assert sessions.status().replicas[0].facts.sessions == 0


class WithIterator:
    """A model that keeps what cannot be in a snapshot."""

    def step(self, turn: Turn, x: int) -> int:
        turn.session.attrs["engine"] = iter(())
        return x


def test_session_when_it_cannot_be_saved_then_it_stays_and_the_operator_sees_why() -> None:
    """A value that no snapshot can hold: no move, no restore, and a step costs nothing."""
    store = MemoryStore()
    spec = ModelSpec("engine")
    both = [
        Replica(name, SessionStateManager(), [Serves(spec, WithIterator())], saving=Saving(store))
        for name in "ab"
    ]
    sessions = Sessions.embedded(both, store=store)
    sessions.begin("one")
    assert sessions.step("one", 1) == 1
    owner = sessions.where("one").owner
    with pytest.raises(MoveError, match="engine"):
        sessions.move("one")
    drained = sessions.drain(owner)
    assert list(drained.stayed) == ["one"]
    assert sessions.step("one", 2) == 2
    assert sessions.where("one").owner == owner
    with pytest.raises(ServiceError, match="drain it first"):
        sessions.remove(owner)
    (unsaved,) = [one.unsaved for one in sessions.status().replicas if one.unsaved]
    assert "engine" in unsaved["one"]


def test_placement_when_it_is_the_operators_then_its_word_counts() -> None:
    """A policy of one's own, that refuses; and one that names nobody it was shown."""
    told: list[tuple[Mapping[str, int], list[str]]] = []

    def last(declared: Mapping[str, int], replicas: Sequence[ReplicaFacts], /) -> str | None:
        told.append((declared, [one.name for one in replicas]))
        return replicas[-1].name if len(told) < 3 else None

    options = Options(placement=last, asked=0, most_moves=0)
    sessions = Sessions.embedded(map(replica, "ab"), options=options)
    for name in ("one", "two"):
        sessions.begin(name)
        assert sessions.where(name).owner == "b"
    with pytest.raises(SessionAdmissionError):
        sessions.begin("three")
    assert told[0] == ({"cpu": 4096}, ["a", "b"])
    wrong = Options(placement=lambda declared, replicas, /: "z")
    sessions = Sessions.embedded([replica("a")], options=wrong)
    with pytest.raises(ServiceError, match="'z'"):
        sessions.begin("one")


def test_begin_when_managers_can_park_then_asked_for_room_all_the_same(tmp_path: Path) -> None:
    """Idle sessions that can be parked need no room: more begin than declare to fit."""
    frames = attrs.evolve(SPEC["frames"], park=Park(("disk",)), operations=("accumulate", "park"))
    spec = ModelSpec("toy", symbols=SPEC.symbols, values=(SPEC["total"], frames))
    manager = SessionStateManager(budgets={"cpu": 2 * 4096 + 100}, park_folder=tmp_path)
    sessions = Sessions.embedded([Replica("a", manager, [Serves(spec, Toy())])])
    names = [f"s{i}" for i in range(5)]
    outputs: dict[str, list[Any]] = {}
    for name in names:
        sessions.begin(name)
        outputs[name] = [sessions.step(name, x) for x in range(4)]
    for name in names:
        outputs[name].append(sessions.step(name, 4))
    assert outputs == {name: alone(0, list(range(5))) for name in names}
    manager.close()


def test_replicas_when_none_then_errors_say_so() -> None:
    """No replica, no such replica, one name twice, all of them dead."""
    sessions = Sessions.embedded([])
    with pytest.raises(ServiceError, match="none"):
        sessions.begin("one")
    with pytest.raises(ServiceError, match="there is none of that name, but none"):
        sessions.drain("a")
    sessions.add(replica("a"))
    with pytest.raises(ServiceError, match="one of that name"):
        sessions.add(replica("a"))
    sessions.kill("a")
    with pytest.raises(ServiceError, match="no replica takes sessions of toy now"):
        sessions.begin("one")
    sessions.remove("a")
    sessions.add(replica("a"))
    sessions.begin("one")


def test_replica_when_it_serves_nothing_or_one_name_twice_then_refused() -> None:
    """Models are told apart by their names."""
    for serves in ([], [Serves(SPEC, Toy()), Serves(LOSABLE, Toy())]):
        with pytest.raises(ServiceError, match="two of one name"):
            Replica("a", SessionStateManager(), serves)


def test_replica_when_calls_come_late_or_twice_then_refused_or_nothing() -> None:
    """A begin, a restore, a thaw, a forget of an epoch that is over change nothing."""
    made = replica("a")
    made.begin("one", 5, "toy", {})
    made.step("one", 5, None, None, (1,))
    saved = made.freeze("one", 5, 1.0)
    made.forget("one", 4)
    assert [one.session_id for one in made.report().sessions] == ["one"]
    made.forget("one", 5)
    made.forget("one", 5)
    for late in (
        lambda: made.begin("one", 5, "toy", {}),
        lambda: made.restore("one", 4, "toy", {}, saved),
        lambda: made.thaw("one", 5, 9),
        lambda: made.step("one", 5),
        lambda: made.cancel("one", 5, "key"),
    ):
        with pytest.raises(StaleEpochError):
            late()
    assert made.report().sessions == ()
    made.restore("one", 6, "toy", {}, saved)
    with pytest.raises(StaleEpochError):
        made.restore("one", 6, "toy", {}, saved)
    assert [made.step("one", 6, None, None, (2,)).output] == alone(0, [1, 2])[1:]


def test_two_models_when_one_service_has_both_then_each_goes_where_it_is_served() -> None:
    """Replicas differ in what they serve; a model has to be named."""
    spec = ModelSpec("other", values=SPEC.values, symbols=SPEC.symbols)

    def make(name: str, *specs: ModelSpec) -> Replica:
        return Replica(name, SessionStateManager(), [Serves(one, Toy()) for one in specs])

    sessions = Sessions.embedded([make("a", SPEC), make("b", spec), make("c", SPEC, spec)])
    with pytest.raises(ServiceError, match="other, toy"):
        sessions.begin("one")
    for i in range(6):
        model = ("toy", "other")[i % 2]
        sessions.begin(f"s{i}", model=model)
        assert sessions.where(f"s{i}").owner != ("b" if model == "toy" else "a")
    with pytest.raises(MoveError):
        sessions.move("s0", "b")
    moved: Any = sessions.drain("a").moved
    assert set(moved.values()) <= {"c"}


def test_session_when_it_expires_while_it_moves_then_it_is_not_brought_back() -> None:
    """What ended by itself is not restored from a snapshot, whoever is about to move it."""
    now = [0.0]
    store = MemoryStore()
    given: dict[str, Any] = {"idle_timeout_s": 10.0, "clock": lambda: now[0]}
    both = [replica(name, store=store, **given) for name in "ab"]
    sessions = Sessions.embedded(both, store=store)
    sessions.begin("one")
    owner = next(one for one in both if one.name == sessions.where("one").owner)
    now[0] = 11.0
    owner.manager.expire()
    with pytest.raises(SessionStateLostError) as lost:
        sessions.move("one")
    assert lost.value.how == "expired"
    assert not sessions.status().lost
