"""Rings: what a buffer keeps, in the forms that its kind has, with bounds that an adapter can use.

Owns which keys of a ring belong to which kind of object, and the numbers in them. An adapter knows
its parameters and the schema's constants; a symbol is a number of a deployment, which it does not
know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from statekit.errors import ExpressionError
from statekit.expressions import Expression
from statekit_codegen.fault import Fault, closest, listed, within
from statekit_codegen.language import Dimension, Ring, Schema
from statekit_codegen.model import Path
from statekit_codegen.scalars import shown

__all__ = ["RING_FIELDS", "RING_FORMS", "numbers_of", "rings"]

RING_FORMS: Mapping[str, tuple[str, ...]] = {
    "LatentBuffer": ("bound", "unbounded"),
    "WindowedKV": ("bound",),
    "RetrievalStore": ("bound", "nbytes", "unbounded"),
}
"""Kind of object to the forms of its ring, of which it has exactly one."""

RING_FIELDS: Mapping[str, tuple[str, ...]] = {
    "LatentBuffer": ("bound", "axis", "unbounded", "growth"),
    "WindowedKV": ("bound", "axis", "sink"),
    "RetrievalStore": ("bound", "nbytes", "unbounded", "growth"),
}
"""Kind of object to the keys that its ring may have."""


def numbers_of(schema: Schema, variant: str | None = None) -> dict[str, int]:
    """What size expressions may name, as the schema has it or one of its variants."""
    defaults = {name: parameter.default for name, parameter in schema.parameters.items()}
    symbols = {**schema.symbols, **schema.variants.get(variant or "", {})}
    return {**symbols, **schema.constants, **defaults}


def rings(schema: Schema) -> Iterator[Fault]:
    """Rings that are not of a form of their kind, or whose numbers no adapter could use."""
    for name, value in schema.values.items():
        path = ("values", name, "ring")
        ring = value.ring
        if ring is None:
            continue
        kind = value.object or ""
        if kind in RING_FORMS:  # of another kind the ring itself is a fault already
            yield from _fields(path, kind, ring)
            yield from _form(path, kind, ring)
        if ring.bound is not None:
            yield from _bound(schema, (*path, "bound"), ring.bound, least=1)
        if ring.sink is not None and kind == "WindowedKV":
            yield from _sink(schema, (*path, "sink"), ring)
        if ring.nbytes is not None and kind == "RetrievalStore":
            yield from _nbytes(schema, (*path, "nbytes"), ring.nbytes)


def _fields(path: Path, kind: str, ring: Ring) -> Iterator[Fault]:
    for field in ("bound", "axis", "sink", "nbytes", "unbounded", "growth"):
        if getattr(ring, field) is not None and field not in RING_FIELDS[kind]:
            todo = f"remove it: the ring of a {kind} has {listed(RING_FIELDS[kind])}"
            yield Fault((*path, field), "FIELD_FIT", f"{field} in the ring of a {kind}", todo)


def _form(path: Path, kind: str, ring: Ring) -> Iterator[Fault]:
    """Exactly one form, and what goes with it."""
    forms = RING_FORMS[kind]
    given = [field for field in forms if getattr(ring, field) is not None]
    if kind == "WindowedKV":
        for field in ("bound", "axis"):
            if getattr(ring, field) is None:
                todo = "add it: the window is the newest so many frames along an axis"
                yield Fault(path, "FIELD_NEEDED", f"a WindowedKV without ring.{field}", todo)
    elif len(given) != 1:
        found = " and ".join(given) or f"neither {' nor '.join(forms)}"
        yield Fault(path, "CHOICE_ONE", found, f"say exactly one of the {_COUNTS[len(forms)]}")
    elif given == ["unbounded"] and ring.axis is not None and kind == "LatentBuffer":
        todo = "remove it: it counts a bound"
        yield Fault((*path, "axis"), "FIELD_FIT", "axis of an unbounded buffer", todo)
    elif given != ["unbounded"] and ring.growth is not None:
        todo = "remove it: a bounded buffer does not grow"
        yield Fault((*path, "growth"), "FIELD_FIT", f"growth beside {_A[given[0]]}", todo)


_COUNTS = {2: "two", 3: "three"}
_A = {"bound": "a bound", "nbytes": "a bound in bytes"}


def _bound(schema: Schema, path: Path, bound: Dimension, *, least: int) -> Iterator[Fault]:
    """A number, a constant or a parameter that is below `least`, or that is none of these."""
    if isinstance(bound, str) and re.fullmatch("[0-9]+", bound.strip()):
        todo = "write it without quotes"
        yield Fault(path, "RING_BOUND", f"the number {shown(bound)} as text", todo)
        return
    if isinstance(bound, str):
        known = [*schema.constants, *schema.parameters]
        if bound not in known:
            yield _unknown(schema, path, bound, "a number, a constant or a parameter")
            return
        number = numbers_of(schema)[bound]
    else:
        number = bound
    if number < least:
        found = f"{shown(bound)} is {number}" if isinstance(bound, str) else str(number)
        yield Fault(path, "RING_BOUND", found, f"keep at least {least}")


def _unknown(schema: Schema, path: Path, name: str, use: str) -> Fault:
    known = [*schema.constants, *schema.parameters]
    found = f"{shown(name)} is no constant and no parameter"
    if name in schema.symbols:
        found = f"{name} is a symbol, which no adapter knows when it runs"
    names = f": {listed(known)}" if known else ""
    return Fault(path, "RING_BOUND", found, f"{closest(name, known)}use {use}{names}")


def _sink(schema: Schema, path: Path, ring: Ring) -> Iterator[Fault]:
    faults = list(_bound(schema, path, ring.sink or 0, least=0))
    yield from faults
    bound, sink = (_number(schema, one) for one in (ring.bound, ring.sink))
    if not faults and bound is not None and sink is not None and bound > 0 and sink >= bound:
        found = f"a sink of {sink} in a bound of {bound}"
        yield Fault(path, "RING_BOUND", found, "keep it below the bound, which counts it too")


def _number(schema: Schema, dimension: Dimension | None) -> int | None:
    return numbers_of(schema).get(dimension) if isinstance(dimension, str) else dimension


def _nbytes(schema: Schema, path: Path, nbytes: Dimension) -> Iterator[Fault]:
    """A parameter, or an expression over constants whose value an adapter can be given."""
    try:
        expression = Expression.parse(nbytes)
    except ExpressionError as error:
        yield Fault(path, "EXPRESSION_GRAMMAR", within(nbytes, error.found), error.todo)
        return
    alone = expression.text in schema.parameters
    for name in sorted(expression.names):
        if name not in schema.constants and not alone:
            found = f"the parameter {name} in an expression, which nothing computes at run time"
            todo = "use the parameter alone, or numbers and constants"
            if name in schema.parameters:
                yield Fault(path, "RING_BOUND", found, todo)
            else:
                yield _unknown(schema, path, name, "numbers, constants or a parameter")
            return
    try:
        number = expression.evaluate(numbers_of(schema))
    except ExpressionError as error:
        found = f"{shown(nbytes)}: {error.found}"
        yield Fault(path, "RING_BOUND", found, error.todo)
        return
    if number < 1:
        found = f"{shown(nbytes)} is {number}" if isinstance(nbytes, str) else str(number)
        yield Fault(path, "RING_BOUND", found, "keep at least 1")
