"""Accessors: what the property of an object reads and what assigning to it does, kind by kind.

Owns the types on both sides, the code of the two bodies, and the sentence about them in the
docstring. The members around them are `members`; the same as seen from outside is `access`.
"""

from __future__ import annotations

import attrs

from statekit.spec import ValueSpec
from statekit_codegen.language import Value
from statekit_codegen.layout import Call, Expr, line, literal
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["Accessor", "accessor", "held_whole", "type_of"]

_METHOD, _NESTED = 8, 12
"""Columns in front of a method's body, and of what is below an `if` in it."""


@attrs.frozen
class Accessor:
    """The two sides of one property.

    Attributes:
        got: the type that a reader gets.
        given: the name of what is assigned.
        taken: the type that may be assigned.
        closing: what a reader of the docstring is told of both.
        read: the expression that the getter returns.
        write: the lines of the setter.
    """

    got: str
    given: str
    taken: str
    closing: str
    read: Expr
    write: list[str]


def type_of(value: ValueSpec) -> str:
    """The annotation of what a value holds, or of one item of it."""
    return TypeExpr.parse(value.type).render(value.dtype)


def held_whole(value: ValueSpec) -> str:
    """The annotation of what one member of a numbered family is read and replaced as."""
    held = type_of(value)
    return f"list[tuple[torch.Tensor, {held}]]" if value.object == "RetrievalStore" else held


def accessor(value: ValueSpec, words: Value) -> Accessor:
    """What the property of `value` reads and writes."""
    behind = f"self.{value.name}_object"
    held = type_of(value)
    optional = held if TypeExpr.parse(value.type).optional else f"{held} | None"
    if value.object == "LatentBuffer":
        return _buffer(words, behind, held, optional)
    if value.object == "RetrievalStore":
        entry = f"tuple[torch.Tensor, {held}]"
        closing = (
            "Reads as a new list of keys and values, the oldest first; assigning replaces all of "
            f"them. To append one, or to find the nearest: `{value.name}_object`."
        )
        return Accessor(
            f"list[{entry}]",
            "entries",
            f"Iterable[{entry}]",
            closing,
            Call(f"{behind}.view"),
            [line("", Call(f"{behind}.replace", [("", "entries")]), _METHOD)],
        )
    store, clear, closing = _whole(value)
    write = [
        " " * _METHOD + "if payload is None:",
        line("", Call(f"{behind}.{clear}"), _NESTED),
        " " * _METHOD + "else:",
        line("", Call(f"{behind}.{store}", [("", "payload")]), _NESTED),
    ]
    return Accessor(optional, "payload", optional, closing, Call(f"{behind}.view"), write)


def _whole(value: ValueSpec) -> tuple[str, str, str]:
    """The methods that store and clear what is assigned as a whole, and the sentence about it."""
    if value.object == "FixedState":
        one = value.type == "torch.Tensor"
        what, them = ("the buffer", "it") if one else ("the buffers by name", "them")
        return (
            "commit",
            "reset",
            f"Reads as {what}, or None before the first payload. Assigning copies into {them} in "
            f"place, at the same address; assigning None gives {them} back.",
        )
    if value.object == "WindowedKV":
        axis = value.ring.axis if value.ring is not None else 0
        return (
            "replace",
            "clear",
            f"Reads as all that is kept, joined along axis {axis}, or None. Assigning replaces it "
            "and restarts the cursors; assigning None clears it. To append: "
            f"`{value.name}_object`.",
        )
    once = ", once" if value.object == "EncodeOnce" else ""
    parked = " until it has been parked" if value.park is not None else ""
    return (
        "commit",
        "clear",
        f"Reads as what was stored, the very same{parked}, or None. Assigning stores it{once}; "
        "assigning None clears it.",
    )


def _buffer(words: Value, behind: str, held: str, optional: str) -> Accessor:
    view = words.view
    if isinstance(view, str):
        return Accessor(
            f"list[{held}]",
            "items",
            f"Iterable[{held}]",
            "Reads as a new list; assigning replaces all items.",
            Call(f"{behind}.view"),
            [line("", Call(f"{behind}.replace", [("", "items")]), _METHOD)],
        )
    closing = (
        f"Reads as all items joined along axis {view.concat}, or None. Assigning replaces "
        "them all by one; assigning None clears them."
    )
    items = "[] if joined is None else [joined]"
    return Accessor(
        optional,
        "joined",
        optional,
        closing,
        Call(f"{behind}.joined", [("", literal(view.concat))]),
        [line("", Call(f"{behind}.replace", [("", items)]), _METHOD)],
    )
