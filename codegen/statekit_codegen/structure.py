"""Structure: plain data into the classes of `language`, strictly, with every misfit named.

Owns the cattrs converter: no text becomes a number, no boolean an integer, no key is unknown.
The words for what was expected come from the classes' own types, so that a new key needs nothing
here. Not here: what values mean (`check`).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Union, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import (
    AttributeValidationNote,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from statekit_codegen.fault import Fault, closest
from statekit_codegen.language import Schema
from statekit_codegen.model import Path
from statekit_codegen.scalars import shown

__all__ = ["key_of", "structure"]


def structure(data: Any) -> Schema | list[Fault]:
    """`data` as a Schema, or everything that keeps it from being one."""
    try:
        return _CONVERTER.structure(data, Schema)
    except Exception as error:  # what cattrs raises is a tree of any exceptions
        return list(_misfits(error, (), Schema))


def key_of(field: attrs.Attribute[Any]) -> str:
    """The key in YAML of a field of a language class."""
    return field.metadata.get("key") or field.name


class _MisfitError(Exception):
    """A leaf of the tree of errors: a value that does not fit."""

    def __init__(self, rule: str, found: str, todo: str) -> None:
        super().__init__(rule, found, todo)
        self.rule, self.found, self.todo = rule, found, todo


def _misfits(error: BaseException, path: Path, cls: Any) -> Iterator[Fault]:
    """Flattens a tree of cattrs errors; `cls` is the class that was being structured at `path`."""
    if isinstance(error, cattrs.BaseValidationError):
        for child in error.exceptions:
            place, owner = path, error.cl
            for note in getattr(child, "__notes__", ()):
                if isinstance(note, AttributeValidationNote):
                    place = (*path, key_of(getattr(attrs.fields(owner), note.name)))
                elif isinstance(note, IterableValidationNote):
                    place = (*path, note.index)
            yield from _misfits(child, place, owner)
    elif isinstance(error, ForbiddenExtraKeysError):
        allowed = [key_of(field) for field in attrs.fields(error.cl)]
        for key in error.extra_fields:
            near = closest(key, allowed)
            todo = f"{near}use one of {', '.join(allowed)}"
            if not near:  # `{why: Counted, always}`
                todo += "; if it is the rest of a text, quote the text: a comma ends it inside { }"
            yield Fault((*path, key), "UNKNOWN_KEY", f"unknown key {shown(key)}", todo)
    elif isinstance(error, _MisfitError):
        yield Fault(path, error.rule, error.found, error.todo)
    elif isinstance(error, KeyError):
        # The generated code looked a required key up; the note has put it into the path.
        key = str(error.args[0])
        help_text = next(f.metadata["help"] for f in attrs.fields(cls) if key_of(f) == key)
        yield Fault(path, "MISSING_KEY", f"the key '{key}' is missing", f"add it: {help_text}")
    else:
        raise error


def _converter() -> cattrs.Converter:
    """A converter that knows only what the language is made of, and converts nothing."""
    converter = cattrs.Converter(detailed_validation=True, forbid_extra_keys=True)
    for scalar in (bool, int, float, str):
        converter.register_structure_hook(scalar, _scalar_hook)
    converter.register_structure_hook_factory(attrs.has, lambda cls: _class_hook(converter, cls))
    converter.register_structure_hook_factory(
        lambda t: _form(t) is list, lambda t: _list_hook(converter, t)
    )
    converter.register_structure_hook_factory(
        lambda t: _form(t) is dict, lambda t: _dict_hook(converter, t)
    )
    converter.register_structure_hook_factory(_is_literal, lambda t: _literal_hook)
    converter.register_structure_hook_factory(_is_union, lambda t: _union_hook(converter))
    return converter


Hook = Callable[[Any, Any], Any]


def _is_literal(type_: Any) -> bool:
    return get_origin(type_) is Literal


def _is_union(type_: Any) -> bool:
    return get_origin(type_) in (Union, types.UnionType)


def _scalar_hook(data: Any, type_: Any) -> Any:
    if type(data) is type_:
        return data
    if type_ is float and type(data) is int:
        return float(data)
    raise _wrong(data, type_)


def _literal_hook(data: Any, type_: Any) -> Any:
    if isinstance(data, str) and data in get_args(type_):
        return data
    if isinstance(data, str):
        raise _not_one_of(data, get_args(type_), f"use {_describe(type_)}")
    raise _wrong(data, type_)


def _class_hook(converter: cattrs.Converter, cls: Any) -> Hook:
    fields = attrs.fields(attrs.resolve_types(cls))
    renamed: dict[str, Any] = {field.name: override(rename=key_of(field)) for field in fields}
    fill = make_dict_structure_fn(
        cls, converter, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=True, **renamed
    )

    def hook(data: Any, type_: Any) -> Any:
        if not isinstance(data, dict):
            raise _wrong(data, type_)
        return fill(data, type_)

    return hook


def _list_hook(converter: cattrs.Converter, type_: Any) -> Hook:
    (entry_type,) = get_args(type_)

    def hook(data: Any, type_: Any) -> Any:
        if not isinstance(data, list):
            raise _wrong(data, type_)
        return list(_entries(converter, enumerate(data), entry_type, type_))

    return hook


def _dict_hook(converter: cattrs.Converter, type_: Any) -> Hook:
    _, entry_type = get_args(type_)

    def hook(data: Any, type_: Any) -> Any:
        if not isinstance(data, dict):
            raise _wrong(data, type_)
        return dict(zip(data, _entries(converter, data.items(), entry_type, type_), strict=True))

    return hook


def _entries(
    converter: cattrs.Converter, items: Iterable[tuple[Any, Any]], entry_type: Any, type_: Any
) -> list[Any]:
    """The values of `items`, structured; raises all their errors together."""
    entries, errors = [], []
    for index, entry in items:
        try:
            entries.append(converter.structure(entry, entry_type))
        except Exception as error:  # noqa: PERF203 - each entry has errors of its own
            note = IterableValidationNote(f"entry {index}", index, entry_type)
            error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]
            errors.append(error)
    if errors:
        raise cattrs.IterableValidationError("entries", errors, type_)
    return entries


def _union_hook(converter: cattrs.Converter) -> Hook:
    """The member that the data's form chooses: no two members of a union share a form."""

    def hook(data: Any, type_: Any) -> Any:
        if data is None and types.NoneType in get_args(type_):
            return None
        for member in get_args(type_):
            if _has_form(data, member):
                return converter.structure(data, member)
        literals = [m for m in get_args(type_) if _is_literal(m)]
        if isinstance(data, str) and literals:
            raise _not_one_of(data, get_args(literals[0]), f"use {_describe(type_)}")
        raise _wrong(data, type_)

    return hook


def _has_form(data: Any, type_: Any) -> bool:
    if _is_literal(type_):
        return isinstance(data, str) and data in get_args(type_)
    if attrs.has(type_):
        return isinstance(data, dict)
    form = _form(type_)
    return type(data) is form or (form is float and type(data) is int)


def _form(type_: Any) -> Any:
    """The class whose instances the data of `type_` are: `list` of `list[str]`."""
    return get_origin(type_) or type_


def _wrong(data: Any, type_: Any) -> _MisfitError:
    todo = f"write {_describe(type_)}"
    if _accepts_text(type_) and isinstance(data, (int, float)):
        todo += ", in quotes if this is one"
    return _MisfitError("WRONG_TYPE", f"found {_describe_data(data)}", todo)


def _not_one_of(data: str, options: tuple[Any, ...], todo: str) -> _MisfitError:
    return _MisfitError("NOT_ONE_OF", f"found {shown(data)}", closest(data, options) + todo)


def _accepts_text(type_: Any) -> bool:
    return type_ is str or (_is_union(type_) and str in get_args(type_))


def _describe_data(data: Any) -> str:
    if data is None:
        return "nothing"
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, (list, dict)):
        return "a list" if isinstance(data, list) else "a mapping"
    return f"the {'text' if isinstance(data, str) else 'number'} {shown(data)}"


def _describe(type_: Any) -> str:
    """What a person has to write for `type_`."""
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    if type_ in words:
        return words[type_]
    if attrs.has(type_):
        return f"a mapping with {', '.join(key_of(field) for field in attrs.fields(type_))}"
    if _is_literal(type_):
        options = [str(option) for option in get_args(type_)]
        return options[0] if len(options) == 1 else f"one of {', '.join(options)}"
    if _form(type_) is list:
        return f"a list, each entry {_describe(get_args(type_)[0])}"
    if _form(type_) is dict:
        return f"a mapping of names, each with {_describe(get_args(type_)[1])}"
    members = [_describe(m) for m in get_args(type_) if m is not types.NoneType]
    return " or ".join(members)


_CONVERTER = _converter()
