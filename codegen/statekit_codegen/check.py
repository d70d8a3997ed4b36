"""Check: what a schema means holds together, so that a module can be generated from it.

Owns the list of rules and the order in which they look. Every rule that the generator relies on
is here; what is merely unwise is found by `statekit vet`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from statekit_codegen import check_keys, check_kinds, check_names, check_rings, check_sizes
from statekit_codegen.check_values import value_faults
from statekit_codegen.fault import Fault, closest
from statekit_codegen.language import Schema
from statekit_codegen.model import Loaded, Path
from statekit_codegen.rule import Rule
from statekit_codegen.scalars import shown

__all__ = ["CHECKS", "check"]


def _rule(id: str, purpose: str) -> Rule:
    return Rule(id, purpose, since="0.1.0", kind="check")


CHECKS = (
    _rule("NAME_FORM", "Every name has the form of its kind, in ASCII and not too long."),
    _rule("NAME_RESERVED", "No name is a word of Python, or one that generated code uses itself."),
    _rule("NAME_CLASH", "No two members of a generated class, and no two numbers, share a name."),
    _rule("FIELD_NEEDED", "Every value says what its kind cannot do without."),
    _rule("FIELD_FIT", "No value says what its kind has no use for."),
    _rule("CHOICE_ONE", "Where the language offers one form or another, exactly one is used."),
    _rule("TYPE_GRAMMAR", "Types are in the grammar of types."),
    _rule("TYPE_FIT", "A type fits the object that holds it."),
    _rule("DEFAULT_FIT", "A default is a value of the type, and empty where it is a container."),
    _rule("COERCE_FIT", "A value is converted to the very type that it has."),
    _rule("DTYPE_KNOWN", "An element type is one that torch, or numpy for its arrays, has."),
    _rule("DEVICE_KNOWN", "A device is `cpu`, `model`, `none`, or one of torch's."),
    _rule("EXPRESSION_GRAMMAR", "Size expressions are in the grammar of expressions."),
    _rule("EXPRESSION_NAME", "Size expressions name symbols, constants and parameters."),
    _rule("EXPRESSION_VALUE", "A size is a positive whole number under the schema's own numbers."),
    _rule(
        "RING_BOUND",
        "A ring is bounded by a number, a constant or a parameter, and longer than its sink.",
    ),
    _rule("AXIS_RANGE", "An axis is one that the items have, counted from 0."),
    _rule("PARAMETER_BOUNDS", "A parameter's default lies within its bounds."),
    _rule("NUMBER_MINIMUM", "No number is below the least that it can mean."),
    _rule("DATE_FORM", "Dates are days of the calendar, as YYYY-MM-DD."),
    _rule(
        "FAMILY_FIT",
        "Families fit their value: numbered ones come last, on an object of a numbered kind.",
    ),
    _rule("KEY_TEMPLATE", "A key names each family of its value once, in characters of keys."),
    _rule("KEY_CLASH", "No two members of a session share a key."),
    _rule("LIST_EMPTY", "What must have entries has some."),
    _rule("LIST_REPEATS", "A list that means a set has every entry once."),
    _rule("REFERENCE_UNKNOWN", "Families, resets and groups name what the schema describes."),
)


def check(loaded: Loaded) -> Iterator[Fault]:
    """Everything that is wrong with the meaning of a schema, rule by rule."""
    schema = loaded.schema
    yield from check_names.name_forms(schema)
    yield from check_names.name_clashes(schema)
    yield from check_names.number_clashes(schema)
    yield from value_faults(loaded)
    yield from check_kinds.kinds(schema)
    yield from check_kinds.variants(schema)
    yield from check_sizes.expressions(schema)
    yield from check_rings.rings(schema)
    yield from check_sizes.parameters(schema)
    yield from check_sizes.axes(schema)
    yield from check_sizes.counts(schema)
    yield from check_sizes.dates(schema)
    yield from _key_faults(schema)
    yield from _lists(schema)


def _key_faults(schema: Schema) -> Iterator[Fault]:
    faults = [
        *check_keys.families(schema),
        *check_keys.value_families(schema),
        *check_keys.keys(schema),
    ]
    yield from faults
    broken = {fault.path[:2] for fault in faults}
    usable = [
        name
        for name, value in schema.values.items()
        if ("values", name) not in broken
        and not any(("families", family) in broken for family in value.family)
    ]
    yield from check_keys.key_clashes(schema, usable)
    yield from check_keys.attribute_names(schema, usable)


def _lists(schema: Schema) -> Iterator[Fault]:
    """Lists that repeat an entry, and those of values that name an unknown one."""
    if not schema.values:
        yield Fault(("values",), "LIST_EMPTY", "no values", "describe at least one")
    yield from _repeats(("questions",), schema.questions)
    for name, value in schema.values.items():
        path: Path = ("values", name)
        yield from _repeats((*path, "family"), value.family)
        yield from _repeats((*path, "on_commit"), value.on_commit)
        yield from _repeats((*path, "questions"), value.questions)
        if value.decision is not None:
            yield from _repeats((*path, "decision", "operations"), value.decision.operations or ())
        if value.rebuild is not None:
            yield from _repeats((*path, "rebuild", "from"), value.rebuild.sources)
        if value.park is not None:
            yield from _repeats((*path, "park", "tiers"), value.park.tiers)
    for group, members in schema.atomic.items():
        yield from _references(schema, ("atomic", group), members)
    for name, reset in schema.resets.items():
        path = ("resets", name)
        if (reset.clears is None) == (reset.keeps is None):
            found = "neither clears nor keeps" if reset.clears is None else "clears and keeps"
            yield Fault(path, "CHOICE_ONE", found, "say exactly one of the two")
        if isinstance(reset.clears, list):
            yield from _references(schema, (*path, "clears"), reset.clears)
        yield from _references(schema, (*path, "keeps"), reset.keeps or ())


def _references(schema: Schema, path: Path, names: Collection[str]) -> Iterator[Fault]:
    yield from _repeats(path, names)
    for index, name in enumerate(names):
        if name not in schema.values:
            todo = f"{closest(name, schema.values)}name a value of this schema"
            yield Fault((*path, index), "REFERENCE_UNKNOWN", f"unknown value {shown(name)}", todo)


def _repeats(path: Path, entries: Collection[str]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if entry in seen:
            yield Fault((*path, index), "LIST_REPEATS", f"{shown(entry)} again", "say it once")
        seen.add(entry)
