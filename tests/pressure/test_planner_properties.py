"""The planner on random facts, against a naive checker that carries its decisions out."""

from __future__ import annotations

import random

import attrs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from statekit.pressure.plan import Facts, SessionFacts, ValueFacts
from statekit.pressure.planner import plan_release
from tests.pressure.plan_checker import allowed, check, over

DEVICES = ("cuda:0", "cuda:1", "cpu", "disk")
NAMES = ("a", "b", "c", "d")
TIERS = st.sampled_from([(), ("host",), ("disk",), ("host", "disk"), ("disk", "host")])


@st.composite
def values(draw: st.DrawFn, name: str) -> ValueFacts:
    """One value; a source may be absent from its session, or the value itself."""
    place = draw(st.sampled_from(["resident", "resident", "resident", "released", "host", "disk"]))
    size = draw(st.integers(0, 9))
    where = draw(st.sampled_from([("cuda:0",), ("cuda:1",), ("cpu",), ("cuda:0", "cpu")]))
    nbytes = {"host": {"cpu": size}, "disk": {"disk": size}, "released": {}}.get(
        place, dict.fromkeys(where, size)
    )
    return ValueFacts(
        name,
        nbytes,
        sources=tuple(draw(st.sets(st.sampled_from((*NAMES, "absent")), max_size=2))),
        rebuildable=draw(st.booleans()),
        released=place == "released",
        cost=draw(st.integers(0, 5)),
        tiers=draw(TIERS),
        parked=place if place in ("host", "disk") else None,  # type: ignore[arg-type]
    )


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    """A few sessions, and budgets that some devices exceed."""
    sessions = []
    for index in range(draw(st.integers(0, 5))):
        names = NAMES[: draw(st.integers(0, 4))]
        sessions.append(
            SessionFacts(
                f"s{index}",
                draw(st.integers(0, 3)),
                leased=draw(st.integers(0, 4)) == 0,
                may_be_lost=draw(st.booleans()),
                values=tuple(draw(values(name)) for name in names),
            )
        )
    used = dict.fromkeys(DEVICES, draw(st.integers(0, 3)))  # what no session's value explains
    for session in sessions:
        for value in session.values:
            for device, nbytes in value.nbytes.items():
                used[device] += nbytes
    limited = draw(st.sets(st.sampled_from(DEVICES)))
    budgets = {device: max(used[device] + draw(st.integers(-25, 12)), 0) for device in limited}
    return Facts(budgets, used, tuple(sessions))


def session(name: str, *values: ValueFacts, last_used: int = 0) -> SessionFacts:
    return SessionFacts(name, last_used, may_be_lost=True, values=values)


@settings(max_examples=150, deadline=None)
@given(facts())
@example(
    # Parking b to disk makes the room in host memory that parking a needs.
    Facts(
        {"cuda:0": 0, "cpu": 9},
        {"cuda:0": 5, "cpu": 10},
        (
            session("s0", ValueFacts("a", {"cuda:0": 5}, tiers=("host",))),
            session("s1", ValueFacts("b", {"cpu": 10}, tiers=("disk",)), last_used=1),
        ),
    )
)
def test_plan_when_carried_out_then_every_decision_keeps_the_rules(facts: Facts) -> None:
    """P1 to P5 hold at every decision, and what is left over is what the plan says."""
    check(facts, plan_release(facts))


@settings(max_examples=150, deadline=None)
@given(facts())
def test_plan_when_still_over_then_no_decision_is_left(facts: Facts) -> None:
    """P6: afterwards the planner has nothing more to say, nor has anybody else."""
    after = check(facts, plan_release(facts))
    assert plan_release(after).decisions == ()
    assert allowed(after) == []
    assert (plan_release(facts).decisions == ()) or over(facts)


@settings(max_examples=50, deadline=None)
@given(facts(), st.randoms(use_true_random=False))
def test_plan_when_sessions_come_in_another_order_then_the_same(
    facts: Facts, order: random.Random
) -> None:
    """The plan depends on what is recorded, not on the order of the record."""
    sessions = list(facts.sessions)
    order.shuffle(sessions)
    budgets = dict(reversed(list(facts.budgets.items())))
    shuffled = attrs.evolve(facts, sessions=tuple(sessions), budgets=budgets)
    assert plan_release(shuffled) == plan_release(facts)
