"""Conditions: what keys of one mapping mean for each other, in the words of JSON Schema.

Owns which keys go together: by bucket and kind of object, by the type, and where exactly one of
two must be said. A key whose value is null is not said, as in the loader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from statekit_codegen import json_schema_patterns as patterns
from statekit_codegen.check_rings import RING_FIELDS
from statekit_codegen.check_values import HOLDERS, KINDS, NEEDED, NOT_IN_NUMPY

__all__ = ["FAMILY", "RESET", "RING", "SHARDING", "TOLERANCE", "VALUE"]

Definition = dict[str, Any]

_NULL: Definition = {"type": "null"}
_SAID: Definition = {"not": _NULL}


_RING = ("axis", "bound", "growth", "nbytes", "sink", "unbounded")
_ABOVE_0: Definition = {"type": "number", "exclusiveMinimum": 0}


def _given(*keys: str) -> Definition:
    """Every one of `keys` is there and says something."""
    return {"properties": dict.fromkeys(keys, _SAID), "required": list(keys)}


def _having(**forms: Definition) -> Definition:
    """Every key of `forms` is there and has its form."""
    return {"properties": forms, "required": list(forms)}


def _silent(*keys: str) -> Definition:
    """None of `keys` says anything."""
    return {"properties": dict.fromkeys(keys, _NULL)}


def _if(condition: Definition, then: Definition) -> Definition:
    return {"if": condition, "then": then}


def _one_of(*keys: str) -> Definition:
    return {"oneOf": [_given(key) for key in keys]}


def _matching(pattern: str) -> Definition:
    return {"type": "string", "pattern": pattern}


def _type_of(pattern: str, *, absent: bool = False) -> Definition:
    """The one type of the value, under either key, matches `pattern`, or does not."""
    form: Definition = _matching(pattern)
    if absent:
        form = {"not": form}
    return {"properties": {"type": {"anyOf": [_NULL, form]}, "item": {"anyOf": [_NULL, form]}}}


def _by_holder() -> Iterator[Definition]:
    """Which keys a carried value has, and which each kind of object."""
    carried = _having(bucket={"const": "attrs"})
    yield _if(carried, _fields_of("attrs"))
    acted_on = _having(bucket={"const": "StateObject"})
    yield _if(acted_on, _given("object"))
    for kind in KINDS:
        this = _having(bucket={"const": "StateObject"}, object={"const": kind})
        yield _if(this, _fields_of(kind))
    for kind, fields in RING_FIELDS.items():
        this = _having(bucket={"const": "StateObject"}, object={"const": kind})
        ring = _silent(*(field for field in _RING if field not in fields))
        if kind == "WindowedKV":
            window = _given("bound", "axis")
            ring = {**window, "properties": {**window["properties"], **ring["properties"]}}
        yield _if(this, {"properties": {"ring": ring}})
    has_families = _having(family={"type": "array", "minItems": 1})
    yield {
        "if": has_families,
        "then": _given("key"),
        "else": {"properties": {"key": {"not": _matching(r"[{}]")}}},
    }
    yield _if({"allOf": [carried, {"not": has_families}]}, _silent("key"))


def _fields_of(holder: str) -> Definition:
    """The keys that a holder has no use for are not written, those that it needs are given."""
    needed = _given(*NEEDED[holder])
    barred = {field: False for field, holders in HOLDERS.items() if holder not in holders}
    return {**needed, "properties": {**needed["properties"], **barred}}


def _by_type() -> Iterator[Definition]:
    """What agrees with the type, as far as its text shows it."""
    for barred, names in _DATA.items():
        others = [name for name in _FORMS if name not in barred]
        default = {"properties": {"default": {"type": others}}}
        yield _if(_carried_without(names), default)
    yield _if(_carried_without(("None", "Optional")), _given("default"))
    for name in ("int", "bool", "float", "str"):
        of_this = _having(type=_matching(patterns.only([name])))
        yield _if(_having(coerce={"const": name}), of_this)
    acted_on = _having(bucket={"const": "StateObject"})
    yield _if(acted_on, _type_of(patterns.OPTIONAL_TYPE, absent=True))
    memory = _type_of(r"Tensor|ndarray|bytes")
    for size in ("dtype", "shape", "elements"):
        yield _if(_given(size), memory)
    joins = _having(item=_matching(f"{patterns.only([_TENSOR])}|{patterns.only([_ARRAY])}"))
    yield _if(_IN_FRAMES, joins)
    yield _if(_having(view={"type": "object"}), joins)
    yield _if(_given("tolerance"), _type_of(r"Tensor|ndarray|float"))
    odd = _having(dtype={"enum": list(NOT_IN_NUMPY)})
    yield _if(odd, _type_of("ndarray", absent=True))


_IN_FRAMES = {
    "allOf": [
        _having(ring=_having(axis={"type": "integer"})),
        {"not": _having(object={"const": "WindowedKV"})},
    ]
}
"""A buffer whose bound counts parts of its items."""

_TENSOR, _ARRAY = "torch.Tensor", "np.ndarray"
_FORMS = ("array", "boolean", "integer", "null", "number", "object", "string")
_DATA = {  # forms of a default to the types that have such values; 0.0 is whole in JSON
    ("integer", "number"): ("int", "float"),
    ("number",): ("float",),
    ("string",): ("str",),
    ("boolean",): ("bool",),
    ("array",): ("list",),
    ("object",): ("dict",),
}


def _carried_without(names: Collection[str]) -> Definition:
    """A carried value whose type mentions none of `names`."""
    other = {"type": "string", "not": _matching(_mentions(names))}
    return _having(bucket={"const": "attrs"}, type=other)


def _mentions(names: Collection[str]) -> str:
    return rf"(?:^|[^A-Za-z0-9_])(?:{'|'.join(names)})(?:$|[^A-Za-z0-9_])"


FAMILY = [_one_of("members", "count")]
RESET = [_one_of("clears", "keeps")]
RING = [
    _one_of("bound", "nbytes", "unbounded"),
    _if(_given("unbounded"), _silent("axis", "sink")),
    _if(_given("bound"), _silent("growth")),
    _if(_given("nbytes"), _silent("growth", "axis", "sink")),
]
TOLERANCE = [{"anyOf": [_having(atol=_ABOVE_0), _having(rtol=_ABOVE_0)]}]
SHARDING = [_one_of("over", "rank"), _if(_given("rank"), _silent("dim"))]
VALUE = [
    *_by_holder(),
    {"not": _given("shape", "elements")},
    _if(_IN_FRAMES, _silent("elements")),
    _if(_having(lifetime={"const": "request"}), _silent("pending")),
    *_by_type(),
]
