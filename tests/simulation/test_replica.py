"""One simulated manager: its sums, what it tells the planner, and how long bytes are under way."""

from __future__ import annotations

import random

import pytest

from statekit.pressure.plan import Facts, Plan
from statekit.pressure.planner import plan_release
from statekit.simulation import relief
from statekit.simulation.kind import Kind
from statekit.simulation.links import LINKS, Bandwidths, Links
from statekit.simulation.picture import parked_label
from statekit.simulation.replica import Replica
from statekit.simulation.session import Session
from statekit.simulation.shape import TIERS, Away, TierSize
from statekit.simulation.tally import Tally
from tests.simulation.services import DEVICE, GROWING, HEAVY, LIGHT

DEVICES = (DEVICE, "cpu", "disk")
BUDGETS = {DEVICE: 4_000_000_000, "cpu": 3_000_000_000, "disk": 9_000_000_000}
GB = 1_000_000_000


def replica(budgets: dict[str, int] | None = None) -> Replica:
    """A replica with nothing in it."""
    tally = Tally()
    links = Links(Bandwidths(), tally.moved)
    return Replica("r0", DEVICES, BUDGETS if budgets is None else budgets, TIERS, links, tally)


def kind(spec: object = HEAVY) -> Kind:
    """One model on it."""
    return Kind(spec, DEVICES, DEVICE, TIERS)  # type: ignore[arg-type]


def begun(one: Replica, name: str, model: Kind, now_us: int = 0) -> Session:
    """A session after its first step, which nobody uses."""
    session = Session(name, model, [])
    assert one.begin(session, now_us)
    session.held = 1
    one.end(session, now_us)
    return session


@pytest.mark.parametrize("seed", range(4))
def test_sums_when_sessions_come_and_go_then_are_those_of_a_count(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept sums are those over all sessions; the planner decides as if it were told of all."""
    dice = random.Random(seed)
    one = replica()
    models = [kind(spec) for spec in (HEAVY, LIGHT, GROWING)]
    live: list[Session] = []
    asked = []

    def plan(facts: Facts) -> Plan:
        found = plan_release(facts)
        idle = [each for each in one.sessions.values() if not each.in_use]
        everybody = tuple(each.told() for each in idle)
        whole = Facts(facts.budgets, facts.used, everybody, facts.parking_takes)
        assert plan_release(whole) == found
        asked.append(len(everybody) - len(facts.sessions))
        return found

    monkeypatch.setattr(relief, "plan_release", plan)
    for number in range(400):
        what = dice.random()
        session = dice.choice(live) if live else None
        if session is None or what < 0.2:
            session = Session(f"s{number}", dice.choice(models), [])
            if one.begin(session, number):
                live.append(session)
        elif session.in_use:
            session.held += 1
            if what > 0.5 or not one.step_on(session, number):
                one.end(session, number)
        elif what < 0.3:
            one.close(session, number)
            live.remove(session)
        else:
            one.go_on(session, number)
        faces = [each.face.sums for each in live]
        assert one.sums == [sum(column) for column in zip(*faces, strict=True)] or not live
        assert set(one.sessions.values()) == set(live)
        assert list(one.sessions.values()) == sorted(live, key=lambda each: each.order)
        for device in DEVICES:
            given = {each for each in live if not each.in_use and device in each.face.touches}
            assert set(one._giving[device]) == given
    assert len(asked) > 50
    assert max(asked) > 0, "it was told of all of them each time"


def test_return_when_others_must_be_parked_first_then_waits_for_both() -> None:
    """Room is made first, and only then do the bytes come back, each at the link's bandwidth."""
    one = replica({DEVICE: 2 * GB, "cpu": 10 * GB})
    model = kind()
    sessions = [begun(one, f"s{number}", model) for number in range(4)]
    first = sessions[0]
    assert [away.tier for away in first.shape.away] == ["host"]
    wait_us = one.go_on(first, 100_000_000) - 100_000_000
    parked = TIERS["host"].parked(700_000_000)
    once_us = -(-parked * 1_000_000 // Bandwidths().host)
    assert wait_us in (once_us, 2 * once_us)
    assert list(one.tally.waits_us) == [wait_us]
    assert first.shape.away == ()


def test_over_when_growth_cannot_be_given_up_then_its_time_is_counted() -> None:
    """From the step that exceeds a budget until the session that did so has ended."""
    one = replica({DEVICE: 107_000_000})
    session = begun(one, "a", kind(LIGHT), 10)
    assert one.tally.over_us == 0
    one.go_on(session, 20)
    grown = kind(GROWING)
    other = Session("b", grown, [])
    assert not one.begin(other, 30)
    one.close(session, 40)
    one.budgets, one.limits = {DEVICE: 99}, (99, 1 << 62, 1 << 62)
    held = Session("c", kind(LIGHT), [])
    held.held = 1
    held.in_use = True
    one.enter(held, 50)
    one.close(held, 80)
    assert one.tally.over_us == 30


@pytest.mark.parametrize("spec", [HEAVY, LIGHT, GROWING], ids=lambda spec: spec.model)
def test_shape_when_units_are_away_then_no_byte_is_lost_or_counted_twice(spec: object) -> None:
    """What is resident and what is parked are together what was declared, and the tier's own."""
    model = kind(spec)
    picture = model.picture(3)
    whole = picture.whole
    numbers = tuple([n for n, unit in enumerate(model.units) if unit.tiers])
    away = Away(numbers, "host")
    shape = picture.shape((away,), frozenset())
    parked = shape.parked[0]
    freed = whole.held_nbytes - (shape.held_nbytes - parked)
    assert parked == TIERS["host"].parked(freed)
    assert shape.values[0].name == parked_label(model, away)
    assert picture.shape((away,), frozenset()) is shape
    assert model.picture(7) is picture


def test_picture_when_nothing_grows_then_is_one_for_all_steps_from_the_second() -> None:
    """States are computed once and shared by all sessions that are in them."""
    model = kind(GROWING)
    assert model.picture(2) is model.picture(900)
    assert model.picture(1) is not model.picture(2)
    first, steady = model.picture(1).whole, model.picture(2).whole
    assert steady.held_nbytes - first.held_nbytes == 7_000_000


def test_tier_when_a_unit_is_parked_then_takes_whole_chunks_and_a_head() -> None:
    """As many chunks as are begun, and the head of a file."""
    assert TierSize(256).parked(257) == 512
    assert TierSize(256).parked(512) == 512
    assert TierSize(1, 4096).parked(10) == 4106
    assert TierSize(256).takes_nbytes == 255
    assert TierSize(1, 4096).takes_nbytes == 4096


def test_link_when_two_transfers_are_asked_for_then_the_second_waits() -> None:
    """One after the other in each direction; the directions do not wait for each other."""
    moved = dict.fromkeys(LINKS, 0)
    links = Links(Bandwidths(host=1_000_000, disk=10, network=1), moved)
    assert links.take("to host", 5, 100) == 105
    assert links.take("to host", 5, 100) == 110
    assert links.take("from host", 5, 100) == 105
    assert links.take("to host", 5, 200) == 205
    assert links.take("to disk", 1, 0) == 100_000
    assert links.take("network", 1, 0) == 1_000_000
    assert moved == {"to host": 15, "from host": 5, "to disk": 1, "from disk": 0, "network": 1}
