"""The planner's order of release, one sentence of the design at a time."""

from __future__ import annotations

import pickle

from statekit.pressure.plan import Decision, Facts, Plan, Policy, SessionFacts, ValueFacts
from statekit.pressure.planner import plan_release
from tests.pressure.plan_checker import check

GPU = "cuda:0"


def value(name: str, nbytes: int, device: str = GPU, **more: object) -> ValueFacts:
    return ValueFacts(name, {device: nbytes}, **more)  # type: ignore[arg-type]


def session(name: str, last_used: int, *values: ValueFacts, **more: bool) -> SessionFacts:
    return SessionFacts(name, last_used, values=values, **more)


def facts(budgets: dict[str, int], *sessions: SessionFacts) -> Facts:
    """Facts whose use is exactly what the sessions hold."""
    used: dict[str, int] = {}
    for held in (value.nbytes for session in sessions for value in session.values):
        for device, nbytes in held.items():
            used[device] = used.get(device, 0) + nbytes
    return Facts(budgets, used, sessions)


def told(plan: Plan) -> list[tuple[object, ...]]:
    """Decisions as (action, session, value) and the tier where there is one."""
    return [
        (d.action, d.session_id, *((d.value,) if d.value else ()), *((d.tier,) if d.tier else ()))
        for d in plan.decisions
    ]


def planned(budgets: dict[str, int], *sessions: SessionFacts) -> list[tuple[object, ...]]:
    """The decisions, after a check of the rules that all of them keep."""
    known = facts(budgets, *sessions)
    plan = plan_release(known)
    check(known, plan)
    return told(plan)


def test_plan_when_nothing_is_over_then_empty() -> None:
    """Within the budgets nothing is decided, whatever could be given up."""
    held = value("a", 10, rebuildable=True, tiers=("host",))
    assert planned({GPU: 10, "cpu": 0}, session("s", 1, held, may_be_lost=True)) == []


def test_release_when_several_are_rebuildable_then_cheapest_per_byte_first() -> None:
    """Cost is compared per byte that helps, and the plan stops where nothing is over any more."""
    dear = value("dear", 10, rebuildable=True, cost=100)
    cheap = value("cheap", 40, rebuildable=True, cost=120)
    cheaper = value("cheaper", 20, rebuildable=True, cost=40)
    sessions = (session("s1", 1, dear, cheap), session("s2", 2, cheaper))
    assert planned({GPU: 50}, *sessions) == [("release", "s2", "cheaper")]
    assert planned({GPU: 30}, *sessions) == [
        ("release", "s2", "cheaper"),
        ("release", "s1", "cheap"),
    ]


def test_release_when_only_some_bytes_help_then_price_counts_those() -> None:
    """Bytes on a device within its budget do not make a rebuild look cheaper."""
    mixed = ValueFacts("mixed", {GPU: 1, "cpu": 99}, rebuildable=True, cost=10)
    plain = value("plain", 5, rebuildable=True, cost=10)
    assert planned({GPU: 5}, session("s", 1, mixed, plain)) == [("release", "s", "plain")]


def test_release_when_price_is_the_same_then_least_recently_used_first() -> None:
    """A tie goes to the session that was used longest ago, then to its id."""
    held = value("a", 10, rebuildable=True)
    sessions = (session("s3", 5, held), session("s2", 4, held), session("s1", 5, held))
    assert planned({GPU: 10}, *sessions) == [("release", "s2", "a"), ("release", "s1", "a")]


def test_release_when_values_form_a_chain_then_no_dependant_is_stranded() -> None:
    """Of a chain, a value is released only while its source stays; never source and dependant."""
    a = value("a", 10)
    b = value("b", 10, rebuildable=True, sources=("a",), cost=2)
    c = value("c", 10, rebuildable=True, sources=("b",), cost=1)
    assert planned({GPU: 0}, session("s", 1, a, b, c)) == [("release", "s", "c")]
    cheap_b = value("b", 10, rebuildable=True, sources=("a",), cost=0)
    assert planned({GPU: 0}, session("s", 1, a, cheap_b, c)) == [("release", "s", "b")]


def test_release_when_source_is_shared_then_it_stays_for_all() -> None:
    """Two values of one source may both go; the source, rebuildable and parkable itself, stays."""
    source = value("source", 50, rebuildable=True, cost=500, tiers=("host", "disk"))
    one = value("one", 10, rebuildable=True, sources=("source",))
    two = value("two", 10, rebuildable=True, sources=("source",))
    assert planned({GPU: 0}, session("s", 1, source, one, two)) == [
        ("release", "s", "one"),
        ("release", "s", "two"),
    ]


def test_release_when_sources_form_a_cycle_then_one_stays() -> None:
    """Values that name each other, or themselves, cannot all go."""
    a = value("a", 10, rebuildable=True, sources=("b",), cost=1)
    b = value("b", 10, rebuildable=True, sources=("a",), cost=2)
    alone = value("alone", 10, rebuildable=True, sources=("alone",))
    assert planned({GPU: 0}, session("s", 1, a, b, alone)) == [("release", "s", "a")]


def test_release_when_source_is_away_then_value_stays() -> None:
    """A source that is parked, released or unknown rebuilds nothing."""
    parked = ValueFacts("parked", {"cpu": 9}, parked="host")
    released = ValueFacts("gone", rebuildable=True, released=True)
    held = [
        value(name, 5, rebuildable=True, sources=(source,))
        for name, source in (("x", "parked"), ("y", "gone"), ("z", "nowhere"))
    ]
    assert planned({GPU: 0}, session("s", 1, parked, released, *held)) == []


def test_park_when_source_of_something_released_then_stays() -> None:
    """What an earlier plan released can still be rebuilt: its source is not parked."""
    released = ValueFacts("a", sources=("b",), rebuildable=True, released=True)
    source = value("b", 10, tiers=("host",))
    assert planned({GPU: 0}, session("s", 1, released, source)) == []


def test_park_when_over_then_least_recently_used_session_first() -> None:
    """Sessions are parked in the order of last use, and only as many as it takes."""
    held = value("a", 10, tiers=("host",))
    sessions = [session(f"s{n}", n, held) for n in (3, 1, 2)]
    assert planned({GPU: 15}, *sessions) == [
        ("park", "s1", "a", "host"),
        ("park", "s2", "a", "host"),
    ]


def test_park_when_host_has_no_room_then_disk_where_allowed() -> None:
    """Parking never pushes host memory over its budget; a value goes to the next tier it allows."""
    both = value("both", 10, tiers=("host", "disk"))
    host_only = value("host_only", 10, tiers=("host",))
    small = value("small", 4, tiers=("host",))
    assert planned({GPU: 0, "cpu": 5}, session("s", 1, both, host_only, small)) == [
        ("park", "s", "both", "disk"),
        ("park", "s", "small", "host"),
    ]
    assert planned({GPU: 0, "cpu": 5, "disk": 9}, session("s", 1, both)) == []


def test_park_when_host_is_over_then_parked_values_go_on_to_disk() -> None:
    """What is parked in host memory is moved to disk when host memory is over, and only then."""
    parked = ValueFacts("a", {"cpu": 10}, tiers=("host", "disk"), parked="host")
    assert planned({"cpu": 5}, session("s", 1, parked)) == [("park", "s", "a", "disk")]
    assert planned({GPU: 1, "cpu": 10}, session("s", 1, parked, value("b", 2))) == []


def test_park_when_a_later_one_makes_room_then_earlier_ones_are_tried_again() -> None:
    """A value that found no room is parked after all where moving another to disk makes some."""
    blocked = value("a", 5, tiers=("host",))
    to_disk = value("b", 10, "cpu", tiers=("disk",))
    for may_be_lost in (False, True):  # a session is lost only after that
        first = session("s1", 1, blocked, may_be_lost=may_be_lost)
        assert planned({GPU: 0, "cpu": 9}, first, session("s2", 2, to_disk)) == [
            ("park", "s2", "b", "disk"),
            ("park", "s1", "a", "host"),
        ]


def test_park_when_only_host_is_over_then_device_values_stay() -> None:
    """Nothing is given up that does not help the device that is over."""
    on_gpu = value("a", 10, rebuildable=True, tiers=("host", "disk"))
    assert planned({GPU: 10, "cpu": 5}, session("s", 1, on_gpu, value("b", 6, "cpu"))) == []


def test_evict_when_schema_allows_no_loss_then_stays_over() -> None:
    """Sessions that may not be lost stay, and the plan says by how much the device stays over."""
    known = facts({GPU: 4}, session("s", 1, value("a", 10)))
    assert plan_release(known) == Plan((), {GPU: 6})


def test_evict_when_nothing_else_helps_then_least_recently_used_first() -> None:
    """Only then sessions go, oldest first, those that may be lost and hold something that helps."""
    sessions = (
        session("newest", 9, value("a", 10), may_be_lost=True),
        session("kept", 1, value("a", 10)),
        session("elsewhere", 2, value("a", 10, "cuda:1"), may_be_lost=True),
        session("oldest", 3, value("a", 10), may_be_lost=True),
    )
    assert planned({GPU: 25}, *sessions) == [("evict", "oldest")]
    assert planned({GPU: 15}, *sessions) == [("evict", "oldest"), ("evict", "newest")]


def test_evict_when_session_was_to_be_parked_then_it_is_not_parked_first() -> None:
    """No copy is made of what is lost a moment later, and the eviction frees the original bytes."""
    mixed = (value("a", 10, tiers=("host",)), value("b", 10))
    known = facts({GPU: 5, "cpu": 100}, session("s", 1, *mixed, may_be_lost=True))
    plan = plan_release(known)
    check(known, plan)
    assert told(plan) == [("evict", "s")]
    assert plan.decisions[0].frees[GPU] == 20


def test_evict_when_it_leaves_room_then_next_session_is_parked_instead() -> None:
    """The room that one lost session leaves in host memory saves the next."""
    first = session("s1", 1, value("a", 10), value("h", 10, "cpu"), may_be_lost=True)
    second = session("s2", 2, value("a", 10, tiers=("host",)), may_be_lost=True)
    assert planned({GPU: 0, "cpu": 10}, first, second) == [
        ("evict", "s1"),
        ("park", "s2", "a", "host"),
    ]


def test_evict_when_it_leaves_room_then_sessions_that_stay_are_parked_after_all() -> None:
    """The last eviction's room is used too, for a session that may not be lost."""
    lost = session("s1", 1, value("a", 10), value("h", 10, "cpu"), may_be_lost=True)
    kept = session("s2", 2, value("a", 10, tiers=("host",)))
    assert planned({GPU: 0, "cpu": 10}, lost, kept) == [
        ("evict", "s1"),
        ("park", "s2", "a", "host"),
    ]


def test_evict_when_its_parking_made_room_then_that_stays_in_the_plan() -> None:
    """What another session was parked into is still made first."""
    lost = session(
        "s1", 1, value("y", 10, "cpu", tiers=("disk",)), value("x", 10), may_be_lost=True
    )
    kept = session("s2", 2, value("a", 5, tiers=("host",)))
    assert planned({GPU: 0, "cpu": 9}, lost, kept) == [
        ("park", "s1", "y", "disk"),
        ("park", "s2", "a", "host"),
        ("evict", "s1"),
    ]


def test_plan_when_session_is_leased_then_untouched() -> None:
    """A leased session loses nothing, by any means."""
    held = value("a", 10, rebuildable=True, tiers=("host", "disk"))
    known = facts({GPU: 0}, session("s", 1, held, leased=True, may_be_lost=True))
    assert plan_release(known) == Plan((), {GPU: 10})


def test_reason_when_read_then_figures_and_cause() -> None:
    """Each reason names the device, by how much it is over, and why this one."""
    known = facts(
        {GPU: 11, "cpu": 20},
        session("s1", 1, value("a", 20, rebuildable=True, sources=("b",), cost=5), value("b", 1)),
        session("s2", 2, value("a", 20, rebuildable=True, cost=10)),
        session("s3", 3, value("a", 20, tiers=("host",))),
        session("s4", 4, value("a", 20), may_be_lost=True),
    )
    assert [decision.reason for decision in plan_release(known).decisions] == [
        "cuda:0 is 70 bytes over its budget; can be rebuilt from b at 0.25 a byte",
        "cuda:0 is 50 bytes over its budget; can be rebuilt from an input that is kept "
        "at 0.5 a byte",
        "cuda:0 is 30 bytes over its budget; the session is the least recently used one "
        "with a value to park",
        "cuda:0 is 10 bytes over its budget; nothing is left to release or park, and the "
        "schema lets the session be lost",
    ]


def test_plan_when_sent_to_another_process_then_equal() -> None:
    """Facts and plans survive pickling, so that one rank may decide for all."""
    known = facts({GPU: 5}, session("s", 1, value("a", 10, tiers=("disk",))))
    assert pickle.loads(pickle.dumps(known)) == known
    assert pickle.loads(pickle.dumps(plan_release(known))) == plan_release(known)


def test_plan_when_made_then_facts_are_unchanged() -> None:
    """The planner keeps its own books: the facts that it was given stay as they were."""
    known = facts({GPU: 0}, session("s", 1, value("a", 10, tiers=("host",)), may_be_lost=True))
    before = pickle.dumps(known)
    plan_release(known)
    assert pickle.dumps(known) == before


def test_policy_when_replaced_then_any_callable_over_facts_will_do() -> None:
    """A policy is a call from facts to a plan: another one needs no class of ours."""

    def largest_session_first(facts: Facts, /) -> Plan:
        largest = max(facts.sessions, key=lambda s: sum(v.nbytes[GPU] for v in s.values))
        frees = {GPU: sum(v.nbytes[GPU] for v in largest.values)}
        return Plan((Decision("evict", largest.session_id, None, frees, {}),))

    known = facts(
        {GPU: 10},
        session("small", 1, value("a", 10), may_be_lost=True),
        session("large", 2, value("a", 20), may_be_lost=True),
    )
    policies: tuple[Policy, ...] = (plan_release, largest_session_first)
    assert [told(policy(known))[-1] for policy in policies] == [("evict", "large")] * 2
