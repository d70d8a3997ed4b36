"""Access: the members of a generated class through which code reads and writes its values.

Owns what a caller sees of each: attribute, object or method, with types. The code behind them is
`members`; this is the same, seen from outside, so that two schemas can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs

from statekit.spec import ValueSpec
from statekit_codegen.model import Model
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["Access", "accesses"]


@attrs.frozen
class Access:
    """One member of a generated class that stands for a value, or for a part of it.

    Attributes:
        name: of the member.
        value: the value behind it.
        form: an attribute that is read and assigned; the object behind one; or a method that
            returns an object.
        kind: of the object behind it, `ObjectFamily of EncodeOnce` for a numbered family, or
            `attrs`.
        read: the type that a reader gets; for an object, of what it holds.
        write: the type that a writer may pass.
        arguments: of a method: each family with the labels that may be passed, in order.
        view: how the items of a buffer are handed out; empty for anything else.
    """

    name: str
    value: ValueSpec
    form: Literal["attribute", "object", "method"]
    kind: str
    read: str
    write: str
    arguments: tuple[tuple[str, tuple[str, ...]], ...] = ()
    view: str = ""


def accesses(model: Model) -> dict[str, Access]:
    """The members of the class of `model` that stand for values, by name."""
    return {one.name: one for value in model.spec for one in _accesses(model, value)}


def _accesses(model: Model, value: ValueSpec) -> Iterator[Access]:
    spec = model.spec
    held = value.type
    if value.bucket == "attrs":
        for name in spec.keys_of(value):
            yield Access(name, value, "attribute", "attrs", held, held)
        return
    kind = str(value.object)
    if value.families:
        *outer, last = value.families
        numbered = not spec.families[last].members
        named = outer if numbered else value.families
        arguments = tuple((name, tuple(spec.families[name].members)) for name in named)
        kind = f"ObjectFamily of {kind}" if numbered else kind
        yield Access(value.name, value, "method", kind, held, held, arguments)
        return
    view, read, write = "", _optional(held), _optional(held)
    if value.object == "RetrievalStore":
        entry = f"tuple[torch.Tensor, {held}]"
        view, read, write = "a list of entries", f"list[{entry}]", f"Iterable[{entry}]"
    if value.object == "LatentBuffer":
        how = model.schema.values[value.name].view
        if isinstance(how, str):
            view, read, write = "a list", f"list[{held}]", f"Iterable[{held}]"
        else:
            view = f"joined along axis {how.concat}"
    yield Access(value.name, value, "attribute", kind, read, write, (), view)
    yield Access(f"{value.name}_object", value, "object", kind, held, held)


def _optional(text: str) -> str:
    return text if TypeExpr.parse(text).optional else f"{text} | None"
