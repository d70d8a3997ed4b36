"""A naive checker of plans: carries decisions out one by one on plain dicts, and looks for more.

Owns what P1 to P5 mean, written anew without the planner's books, and what every decision that a
state allows is. Slow on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from statekit.pressure.plan import Decision, Facts, Plan, SessionFacts, ValueFacts

__all__ = ["allowed", "carry_out", "check", "over"]

DEVICE_OF = {"host": "cpu", "disk": "disk"}


def over(facts: Facts) -> dict[str, int]:
    """The devices over budget, and by how much."""
    excess = {device: facts.used.get(device, 0) - n for device, n in facts.budgets.items()}
    return {device: n for device, n in excess.items() if n > 0}


def is_resident(value: ValueFacts) -> bool:
    return not value.released and value.parked is None


def objections(facts: Facts, decision: Decision) -> Iterator[str]:
    """Every one of P1 to P5 that a decision breaks in this state."""
    session = next(s for s in facts.sessions if s.session_id == decision.session_id)
    values = {value.name: value for value in session.values}
    if session.leased:
        yield "P1: the session is leased"
    helped = {device: n for device, n in over(facts).items() if decision.frees.get(device)}
    if not helped:
        yield "P2: helps no device that is over"
    if decision.helps != helped:
        yield "P2: the figures are not those of this point"
    needed = {source for v in session.values if v.released for source in v.sources}
    if decision.action != "evict" and decision.value in needed:
        yield "P3: the value is a source of something released"
    if decision.action == "evict":
        if not session.may_be_lost:
            yield "P5: the session may not be lost"
        total: dict[str, int] = {}
        for value in session.values:
            for device, n in value.nbytes.items():
                total[device] = total.get(device, 0) + n
        if {d: n for d, n in total.items() if n} != {d: n for d, n in decision.frees.items() if n}:
            yield "the bytes freed are not those of the session"
        return
    assert decision.value is not None
    value = values[decision.value]
    if dict(decision.frees) != dict(value.nbytes):
        yield "the bytes freed are not those of the value"
    if decision.action == "release":
        if not value.rebuildable or not is_resident(value):
            yield "P3: nothing to release, or nothing to rebuild it from"
        if any(s == value.name or s not in values for s in value.sources) or not all(
            is_resident(values[source]) for source in value.sources if source in values
        ):
            yield "P3: a source is not resident"
    if decision.action == "park":
        if decision.tier not in value.tiers or value.released or value.parked == decision.tier:
            yield "P4: this tier is not for this value"
        elif decision.tier == "host" and (value.parked or "cpu" in value.nbytes):
            yield "P4: in host memory already, or below it"
        else:
            device = DEVICE_OF[decision.tier or ""]
            then = facts.used.get(device, 0) + sum(value.nbytes.values())
            if then > facts.budgets.get(device, then):
                yield "P4: the tier has no room"


def carry_out(facts: Facts, decision: Decision) -> Facts:
    """The facts after one decision."""
    used = dict(facts.used)
    for device, n in decision.frees.items():
        used[device] = used.get(device, 0) - n
    total = sum(decision.frees.values())
    if decision.tier is not None:
        device = DEVICE_OF[decision.tier]
        used[device] = used.get(device, 0) + total
    sessions = []
    for session in facts.sessions:
        if session.session_id != decision.session_id:
            sessions.append(session)
        elif decision.action != "evict":
            changed = tuple(
                _after(value, decision, total) if value.name == decision.value else value
                for value in session.values
            )
            sessions.append(attrs.evolve(session, values=changed))
    return Facts(facts.budgets, used, tuple(sessions))


def _after(value: ValueFacts, decision: Decision, total: int) -> ValueFacts:
    if decision.action == "release":
        return attrs.evolve(value, released=True, nbytes={})
    assert decision.tier is not None
    nbytes = {DEVICE_OF[decision.tier]: total}
    return attrs.evolve(value, parked=decision.tier, nbytes=nbytes)


def allowed(facts: Facts) -> list[Decision]:
    """Every decision that P1 to P5 allow in this state."""
    return [d for d in _imaginable(facts) if not list(objections(facts, d))]


def _imaginable(facts: Facts) -> Iterator[Decision]:
    def made(
        session: SessionFacts, action: str, nbytes: Mapping[str, int], **more: object
    ) -> Decision:
        helps = {d: n for d, n in over(facts).items() if nbytes.get(d)}
        name = more.pop("value", None)
        return Decision(action, session.session_id, name, nbytes, helps, **more)  # type: ignore[arg-type]

    for session in facts.sessions:
        total: dict[str, int] = {}
        for value in session.values:
            yield made(session, "release", value.nbytes, value=value.name)
            for tier in ("host", "disk"):
                yield made(session, "park", value.nbytes, value=value.name, tier=tier)
            for device, n in value.nbytes.items():
                total[device] = total.get(device, 0) + n
        yield made(session, "evict", total)


def check(facts: Facts, plan: Plan) -> Facts:
    """Assert that each decision keeps P1 to P5 where it stands; the facts after all of them."""
    for index, decision in enumerate(plan.decisions):
        broken = list(objections(facts, decision))
        assert not broken, f"decision {index}, {decision.action} {decision.value}: {broken}"
        facts = carry_out(facts, decision)
    assert over(facts) == dict(plan.still_over)
    return facts
