"""Facts: what the source of a hand-rolled state class says, each with the line that says it.

Owns the records and their look-ups. Nothing here is an opinion: what a schema should say about a
fact is drafted elsewhere (`scaffold`), what contradicts one is found elsewhere (`audit`).

    F1  Every fact has a place in the file that was read.
    F2  What the source does not say is said to be unknown: `?` in a type, None elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal

import attrs

from statekit.spec import CommitStep
from statekit_codegen.type_grammar import TypeExpr

__all__ = [
    "NOTHING",
    "UNKNOWN",
    "Attribute",
    "BlindSpot",
    "Bound",
    "Clearing",
    "Constant",
    "Event",
    "EventKind",
    "HandRolled",
    "Held",
    "Method",
    "Parameter",
    "Site",
]


class _NotLiteral(Enum):
    NOT_LITERAL = "not a literal"


NOTHING: Final = _NotLiteral.NOT_LITERAL
"""Stands for the default of what is no plain literal."""
UNKNOWN = TypeExpr("?")
"""The type of what the source does not say."""

EventKind = Literal["set", "read", "append", "entry", "write", "augment", "clear", "delete", "trim"]
"""What happens to an attribute: assigned whole, read, appended to, entries of it replaced, its
tensor written into, changed by `+=`, emptied, deleted, or shortened to the newest."""


@attrs.frozen(order=True)
class Site:
    """A place in the file, both numbers from 1, and the function that it lies in."""

    line: int
    column: int
    function: str = ""


@attrs.frozen
class Bound:
    """How many newest entries stay: an expression of the source, and its number if that is known.

    Attributes:
        text: the expression.
        number: its value, with the defaults of parameters.
        name: the constant or parameter that it names, if it is no more than that.
        parameter: whether that is a parameter of the constructor.
        axis: the axis that is counted along; None: items of a list.
    """

    text: str
    site: Site
    number: int | None = None
    name: str | None = None
    parameter: bool = False
    axis: int | None = None


@attrs.frozen
class Held:
    """What an expression gives, as far as its source says.

    Attributes:
        source: the expression.
        type: its type; `?` where that is unknown.
        default: the literal that it is; an empty list stands for every empty sequence or set.
        of: the attribute that it is made from, if it is.
        joined: the axis along which something is concatenated to `of`.
        appended: the type of what a list display adds to `of`.
        parameter: the argument of the function that it is, as passed in.
        shape: one text for each dimension, where all are known.
        odd_shape: the source of a shape that is not.
        odd_device: the source of a device that is not known by name.
    """

    source: str
    type: TypeExpr = UNKNOWN
    default: Any = NOTHING
    dtype: str | None = None
    shape: tuple[str, ...] | None = None
    odd_shape: str | None = None
    device: str | None = None
    odd_device: str | None = None
    bound: Bound | None = None
    steps: tuple[CommitStep, ...] = ()
    of: str | None = None
    joined: int | None = None
    appended: TypeExpr | None = None
    parameter: str | None = None

    @property
    def is_literal(self) -> bool:
        """Whether it is a literal, or an empty container."""
        return self.default is not NOTHING

    def same_default(self, other: Held) -> bool:
        """Whether both leave the same: one literal, or one expression."""
        if self.is_literal or other.is_literal:
            same_kind = type(self.default) is type(other.default)
            return same_kind and bool(self.default == other.default)
        return self.source == other.source


@attrs.frozen
class Event:
    """One thing that a line does to an attribute.

    Attributes:
        how: the method or idiom, such as `append` or `copy_`.
        certain: whether the line runs whenever its function does.
        guards: the attributes that the tests around it look at.
        depth: 0 for the attribute itself, more for what lies in it.
    """

    name: str
    kind: EventKind
    site: Site
    how: str = ""
    held: Held | None = None
    certain: bool = True
    guards: frozenset[str] = frozenset()
    depth: int = 0
    bound: Bound | None = None


@attrs.frozen
class Attribute:
    """One attribute of the class, or the session's entry of a table of the module.

    Attributes:
        site: where it is first set or declared.
        type: what it can be, by its annotation or by what is assigned.
        annotation: the source of the annotation, if there is one.
        default: what it is at the start, if the source says.
        item: the type of what is appended, if anything is.
        bound: how many newest entries stay.
        dtype, shape, device: of its tensors, or of what is appended.
        doc: what a comment or docstring beside it says.
        table: the dict of the module that holds it, by session.
        parameter: the argument of the constructor that it is, where nothing else sets it.
    """

    name: str
    site: Site
    type: TypeExpr
    annotation: str | None
    default: Held | None
    default_site: Site | None
    events: tuple[Event, ...]
    item: TypeExpr | None = None
    bound: Bound | None = None
    dtype: str | None = None
    shape: tuple[str, ...] | None = None
    odd_shape: str | None = None
    device: str | None = None
    odd_device: str | None = None
    steps: tuple[CommitStep, ...] = ()
    joined: int | None = None
    doc: str = ""
    table: str | None = None
    parameter: str | None = None

    def lines(self, *kinds: EventKind) -> tuple[int, ...]:
        """The lines of the events of `kinds`, in order, each once."""
        return tuple(sorted({event.site.line for event in self.events if event.kind in kinds}))

    def of_kind(self, *kinds: EventKind) -> tuple[Event, ...]:
        """The events of `kinds`."""
        return tuple(event for event in self.events if event.kind in kinds)


@attrs.frozen
class Constant:
    """A whole number that nothing changes: of the class, of the module, or set once."""

    name: str
    value: int
    site: Site


@attrs.frozen
class Parameter:
    """An argument of the constructor."""

    name: str
    site: Site
    annotation: str | None = None
    default: Any = NOTHING


@attrs.frozen
class Clearing:
    """What one way to call a method clears.

    Attributes:
        choice: the arguments that lead this way; empty where there is one way only.
        usual: whether a call without arguments goes this way.
        cleared: attributes that are as at the start afterwards, in the order of the class.
        sometimes: those that are cleared under conditions that the source alone cannot decide.
        others: those that the method sets to something else.
        events: what clears each of `cleared`.
    """

    method: str
    site: Site
    choice: tuple[tuple[str, Any], ...]
    cleared: tuple[str, ...]
    sometimes: tuple[str, ...]
    others: tuple[str, ...]
    events: Mapping[str, Event]
    doc: str = ""
    usual: bool = True

    @property
    def label(self) -> str:
        """The call, such as `reset(clear_latents=False)`."""
        return f"{self.method}({', '.join(f'{name}={value!r}' for name, value in self.choice)})"


@attrs.frozen
class Method:
    """A method that carries behaviour: neither constructor nor a mere reset."""

    name: str
    site: Site
    node: ast.FunctionDef | ast.AsyncFunctionDef = attrs.field(eq=False, repr=False)
    owner: str = ""


@attrs.frozen
class BlindSpot:
    """A line that sets attributes whose names the source does not say."""

    site: Site
    source: str


@attrs.frozen
class HandRolled:
    """A state class as its source says it.

    Attributes:
        file: its file, as messages show it.
        name: its qualified name, such as `Pipeline.State`.
        attributes: by name, in the order of the source.
        constants: whole numbers of the class or the module that methods use.
        parameters: arguments of the constructor.
        unread: base classes of other files, which were not read.
        table_of_sessions: a dict of the module that holds states of this class.
    """

    file: str
    name: str
    site: Site
    doc: str
    attributes: Mapping[str, Attribute]
    constants: Mapping[str, Constant]
    parameters: Mapping[str, Parameter]
    clearings: tuple[Clearing, ...]
    methods: tuple[Method, ...]
    blind: tuple[BlindSpot, ...]
    unread: tuple[str, ...]
    text: str = attrs.field(repr=False, default="")
    tree: ast.Module | None = attrs.field(eq=False, repr=False, default=None)
