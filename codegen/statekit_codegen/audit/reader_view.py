"""ReaderView: what the reader of a value gets from the adapter: its type, and what it starts as."""

from __future__ import annotations

from typing import Any

from statekit_codegen.language import Value
from statekit_codegen.reading.annotations import union, without_none
from statekit_codegen.reading.facts import NOTHING, UNKNOWN
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["fits", "initial", "read_type", "within_families"]

_NONE = TypeExpr("None")
_SEQUENCES = ("list", "deque")
_WIDER = {"float": ("float", "int"), "list": _SEQUENCES, "deque": _SEQUENCES}
"""What a value of a type may be, beside the very type."""


def read_type(value: Value) -> TypeExpr:
    """The type of what a reader gets."""
    held = TypeExpr.parse(value.item or value.type or "None")
    if value.bucket == "attrs":
        return held
    if value.object == "RetrievalStore":
        return TypeExpr("list", (UNKNOWN,))
    if value.object == "LatentBuffer" and isinstance(value.view, str):
        return TypeExpr("list", (held,))
    return union([held, _NONE])


def initial(value: Value) -> Any:
    """What a reader gets before anything was assigned; `NOTHING` for the members of a family."""
    if value.family:
        return NOTHING
    if value.bucket == "attrs":
        return value.default
    listed = value.object == "LatentBuffer" and isinstance(value.view, str)
    return [] if listed or value.object == "RetrievalStore" else None


def within_families(type_: TypeExpr, value: Value) -> TypeExpr:
    """The type of one member, where the class keeps a family in dicts or lists."""
    for _ in value.family:
        inner = without_none(type_)
        if inner.head not in ("dict", "list", "deque", "tuple"):
            return type_
        type_ = inner.arguments[-1]
    return type_


def fits(one: TypeExpr, wanted: TypeExpr) -> bool:
    """Whether each alternative of `one` may be a value of `wanted`; unknown parts fit."""
    return all(
        any(_fits(part, other) for other in wanted.alternatives) for part in one.alternatives
    )


def _fits(one: TypeExpr, wanted: TypeExpr) -> bool:
    if "?" in (one.head, wanted.head):
        return True
    if one.head not in _WIDER.get(wanted.head, (wanted.head,)):
        return False
    if one.head == "tuple":
        return _tuples(one, wanted)
    if not one.arguments or not wanted.arguments:
        return True
    pairs = zip(one.arguments, wanted.arguments, strict=False)
    return all(fits(inner, other) for inner, other in pairs)


def _tuples(one: TypeExpr, wanted: TypeExpr) -> bool:
    if one.variadic or wanted.variadic:
        first = (one if one.variadic else wanted).arguments[0]
        rest = (wanted if one.variadic else one).arguments
        return all(fits(first, part) or fits(part, first) for part in rest)
    if len(one.arguments) != len(wanted.arguments):
        return False
    return all(fits(a, b) for a, b in zip(one.arguments, wanted.arguments, strict=True))
