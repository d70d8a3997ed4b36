"""Where sessions go: the real placement decides, over a shortlist that leaves nothing out."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from statekit.replicas.placement import ReplicaFacts, least_loaded
from statekit.simulation.counting import CountingReplica
from statekit.simulation.fleet import Fleet, fewest_sessions
from statekit.simulation.kind import Kind
from statekit.simulation.links import Bandwidths, Links
from statekit.simulation.replica import Replica
from statekit.simulation.session import Session
from statekit.simulation.shape import TIERS
from statekit.simulation.tally import Tally
from statekit.spec import ModelSpec
from tests.simulation.services import DEVICE, GROWING, HEAVY, LIGHT

DEVICES = (DEVICE, "cpu", "disk")
BUDGETS = {DEVICE: 3_000_000_000, "cpu": 2_000_000_000, "disk": 3_000_000_000}


def fleet(
    count: int,
    budgets: Mapping[str, int] = BUDGETS,
    *,
    parking: bool = True,
    max_sessions: int = 1 << 30,
) -> Fleet:
    """So many replicas, all alike."""
    tally = Tally()
    tiers = TIERS if parking else {}
    replicas = [
        Replica(
            f"r{number:02d}",
            DEVICES,
            budgets,
            tiers,
            Links(Bandwidths(), tally.moved),
            tally,
            max_sessions=max_sessions,
        )
        for number in range(count)
    ]
    return Fleet(replicas, tally)


def kind(spec: ModelSpec, *, parking: bool = True) -> Kind:
    """One model on them."""
    return Kind(spec, DEVICES, DEVICE, TIERS if parking else {})


def begun(where: Fleet, name: str, model: Kind) -> Session | None:
    """A session after its first step, or None where it was refused."""
    session = Session(name, model, [])
    if not where.begin(session, 0):
        return None
    session.held = 1
    assert session.home is not None
    session.home.end(session, 0)
    return session


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("max_sessions", [6, 1 << 30])
def test_shortlist_when_replicas_fill_then_holds_what_the_placement_would_choose(
    seed: int, max_sessions: int
) -> None:
    """Asked over all replicas, the placement answers as it does over the few that it is given."""
    dice = random.Random(seed)
    where = fleet(6, max_sessions=max_sessions)
    models = [kind(spec) for spec in (HEAVY, LIGHT, GROWING)]
    live: list[Session] = []
    answers: list[int | None] = []
    for number in range(250):
        model = dice.choice(models)
        for may_give in (False, True):
            without = set(dice.sample(range(6), dice.randrange(3)))
            facts = [where._facts(place, may_give) for place in range(6) if place not in without]
            name = least_loaded(model.declared, facts)
            found = where._ask(model, may_give, without)
            assert found == (None if name is None else int(name[1:]))
            answers.append(found)
        session = dice.choice(live) if live else None
        if session is None or dice.random() < 0.5:
            new = begun(where, f"s{number}", model)
            live += [] if new is None else [new]
        elif dice.random() < 0.6:
            where.go_on(session, number)
            session.held += 1
            assert session.home is not None
            session.home.end(session, number)
        else:
            assert session.home is not None
            session.home.close(session, number)
            live.remove(session)
    assert len(set(answers)) > 5
    if max_sessions == 6:
        assert None in answers


def test_begin_when_no_replica_has_room_as_it_is_then_one_gives_something_up() -> None:
    """First where nobody has to be parked; then where somebody can be; then nowhere."""
    where = fleet(2)
    model = kind(HEAVY)
    sessions = [begun(where, f"s{number}", model) for number in range(6)]
    assert None not in sessions
    assert where.tally.parked == 0
    assert [len(one.sessions) for one in where.replicas] == [3, 3]
    assert begun(where, "s6", model) is not None
    assert where.tally.parked + where.tally.released > 0
    more = [begun(where, f"t{number}", model) for number in range(40)]
    assert None in more
    assert where.tally.lost == where.tally.evicted == 0


def test_return_when_bytes_have_no_room_at_home_then_goes_on_elsewhere() -> None:
    """At a step boundary a session moves, whole, to where there is room; its wait is counted."""
    where = fleet(2)
    model = kind(HEAVY)
    home = where.replicas[0]
    others = [Session(f"s{number}", model, []) for number in range(4)]
    for session in others:
        assert home.begin(session, 0)
        session.held = 1
        home.end(session, 0)
    away = next(one for one in others if one.shape.away)
    for session in others:
        if session is not away:
            where.go_on(session, 0)
    ready_us = where.go_on(away, 1_000)
    assert away.home is where.replicas[1]
    assert away.in_use
    assert away.shape.away == ()
    assert where.tally.moves == 1
    assert where.tally.moved["network"] > 800_000_000
    assert ready_us > 1_000 + 800_000_000 * 1_000_000 // Bandwidths().network
    assert away.session_id not in home.sessions


def test_begin_when_room_is_in_pieces_then_small_sessions_move_for_it() -> None:
    """Two replicas with half of the room each: what is small moves, and the large one begins."""
    budgets = {DEVICE: 1_400_000_000}
    where = fleet(2, budgets, parking=False)
    small, large = kind(LIGHT, parking=False), kind(HEAVY, parking=False)
    for number in range(14):
        assert begun(where, f"s{number}", small) is not None
    for one in where.replicas:
        one.close(next(iter(one.sessions.values())), 0)
    assert [len(one.sessions) for one in where.replicas] == [6, 6]
    assert begun(where, "large", large) is not None
    assert where.tally.moves == 2
    assert sorted(len(one.sessions) for one in where.replicas) == [5, 8]


def test_drain_when_a_replica_is_emptied_then_nothing_begins_there_until_the_next() -> None:
    """Idle sessions leave at once; new ones go elsewhere; the one before takes sessions again."""
    where = fleet(3)
    model = kind(LIGHT)
    for number in range(9):
        assert begun(where, f"s{number}", model) is not None
    where.drain(0, 5)
    assert len(where.replicas[0].sessions) == 0
    assert where.tally.moves == 3
    for number in range(6):
        assert begun(where, f"t{number}", model) is not None
    assert len(where.replicas[0].sessions) == 0
    where.drain(1, 6)
    assert begun(where, "u", model) is not None
    assert len(where.replicas[0].sessions) > 0
    assert len(where.replicas[1].sessions) == 0


def test_count_when_sessions_begin_then_go_where_the_fewest_are() -> None:
    """Without budgets there is nothing else to go by, and nobody is refused."""
    tally = Tally()
    replicas = [
        CountingReplica(
            f"r{number}", DEVICES, BUDGETS, Links(Bandwidths(), tally.moved), tally, max_sessions=2
        )
        for number in range(3)
    ]
    where = Fleet(replicas, tally)
    model = kind(HEAVY, parking=False)
    for number in range(9):
        assert begun(where, f"s{number}", model) is not None
    assert [len(one.sessions) for one in replicas] == [2, 2, 2]
    assert tally.evicted == 3


def test_fewest_sessions_when_two_are_alike_then_the_first_by_name() -> None:
    """Ties are broken by name, and no replicas are no answer."""
    facts: Sequence[ReplicaFacts] = [
        ReplicaFacts(name, {}, {}, count, 9) for name, count in (("b", 1), ("a", 1), ("c", 2))
    ]
    assert fewest_sessions({}, facts) == "a"
    assert fewest_sessions({}, ()) is None
