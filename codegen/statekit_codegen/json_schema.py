"""JSON Schema of the language, draft 2020-12: what an editor needs to complete, hover and warn.

Owns the way from the classes of `language` to definitions: a new key needs nothing here. What its
class does not say of a key, or of keys together, is `json_schema_limits`.

    J1  What the loader accepts is accepted.
    J2  What is refused, the loader refuses. What it refuses beyond that is listed, with the
        reason, in the test.
    J3  The words of draft 7 are enough but for `$defs`: editors know no others for sure. What is
        no word of any draft (`errorMessage`, `markdownDescription`) only helps who reads it.
"""

from __future__ import annotations

import json
import types
import typing
from typing import Any, Literal, Union

import attrs

from statekit.expressions import MAX_VALUE
from statekit_codegen import language
from statekit_codegen.json_schema_limits import SHARED, conditions_of, limits_of, names_of, shared
from statekit_codegen.mappings import mappings
from statekit_codegen.structure import key_of

__all__ = ["DIALECT", "json_schema", "json_schema_text"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Definition = dict[str, Any]


def json_schema() -> Definition:
    """The JSON Schema of the language, as plain data; the same at every call."""
    return {
        "$schema": DIALECT,
        **_definition(language.Schema),
        "title": f"statekit schema, version {language.LANGUAGE_VERSION}",
        "$defs": {
            **{cls.__name__: _definition(cls) for cls in mappings()[1:]},
            **SHARED,
        },
    }


def json_schema_text() -> str:
    """The JSON Schema as a file, in ASCII."""
    return json.dumps(json_schema(), indent=2) + "\n"


def _definition(cls: type[attrs.AttrsInstance]) -> Definition:
    """One mapping: its keys, which of them it must have, and what holds of them together."""
    hints = typing.get_type_hints(cls)
    fields = attrs.fields(cls)
    definition: Definition = {
        "title": cls.__name__,
        **_described(" ".join((cls.__doc__ or "").split())),
        "type": "object",
        "properties": {key_of(field): _property(cls, field, hints) for field in fields},
        "required": [key_of(field) for field in fields if field.default is attrs.NOTHING],
        "additionalProperties": False,
    }
    if not definition["required"]:
        del definition["required"]
    conditions = conditions_of(cls)
    if conditions:
        definition["allOf"] = conditions
    return definition


def _described(text: str) -> Definition:
    # What editors show of a plain description, they show without markup.
    return {"description": text.replace("`", ""), "markdownDescription": text}


def _property(
    cls: type[attrs.AttrsInstance], field: attrs.Attribute[Any], hints: dict[str, Any]
) -> Definition:
    form = _form(hints[field.name], limits_of(cls, field.name), names_of(cls, field.name))
    described: Definition = {**_described(field.metadata["help"]), **form}
    default = field.default
    if isinstance(default, (bool, int, str)):
        described["default"] = default
    return described


def _form(hint: Any, limits: Definition, names: Definition | None) -> Definition:
    """The form of what `hint` says; `limits` narrows its scalars, `names` its keys."""
    scalars: dict[Any, Definition] = {
        bool: {"type": "boolean"},
        int: {"type": "integer", "minimum": -MAX_VALUE, "maximum": MAX_VALUE},
        float: {"type": "number", "minimum": -MAX_VALUE, "maximum": MAX_VALUE},
        str: shared("text"),
        Any: {},
    }
    if hint in (str, language.Dimension) and limits:
        return limits
    if hint in scalars:
        return {**scalars[hint], **limits}
    if hint == language.Dimension:
        return shared("size")
    if attrs.has(hint):
        return shared(hint.__name__)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        entries: Definition = {"type": "array", "items": _form(arguments[0], limits, None)}
        if arguments[0] is str or typing.get_origin(arguments[0]) is Literal:
            entries["uniqueItems"] = True  # a list of words means a set
        return entries
    if origin is dict:
        mapping: Definition = {
            "type": "object",
            "additionalProperties": _form(arguments[1], limits, None),
        }
        return {**mapping, **(names or {})}
    return _union(hint, limits, names)


def _union(hint: Any, limits: Definition, names: Definition | None) -> Definition:
    """One of several forms; null where None is one: a key without a value says nothing."""
    if typing.get_origin(hint) not in (Union, types.UnionType):
        raise TypeError(f"the language has no JSON Schema for {hint!r}")
    left = list(typing.get_args(hint))
    forms: list[Definition] = []
    if {str, int} <= set(left):
        left = [part for part in left if part not in (str, int)]
        forms.append(_form(language.Dimension, limits, names))
    forms += [_form(part, limits, names) for part in left if part is not types.NoneType]
    if types.NoneType in left:
        forms.append({"type": "null"})
    flat = [one for form in forms for one in (form["anyOf"] if [*form] == ["anyOf"] else [form])]
    return flat[0] if len(flat) == 1 else {"anyOf": flat}
