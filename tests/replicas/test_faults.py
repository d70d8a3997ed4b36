"""Replicas that die before or after any call that a move, a begin, a death or a close makes.

Each test lets one replica die at one call, and then looks: one replica at most has the session, its
outputs are those of one process, or it is lost and listed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

from statekit.errors import (
    MoveError,
    ReplicaDiedError,
    ServiceError,
    SessionRewoundError,
    SessionStateLostError,
    StepUnknownError,
)
from statekit.replicas.links import EmbeddedLink
from statekit.replicas.saving import FolderStore, MemoryStore, Saved
from statekit.replicas.service import Service
from statekit.replicas.sessions import EmbeddedSessions, Sessions
from tests.replicas.toy import alone, replica

CALLS = ("freeze", "restore", "thaw", "forget", "begin", "close", "report", "declared")


class FatalLink(EmbeddedLink):
    """Dies, or is cut off, before or after the next call of one method."""

    def __init__(self, name: str, target: Any) -> None:
        super().__init__(name, target)
        self.fatal: tuple[str, str] | None = None
        self.cut = False
        self.refused: str | None = None

    def call(self, method: str, *args: Any) -> Any:
        if method == self.refused:
            self.refused = None
            raise ServiceError("fault", f"{method} is refused", "do nothing")
        if self.fatal == (method, "before"):
            self._fail()
        answer = super().call(method, *args)
        if self.fatal == (method, "after"):
            self._fail()
        return answer

    def _fail(self) -> None:
        """Die, or be cut off: the replica lives, and nobody can tell."""
        self.fatal = None
        if not self.cut:
            self.kill()
        raise ReplicaDiedError(self.name, "no answer comes from it")


def deployed(*names: str, every: int | None = 1) -> tuple[EmbeddedSessions, dict[str, FatalLink]]:
    """Replicas behind links that may be fatal."""
    store = None if every is None else MemoryStore()
    sessions = Sessions.embedded([], store=store)
    links: dict[str, FatalLink] = {}
    for name in names:
        made = replica(name, store=store, every=every or 1)
        links[name] = FatalLink(name, made)
        sessions.service.add(links[name])
        sessions._embedded[name] = links[name]
    return sessions, links


def holders(sessions: EmbeddedSessions, session_id: str) -> list[str]:
    """The replicas that live and would serve the session."""
    found = []
    for name, link in sessions._embedded.items():
        if not link._dead.is_set():
            report = link._target.report()
            found += [name for held in report.sessions if held.session_id == session_id]
    return found


def played(sessions: Sessions, session_id: str, outputs: list[Any], until: int) -> list[Any]:
    """Step until so many outputs are there; what a death has undone is sent again."""
    while len(outputs) < until:
        with suppress(SessionRewoundError):
            outputs.append(sessions.step(session_id, len(outputs)))
            continue
        del outputs[sessions.where(session_id).step :]
    return outputs


@pytest.mark.parametrize("cut", [False, True], ids=["dies", "is cut off"])
@pytest.mark.parametrize("every", [2, None])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("victim", ["source", "target"])
def test_session_when_a_replica_dies_while_it_moves_then_it_lives_once_or_is_lost(
    victim: str, method: str, when: str, every: int | None, cut: bool
) -> None:
    """Whoever dies, at whatever call: the session is in one place with all its steps, or listed.

    Nobody can tell a replica that is dead from one that is cut off: that one is fenced.
    """
    sessions, links = deployed("a", "b", "c", every=every)
    sessions.begin("one")
    outputs = played(sessions, "one", [], 3)
    source = sessions.where("one").owner
    target = "b" if source != "b" else "c"
    fatal = links[source if victim == "source" else target]
    fatal.fatal, fatal.cut = (method, when), cut
    with suppress(MoveError, SessionStateLostError, ServiceError):
        sessions.move("one", target)
    sessions.service.settled(10)
    sessions.service.check()
    assert len(holders(sessions, "one")) <= 1
    lost = [one.session_id for one in sessions.status().lost]
    if lost:
        assert every is None
        with pytest.raises(SessionStateLostError, match="replica died"):
            sessions.step("one", 3)
        assert holders(sessions, "one") == []
        sessions.begin("one")
        outputs.clear()
    played(sessions, "one", outputs, 6)
    assert outputs == alone(0, list(range(6)))
    assert holders(sessions, "one") == [sessions.where("one").owner]


@pytest.mark.parametrize("method", ["freeze", "restore", "thaw", "forget"])
@pytest.mark.parametrize("victim", ["source", "target"])
def test_session_when_a_call_of_its_move_is_refused_then_it_goes_on(
    victim: str, method: str
) -> None:
    """What fails without a death leaves the session where it was, or moved; never in between."""
    sessions, links = deployed("a", "b")
    sessions.begin("one")
    outputs = played(sessions, "one", [], 3)
    source = sessions.where("one").owner
    target = "b" if source == "a" else "a"
    links[source if victim == "source" else target].refused = method
    try:
        sessions.move("one", target)
    except MoveError:
        assert sessions.where("one").owner == source
    assert played(sessions, "one", outputs, 6) == alone(0, list(range(6)))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", CALLS)
def test_session_when_a_replica_dies_while_it_begins_then_it_begins_elsewhere(
    method: str, when: str
) -> None:
    """The one that was chosen dies: the session begins on the other one, once."""
    sessions, links = deployed("a", "b")
    links["a"].fatal = (method, when)
    sessions.begin("one")
    assert played(sessions, "one", [], 3) == alone(0, [0, 1, 2])
    assert holders(sessions, "one") == [sessions.where("one").owner]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", CALLS)
def test_session_when_the_one_that_restores_it_dies_too_then_a_third_has_it(
    method: str, when: str
) -> None:
    """Two deaths in a row: the last snapshot is restored on whoever is left."""
    sessions, links = deployed("a", "b", "c")
    sessions.begin("one")
    outputs = played(sessions, "one", [], 3)
    owner = sessions.where("one").owner
    second = "b" if owner != "b" else "c"
    links[second].fatal = (method, when)
    links[owner].kill()
    assert played(sessions, "one", outputs, 6) == alone(0, list(range(6)))
    sessions.service.settled(10)
    assert holders(sessions, "one") == [sessions.where("one").owner]


@pytest.mark.parametrize("when", ["before", "after"])
def test_session_when_its_replica_dies_while_it_closes_then_it_is_closed(when: str) -> None:
    """Closed is closed: nothing of it is restored, its id is free."""
    sessions, links = deployed("a", "b")
    sessions.begin("one")
    played(sessions, "one", [], 2)
    links[sessions.where("one").owner].fatal = ("close", when)
    assert sessions.close("one")
    with pytest.raises(SessionStateLostError) as closed:
        sessions.step("one", 1)
    assert closed.value.how == "dropped"
    sessions.begin("one")
    assert played(sessions, "one", [], 2) == alone(0, [0, 1])


class BrokenStore(MemoryStore):
    """Cannot do what it is told not to."""

    broken = ""

    def put(self, session_id: str, saved: Saved) -> None:
        if self.broken == "put":
            raise OSError("no room")
        super().put(session_id, saved)

    def get(self, session_id: str) -> Saved | None:
        if self.broken == "get":
            raise OSError("no such place")
        return super().get(session_id)


def test_step_when_its_snapshot_cannot_be_kept_then_done_and_reported() -> None:
    """A store that fails costs no step; the operator sees which sessions are not saved, and why."""
    store = BrokenStore()
    sessions = Sessions.embedded(
        [replica("a", store=store), replica("b", store=store)], store=store
    )
    sessions.begin("one")
    store.broken = "put"
    outputs = played(sessions, "one", [], 2)
    owner = sessions.where("one").owner
    told = {one.facts.name: dict(one.unsaved) for one in sessions.status().replicas}
    assert told[owner] == {"one": "no room"}
    store.broken = ""
    assert played(sessions, "one", outputs, 3) == alone(0, [0, 1, 2])
    assert not any(one.unsaved for one in sessions.status().replicas)


def test_session_when_its_snapshot_cannot_be_read_then_lost_with_the_reason() -> None:
    """A store that fails when it is needed: lost, listed, and why."""
    store = BrokenStore()
    sessions = Sessions.embedded(
        [replica("a", store=store), replica("b", store=store)], store=store
    )
    sessions.begin("one")
    store.broken = "get"
    sessions.kill(sessions.where("one").owner)
    with pytest.raises(SessionStateLostError, match="no such place"):
        sessions.step("one", 1)
    store.broken = ""
    assert sessions.restore("one").step == 0
    assert played(sessions, "one", [], 2) == alone(0, [0, 1])


def test_directory_when_its_books_are_lost_then_it_learns_them_from_the_replicas() -> None:
    """A new directory over the same replicas: the same owners, epochs above all that were given."""
    sessions, links = deployed("a", "b")
    names = ["one", "two", "three", "four"]
    for name in names:
        sessions.begin(name)
    outputs = {name: played(sessions, name, [], 2) for name in names}
    before = {name: sessions.where(name) for name in names}
    frozen = before["two"]  # the old directory died in the middle of a move, before or after
    saved = links[frozen.owner].call("freeze", "two", frozen.epoch, 1.0)
    both = before["three"]
    other = "b" if both.owner == "a" else "a"
    links[other].call("restore", "three", both.epoch + 50, "toy", {}, saved)
    new = Service(links.values(), store=MemoryStore())
    assert new.learn() == 4
    client = Sessions(EmbeddedLink("directory", new), links.__getitem__)
    assert client.where("one") == attrs.evolve(before["one"], step=2)
    assert client.where("two").owner == frozen.owner
    assert client.where("two").epoch > 50
    assert client.where("three").owner == other
    held = links[both.owner].call("report").sessions
    assert "three" not in [one.session_id for one in held]
    for name in ("one", "two", "four"):
        assert played(client, name, outputs[name], 4) == alone(0, [0, 1, 2, 3])


def test_session_when_the_books_of_its_rewinding_are_lost_then_its_client_is_still_told() -> None:
    """The replica that restored it knows of that: a new directory does too."""
    sessions, links = deployed("a", "b", every=2)
    sessions.begin("one")
    outputs = played(sessions, "one", [], 3)
    links[sessions.where("one").owner].kill()
    sessions.service.check()
    sessions.service.settled(10)
    living = [link for link in links.values() if not link._dead.is_set()]
    new = Service(living)
    assert new.learn() == 1
    sessions._service = EmbeddedLink("directory", new)
    with pytest.raises(SessionRewoundError) as told:
        sessions.step("one", 3)
    assert (told.value.step, told.value.seen) == (2, 3)
    assert played(sessions, "one", outputs[:2], 5) == alone(0, list(range(5)))


@pytest.mark.parametrize("submitted", [False, True])
@pytest.mark.parametrize("cut", [False, True], ids=["dies", "is cut off"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_step_when_its_replica_does_not_answer_then_it_never_runs_twice(
    when: str, cut: bool, submitted: bool
) -> None:
    """Dead: the client is told at which step the session is. Alive: that nobody knows. In neither
    case is the step sent again."""
    sessions, links = deployed("a", "b", every=1)
    sessions.begin("one")
    outputs: list[Any] = played(sessions, "one", [], 2)
    fatal = links[sessions.where("one").owner]
    fatal.fatal, fatal.cut = ("step", when), cut
    with pytest.raises(ServiceError) as told:
        if submitted:
            sessions.submit("one", 2).result(10)
        else:
            sessions.step("one", 2)
    ran = when == "after"
    if cut:
        assert isinstance(told.value, StepUnknownError)
    else:
        assert isinstance(told.value, SessionRewoundError)
        assert (told.value.step, told.value.seen) == (2 + ran, 2)
    assert sessions.count("one") == 2 + ran
    outputs += alone(0, [0, 1, 2])[2:] if ran else []
    outputs += [sessions.submit("one", len(outputs)).result(10)]
    outputs += [sessions.step("one", len(outputs))]
    assert outputs == alone(0, list(range(len(outputs))))


def test_service_when_started_again_over_its_folder_then_no_earlier_life_comes_back(
    tmp_path: Path,
) -> None:
    """What a session that began anew has saved goes before all that an earlier process saved."""

    def service() -> EmbeddedSessions:
        store = FolderStore(tmp_path)
        return Sessions.embedded([replica(name, store=store) for name in "ab"], store=store)

    first = service()
    first.begin("s", 0)
    for x in (1, 1, 1):
        first.step("s", x)
    second = service()
    second.begin("s", 100)
    expected = alone(100, [2, 2, 2])
    assert [second.step("s", 2) for _ in range(2)] == expected[:2]
    second.kill(second.where("s").owner)
    with pytest.raises(SessionRewoundError) as told:
        second.step("s", 2)
    assert told.value.step == 2
    assert second.step("s", 2) == expected[2]
