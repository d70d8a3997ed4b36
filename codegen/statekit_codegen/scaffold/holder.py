"""Holder: what a schema makes of each attribute of a hand-rolled class.

Owns the one decision that comes first: a value that is carried, a buffer that accumulates, a
constant, a parameter, or something that no session holds.
"""

from __future__ import annotations

from typing import Literal

from statekit_codegen.check_names import ADAPTER_MEMBERS, SNAKE
from statekit_codegen.reading.annotations import without_none
from statekit_codegen.reading.facts import UNKNOWN, Attribute, HandRolled
from statekit_codegen.reading.names import is_number_name, value_names
from statekit_codegen.type_grammar import TypeExpr

__all__ = [
    "Holder",
    "bound_parameters",
    "holder",
    "holders",
    "is_joined",
    "item_type",
    "names_of",
    "session_values",
]

Holder = Literal["carried", "buffer", "constant", "parameter", "given", "foreign", "adapter"]
"""`given` to the constructor and kept as it is; `foreign`: an object of a kind no schema has;
`adapter`: a member that every adapter has."""

_BUFFERS = ("list", "deque")


def holders(state: HandRolled) -> dict[str, Holder]:
    """What becomes of each attribute of a class."""
    return {name: holder(attribute, state) for name, attribute in state.attributes.items()}


def holder(attribute: Attribute, state: HandRolled) -> Holder:
    """What becomes of one attribute."""
    if attribute.name in ADAPTER_MEMBERS and attribute.parameter is not None:
        return "adapter"
    if attribute.name in state.constants and is_number_name(attribute.name):
        return "constant"
    if attribute.parameter is not None:
        bounds = {a.bound.name for a in state.attributes.values() if a.bound and a.bound.parameter}
        usable = is_number_name(attribute.parameter, SNAKE)
        return "parameter" if attribute.parameter in bounds and usable else "given"
    if is_joined(attribute) or _accumulates(attribute):
        return "buffer"
    return "foreign" if _is_foreign(attribute) else "carried"


def names_of(state: HandRolled) -> dict[str, str]:
    """The name in a schema of each attribute that is neither a constant nor a parameter there."""
    apart = ("constant", "parameter", "adapter")
    named = [name for name, kind in holders(state).items() if kind not in apart]
    found = value_names(named, {*state.constants, *bound_parameters(state)})
    return {name: found[name] for name in named}


def session_values(state: HandRolled) -> dict[str, str]:
    """The values of a class that a session holds: attribute to name in the schema."""
    kinds = holders(state)
    return {n: value for n, value in names_of(state).items() if kinds[n] in ("carried", "buffer")}


def bound_parameters(state: HandRolled) -> list[str]:
    """Arguments of the constructor that bound a buffer, and may be called so in a schema."""
    kinds = holders(state)
    bounds = [
        attribute.bound
        for name, attribute in state.attributes.items()
        if attribute.bound is not None and attribute.bound.parameter and kinds[name] == "buffer"
    ]
    named = dict.fromkeys(bound.name for bound in bounds if bound.name)
    return [name for name in named if is_number_name(name, SNAKE)]


def is_joined(attribute: Attribute) -> bool:
    """Whether tensors are joined to the one that it holds, along an axis counted from 0."""
    if attribute.joined is None or attribute.joined < 0:
        return False
    heads = {part.head for part in without_none(attribute.type).alternatives}
    return len(heads) == 1 and heads <= {"torch.Tensor", "np.ndarray"}


def _accumulates(attribute: Attribute) -> bool:
    """Whether items are appended to a list of tensors, or to one of which the newest stay."""
    kinds = without_none(attribute.type)
    if kinds.head not in _BUFFERS or attribute.of_kind("entry", "write"):
        return False
    if attribute.item is None:
        return attribute.bound is not None
    item = item_type(attribute)
    return item.holds_memory or attribute.bound is not None


def item_type(attribute: Attribute) -> TypeExpr:
    """The type of one item of a list, `?` where nothing says it."""
    kinds = without_none(attribute.type)
    of_list = kinds.arguments[0] if kinds.arguments else UNKNOWN
    item = of_list if of_list != UNKNOWN else attribute.item or UNKNOWN
    return without_none(item) if item != UNKNOWN else UNKNOWN


def _is_foreign(attribute: Attribute) -> bool:
    """Whether it is an object that some call made, of which nothing else is known."""
    default = attribute.default
    if default is None or default.is_literal or without_none(attribute.type) != UNKNOWN:
        return False
    return default.parameter is None and not attribute.of_kind("augment", "append")
