"""Gain: what would make room for more sessions, as a number of sessions each.

Owns the changes that are tried, one at a time: putting sessions away while nobody uses them, a
smaller bound, no growth. Not here: whether a model stands the change; that is for its people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import attrs

from statekit.errors import ExpressionError, GenerateError
from statekit.expressions import MAX_VALUE, Expression
from statekit.spec import ModelSpec, Ring
from statekit_codegen.plan.crowd import Group, first_over, greatest, repeated
from statekit_codegen.plan.need import Need, Relief, need_of
from statekit_codegen.plan.question import Question
from statekit_codegen.session import chosen_numbers

__all__ = ["Change", "Gain", "Party", "gains", "groups_of"]

Change = Literal["park", "rebuild", "park and rebuild", "bound", "growth"]


@attrs.frozen
class Party:
    """Sessions of one model: its spec, the file of its schema, and how many of them there are."""

    spec: ModelSpec
    file: str
    parts: int = 1


@attrs.frozen
class Gain:
    """One change and what it gives.

    Attributes:
        change: what is done.
        model: the model that it is done to; empty where it is all of them.
        names: the values that it concerns; of a smaller bound the parameter, or the value.
        to: the bound that is tried.
        fits: how many sessions fit with it; None where nothing limits them then.
        more: how many more than without it; None likewise.
        full: the device that is full first then; empty where none is.
    """

    change: Change
    model: str
    names: tuple[str, ...]
    to: int | None
    fits: int | None
    more: int | None
    full: str


def groups_of(parties: tuple[Party, ...], asked: Question) -> tuple[Group, ...]:
    """The sessions of all parties, each with its need."""
    return tuple(Group(need_of(one.spec, one.file, asked), one.parts) for one in parties)


def gains(parties: tuple[Party, ...], asked: Question, fits: int) -> Iterator[Gain]:
    """What each change would give; the order is that of the changes above, model by model.

    Args:
        fits: how many times the parties fit as they are.
    """
    now = groups_of(parties, asked)
    size = sum(group.count for group in now)

    def gain(
        change: Change,
        model: str,
        names: tuple[str, ...],
        groups: tuple[Group, ...],
        relief: tuple[Relief, ...] = (),
        to: int | None = None,
    ) -> Gain:
        times = greatest(groups, asked.budgets, asked.active, relief)
        if times is None:
            return Gain(change, model, names, to, None, None, "")
        full = first_over(repeated(groups, times + 1), asked.budgets, asked.active, relief)
        return Gain(change, model, names, to, times * size, (times - fits) * size, full)

    whole = parties[0].spec.model if len(parties) == 1 else ""
    reliefs: tuple[tuple[Change, tuple[Relief, ...]], ...] = (
        ("park", ("park",)),
        ("rebuild", ("rebuild",)),
        ("park and rebuild", ("park", "rebuild")),
    )
    put_away = {change: _put_away(now, relief) for change, relief in reliefs}
    for change, relief in reliefs:
        adds = change != "park and rebuild" or all(put_away.values())  # to one of the two alone
        if put_away[change] and adds:
            yield gain(change, whole, put_away[change], now, relief)
    for index, party in enumerate(parties):
        for name, to, smaller in _smaller(party, asked):
            changed = (*now[:index], Group(smaller, party.parts), *now[index + 1 :])
            yield gain("bound", party.spec.model, (name,), changed, to=to)
        growing = tuple(v.name for v in now[index].need.values if v.grown_nbytes)
        if growing:
            still = Group(now[index].need.without_growth(), party.parts)
            changed = (*now[:index], still, *now[index + 1 :])
            yield gain("growth", party.spec.model, growing, changed)


def _put_away(groups: tuple[Group, ...], relief: tuple[Relief, ...]) -> tuple[str, ...]:
    """The values that sessions put away while they wait."""
    names = (one.name for group in groups for one in group.need.going(relief) if one.nbytes)
    return tuple(dict.fromkeys(names))


def _smaller(party: Party, asked: Question) -> Iterator[tuple[str, int, Need]]:
    """Every bound that can be one less: its name, the new number, and the need with it."""
    spec = party.spec
    numbers = spec.environment(chosen_numbers(spec, party.file, asked.numbers))
    budgets = {value.ring.nbytes for value in spec if value.ring is not None}
    for name, parameter in spec.parameters.items():
        if name in budgets:  # one byte less is no change that anybody makes
            continue
        to = numbers[name] - 1
        if to >= max(1, parameter.minimum or 1) and _usable(spec, {**numbers, name: to}):
            changed = attrs.evolve(asked, numbers={**asked.numbers, name: to})
            yield from _tried(name, to, spec, party.file, changed)
    for value in spec:
        ring = value.ring
        if ring is None or ring.bound is None or ring.bound in spec.parameters:
            continue
        try:
            to = Expression.parse(ring.bound).evaluate(numbers) - 1
        except ExpressionError:
            continue
        if to >= 1 and _above_sink(ring, to, numbers):
            less = attrs.evolve(value, ring=attrs.evolve(ring, bound=str(to)))
            values = tuple(less if one is value else one for one in spec)
            yield from _tried(value.name, to, attrs.evolve(spec, values=values), party.file, asked)


def _usable(spec: ModelSpec, numbers: Mapping[str, int]) -> bool:
    """Whether every window is longer than its sink under these numbers."""
    rings = (value.ring for value in spec if value.ring is not None)
    return all(
        _above_sink(ring, numbers.get(ring.bound or "", MAX_VALUE), numbers) for ring in rings
    )


def _above_sink(ring: Ring, bound: int, numbers: Mapping[str, int]) -> bool:
    return ring.sink is None or Expression.parse(ring.sink).evaluate(numbers) < bound


def _tried(
    name: str, to: int, spec: ModelSpec, file: str, asked: Question
) -> Iterator[tuple[str, int, Need]]:
    try:
        yield name, to, need_of(spec, file, asked)
    except GenerateError:
        return  # sizes that have no value with one less: no change that could be made
