"""Sizes: the numbers of a schema, and the expressions over them.

Owns that every expression parses, names known numbers, and has a positive value under the
schema's own and those of its variants; that axes, counts and dates are ones. Not here: rings
(`check_rings`).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping

from statekit.errors import ExpressionError
from statekit.expressions import FUNCTIONS, Expression
from statekit_codegen.check_rings import numbers_of
from statekit_codegen.fault import Fault, closest, listed, within
from statekit_codegen.language import Dimension, Elements, Schema
from statekit_codegen.model import Path
from statekit_codegen.scalars import shown

__all__ = ["axes", "counts", "dates", "expressions", "parameters"]

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def expressions(schema: Schema) -> Iterator[Fault]:
    """Expressions outside the grammar, over unknown numbers, or without a positive value."""
    numbers = numbers_of(schema)
    for path, source in _sources(schema):
        try:
            expression = Expression.parse(source)
        except ExpressionError as error:
            yield Fault(path, "EXPRESSION_GRAMMAR", within(source, error.found), error.todo)
            continue
        unknown = sorted(expression.names - numbers.keys())
        for name in unknown:
            todo = f"{closest(name, numbers)}known numbers: {listed(numbers)}"
            if name in FUNCTIONS:
                todo = f"write {name}(a, b)"
            yield Fault(path, "EXPRESSION_NAME", f"unknown number {name}", todo)
        if not unknown:
            faults = list(_value(path, expression, numbers, ""))
            for name in schema.variants if not faults else ():
                varied = numbers_of(schema, name)
                faults = faults or list(_value(path, expression, varied, f" in variant {name}"))
            yield from faults


def _value(
    path: Path, expression: Expression, numbers: Mapping[str, int], where: str
) -> Iterator[Fault]:
    used = ", ".join(f"{name} = {numbers[name]}" for name in sorted(expression.names))
    under = f"{shown(expression.text)} with {used}{where}" if used else shown(expression.text)
    try:
        number = expression.evaluate(numbers)
    except ExpressionError as error:
        yield Fault(path, "EXPRESSION_VALUE", f"{under}: {error.found}", error.todo)
        return
    if number < 1:
        found = f"{under} is {number}" if used else str(number)
        yield Fault(path, "EXPRESSION_VALUE", found, "a size is at least 1")


def _sources(schema: Schema) -> Iterator[tuple[Path, Dimension]]:
    """Every size expression of the schema but the numbers of rings."""
    for name, family in schema.families.items():
        if family.count is not None:
            yield ("families", name, "count"), family.count
    for name, value in schema.values.items():
        path: Path = ("values", name)
        for index, extent in enumerate(value.shape or ()):
            yield (*path, "shape", index), extent
        if isinstance(value.elements, Elements):
            yield (*path, "elements", "first"), value.elements.first
            yield (*path, "elements", "then"), value.elements.then
        elif value.elements is not None:
            yield (*path, "elements"), value.elements
        if value.ring is not None and value.ring.growth is not None:
            yield (*path, "ring", "growth", "items"), value.ring.growth.items
            yield (*path, "ring", "growth", "first"), value.ring.growth.first
        for index, extent in enumerate(value.index.shape if value.index is not None else ()):
            yield (*path, "index", "shape", index), extent
        if value.pending is not None and value.pending.elements is not None:
            yield (*path, "pending", "elements"), value.pending.elements


def parameters(schema: Schema) -> Iterator[Fault]:
    """Parameters whose default lies outside their own bounds."""
    for name, parameter in schema.parameters.items():
        path: Path = ("parameters", name)
        least, most, default = parameter.minimum, parameter.maximum, parameter.default
        if least is not None and most is not None and least > most:
            found = f"minimum {least} above maximum {most}"
            yield Fault((*path, "minimum"), "PARAMETER_BOUNDS", found, "swap them")
        elif least is not None and default < least:
            found = f"default {default} below minimum {least}"
            yield Fault((*path, "default"), "PARAMETER_BOUNDS", found, "change one of the two")
        elif most is not None and default > most:
            found = f"default {default} above maximum {most}"
            yield Fault((*path, "default"), "PARAMETER_BOUNDS", found, "change one of the two")


def axes(schema: Schema) -> Iterator[Fault]:
    """Axes that the items have not."""
    for name, value in schema.values.items():
        path: Path = ("values", name)
        named: list[tuple[Path, int | None]] = []
        if value.ring is not None:
            named.append(((*path, "ring", "axis"), value.ring.axis))
            in_frames = value.ring.axis is not None and value.object != "WindowedKV"
            if in_frames and value.elements is not None:
                found = "elements beside a bound in frames, which is a part of a shape"
                yield Fault((*path, "elements"), "FIELD_FIT", found, "give the shape of one item")
        if not isinstance(value.view, str):
            named.append(((*path, "view", "concat"), value.view.concat))
        for place, axis in named:
            if axis is None:
                continue
            if axis < 0:
                yield Fault(place, "AXIS_RANGE", f"axis {axis}", "count axes from 0")
            elif value.shape is not None and axis >= len(value.shape):
                found = f"axis {axis} of a shape with {len(value.shape)} dimensions"
                yield Fault(place, "AXIS_RANGE", found, "count axes from 0")


def counts(schema: Schema) -> Iterator[Fault]:
    """Numbers below the least that they can mean, and shardings of no form."""
    for name, value in schema.values.items():
        path: Path = ("values", name)
        least: list[tuple[Path, float | None, int]] = []
        if value.ring is not None and value.ring.growth is not None:
            every = value.ring.growth.every_steps
            least.append(((*path, "ring", "growth", "every_steps"), every, 1))
        if value.rebuild is not None:
            least.append(((*path, "rebuild", "cost_ms"), value.rebuild.cost_ms, 0))
        for index, measured in enumerate(value.measured):
            least.append(((*path, "measured", index, "nbytes"), measured.nbytes, 1))
        sharding = value.sharding
        if sharding is not None and not isinstance(sharding, str):
            least.append(((*path, "sharding", "rank"), sharding.rank, 0))
            least.append(((*path, "sharding", "dim"), sharding.dim, 0))
            if (sharding.over is None) == (sharding.rank is None):
                found = "neither over nor rank" if sharding.over is None else "over and rank"
                todo = "say exactly one of the two"
                yield Fault((*path, "sharding"), "CHOICE_ONE", found, todo)
            elif sharding.rank is not None and sharding.dim is not None:
                todo = "remove it: one rank holds all"
                yield Fault((*path, "sharding", "dim"), "FIELD_FIT", "dim beside rank", todo)
        for place, number, minimum in least:
            if number is not None and number < minimum:
                yield Fault(place, "NUMBER_MINIMUM", f"{number:g}", f"write at least {minimum}")


def dates(schema: Schema) -> Iterator[Fault]:
    """Dates that no calendar has."""
    for name, value in schema.values.items():
        for index, measured in enumerate(value.measured):
            if not _is_date(measured.date):
                path = ("values", name, "measured", index, "date")
                todo = 'write a day as "YYYY-MM-DD"'
                yield Fault(path, "DATE_FORM", f"{shown(measured.date)} is no date", todo)


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True
