"""Members: what a generated class consists of, one context for the templates each.

Owns the code of a value, of an object, of a reset: names, types, arguments. Not here: what a
property reads and writes (`accessors`), how an object is built (`allocation`), docstrings
(`describe`), the layout (`layout`, templates), the module around them (`render`).
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import attrs

from statekit.spec import ValueSpec
from statekit_codegen import describe
from statekit_codegen.accessors import accessor, held_whole, type_of
from statekit_codegen.allocation import allocation, unusable
from statekit_codegen.layout import (
    Call,
    Dict,
    Expr,
    Items,
    docstring,
    header,
    lay,
    line,
    literal,
    statement,
    string,
)
from statekit_codegen.model import Model

__all__ = ["carried", "constructor", "managed", "reset", "spec_of"]

Context = dict[str, Any]
_CLASS, _METHOD, _NESTED = 4, 8, 12
"""Columns in front of a member, of a method's body, of a nested function's body."""


def carried(model: Model, value: ValueSpec) -> list[Context]:
    """The `SessionAttr` of an `attrs` value: one, or one for each member of its families."""
    words = model.schema.values[value.name]
    arguments: list[tuple[str, Expr]] = [("default", literal(words.default))]
    if words.coerce is not None:
        arguments.append(("coerce", words.coerce))
    # The type is declared: a subclass then assigns values, not descriptors, to type checkers.
    declared = f"SessionAttr[{type_of(value)}]"
    labels = product(*(model.spec.families[name].members for name in value.families))
    found = []
    for name, member in zip(model.spec.keys_of(value), labels, strict=True):
        closing = [describe.describe_member(value, member)] if member else []
        lines = describe.describe_value(model, value, _CLASS, *closing)
        descriptor = Call("SessionAttr", arguments)
        found.append(
            {
                "assignment": line(f"{name}: {declared} = ", descriptor, _CLASS),
                "docstring": docstring(lines, _CLASS),
            }
        )
    return found


def constructor(model: Model) -> Context:
    """The constructor, which only a class with parameters needs."""
    parameters = model.spec.parameters
    given = [f"{name}: int = {parameter.default}" for name, parameter in parameters.items()]
    session = ["self", "session_id: str | None", "manager: SessionStateManager", "*"]
    passed = [("", "session_id"), ("", "manager"), *((name, name) for name in parameters)]
    return {
        "init_header": header("__init__", [*session, *given], "None", _CLASS),
        "init_call": line("", Call("super().__init__", passed), _METHOD),
        "init_sets": [line(f"self.{name} = ", name, _METHOD) for name in parameters],
    }


def managed(model: Model, value: ValueSpec) -> Context:
    """The members of a StateObject value: two properties, or for a family a method."""
    assert value.object is not None
    item = type_of(value)
    held = f"{value.object}[{item}]"
    building = Call(f"{held}().allocate", allocation(model, value))
    shared = {
        "name": value.name,
        "build_header": header("build", [], held, _METHOD),
        "built": line("return ", building, _NESTED),
    }
    if value.families:
        return {**shared, **_family(model, value, held)}
    key = string(value.key or value.name)
    return {**shared, **_single(model, value, held), "found": _found(key, value)}


def reset(model: Model, name: str) -> Context:
    """The method of a reset."""
    if model.schema.resets[name].clears == "all":
        call = Call("self._session.reset")
    else:
        call = Call("self._clear", [("", string(value)) for value in model.spec.resets[name]])
    return {
        "header": header(f"reset_{name}", ["self"], "None", _CLASS),
        "docstring": docstring(describe.describe_reset(model, name), _METHOD),
        "call": line("", call, _METHOD),
    }


def spec_of(value: Any) -> Expr:
    """The expression that builds `value` anew, without what equals a default."""
    if attrs.has(type(value)):
        arguments = []
        for field in attrs.fields(type(value)):
            part = getattr(value, field.name)
            default = field.default
            if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
                default = default.factory()
            if part != default:
                arguments.append((field.name, spec_of(part)))
        return Call(type(value).__name__, arguments)
    if isinstance(value, dict):
        return Dict([(literal(key), spec_of(part)) for key, part in value.items()])
    if isinstance(value, tuple):
        return Items([spec_of(part) for part in value])
    return literal(value)


def _found(key: str, value: ValueSpec) -> str:
    assert value.object is not None
    return line("return ", Call("self._object", [("", key), ("", "build"), ("", value.object)]), 8)


def _single(model: Model, value: ValueSpec, held: str) -> Context:
    name = value.name
    found = accessor(value, model.schema.values[name])
    closing = found.closing
    return {
        "template": "single.py.jinja",
        "holder_header": header(f"{name}_object", ["self"], held, _CLASS),
        "holder_docstring": docstring(describe.describe_holder(value), _METHOD),
        "getter_header": header(name, ["self"], found.got, _CLASS),
        "docstring": docstring(describe.describe_value(model, value, _METHOD, closing), _METHOD),
        "read": line("return ", found.read, _METHOD),
        "setter_header": header(name, ["self", f"{found.given}: {found.taken}"], "None", _CLASS),
        "write": found.write,
    }


def _family(model: Model, value: ValueSpec, held: str) -> Context:
    spec = model.spec
    *outer, last = value.families
    numbered = not spec.families[last].members
    axes = outer if numbered else list(value.families)
    # A local name that no argument has.
    texts = {axis: f"{axis}_text" for axis in axes}
    while set(texts.values()) & set(axes):
        texts = {axis: f"{text}_" for axis, text in texts.items()}
    template = value.key
    if numbered:
        template = template.removesuffix(f"{{{last}}}")
    key = _key_expression(model, value, template, texts)
    if numbered:
        returns = f"ObjectFamily[{held_whole(value)}]"
        call = Call("ObjectFamily", [("", "self._session"), ("", key), ("", "build")])
        found = line("return ", call, _METHOD)
    else:
        returns = held
        found = _found(key, value)
    parameters = ["self"]
    lookups = []
    for axis in axes:
        members = spec.families[axis].members
        labels = ", ".join(string(label) for label in members)
        parameters.append(f"{axis}: Literal[{labels}]")
        choices = Dict([(string(label), string(text)) for label, text in members.items()])
        before = f"{texts[axis]} = "
        laid = lay(choices, _METHOD, before=len(before), after=len(axis) + 2)
        lookups.append(statement(" " * _METHOD + before + laid + f"[{axis}]"))
    closing = describe.describe_family(spec, value)
    return {
        "template": "family.py.jinja",
        "header": header(value.name, parameters, returns, _CLASS),
        "docstring": docstring(describe.describe_value(model, value, _METHOD, closing), _METHOD),
        "texts": lookups,
        "found": found,
    }


def _key_expression(model: Model, value: ValueSpec, template: str, texts: dict[str, str]) -> str:
    """A literal, or an f-string over the texts of the members."""
    parts = re.split(r"\{([^{}]*)\}", template)
    if sorted(parts[1::2]) != sorted(texts):
        raise unusable(
            model,
            value,
            "key",
            "KEY_TEMPLATE",
            f"{value.key!r} does not name each family once, a numbered one at its end",
            "write a key such as 'name{branch}/{layer}'",
        )
    if not texts:
        return string(template)
    source = ""
    for position, part in enumerate(parts):
        if position % 2:
            source += f"{{{texts[part]}}}"
        else:
            source += part.replace("{", "{{").replace("}", "}}")
    return "f" + string(source)
