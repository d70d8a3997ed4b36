"""The record: the part of a spec that the bytes of a snapshot depend on, as plain JSON data.

Owns the form, its fingerprint, and the way back from data of which nothing is trusted: a record
that comes out of a file is checked before anything looks at it.

    E1  Words, places, decisions, measurements, and what is done with a value under pressure are no
        part of it: they may change, and the fingerprint stays.
    E2  `read_record(record_of(spec))` has the same record.
    E3  What passes `read_record` can be compared without an error; where a session's parameters
        are known, in time linear in its size.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from statekit.errors import ExpressionError
from statekit.evolution.stored_type import StoredType, StoredTypeError
from statekit.expressions import MAX_VALUE, Expression
from statekit.spec import Family, ModelSpec, Parameter, Ring, Size, ValueSpec

__all__ = ["BadRecordError", "fingerprint", "numbers_in", "read_record", "record_of"]

RECORD_VERSION = 1
_MAX_KEY_CHARS = 128
_MAX_MEMBERS = 256
_MEMBER = re.compile(r"[A-Za-z0-9_./-]{0,128}")  # no braces: keys would grow without end
_WORDS: Mapping[str, tuple[str, ...]] = {
    "bucket": ("attrs", "StateObject"),
    "object": ("LatentBuffer", "EncodeOnce", "HeldValue"),
    "update": ("replaced", "entries", "in_place"),
    "coerce": ("int", "bool", "float", "str"),
}

T = TypeVar("T")


class BadRecordError(ValueError):
    """Data is no record of a schema: `found` at `place`."""

    def __init__(self, place: str, found: str) -> None:
        super().__init__(place, found)
        self.place, self.found = place, found

    def __str__(self) -> str:
        return f"{self.place}: {self.found}"


def record_of(spec: ModelSpec) -> dict[str, Any]:
    """What saved bytes depend on in `spec`, as data that JSON can carry."""
    return {
        "record": RECORD_VERSION,
        "model": spec.model,
        "symbols": dict(spec.symbols),
        "constants": dict(spec.constants),
        "parameters": {
            name: {"default": one.default, "minimum": one.minimum, "maximum": one.maximum}
            for name, one in spec.parameters.items()
        },
        "families": {
            name: {"members": dict(one.members), "count": one.count}
            for name, one in spec.families.items()
        },
        "atomic": {name: list(members) for name, members in spec.atomic.items()},
        "values": {value.name: _value(spec, value) for value in spec},
    }


def _value(spec: ModelSpec, value: ValueSpec) -> dict[str, Any]:
    size = value.size or Size()
    ring = value.ring and {"bound": value.ring.bound, "axis": value.ring.axis}
    return {
        "bucket": value.bucket,
        "object": value.object,
        "type": value.type,
        "key": value.key or value.name,
        "keys": list(spec.keys_of(value)),
        "families": list(value.families),
        "dtype": value.dtype,
        "shape": None if size.shape is None else list(size.shape),
        "elements": size.elements,
        "first": size.first,
        "ring": ring,
        "device": value.device,
        "default": value.default,
        "coerce": value.coerce,
        "update": value.update,
    }


def fingerprint(record: Mapping[str, Any]) -> str:
    """The sha256 of `record`, in hex; the same for the same content in whatever order."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_record(data: object) -> ModelSpec:
    """The spec that a record was made of, without what the record leaves out.

    Raises:
        BadRecordError: `data` is no record; nothing of it is trusted.
    """
    whole = _Part("record", _mapping(data, "record"))
    if whole.take("record", _number) != RECORD_VERSION:
        raise BadRecordError("record.record", f"not version {RECORD_VERSION} of a record")
    spec = ModelSpec(
        model=whole.take("model", _text),
        symbols=whole.take("symbols", _each(_number)),
        constants=whole.take("constants", _each(_number)),
        parameters=whole.take("parameters", _each(_parameter)),
        families=whole.take("families", _each(_family)),
        atomic=whole.take("atomic", _each(_texts)),
    )
    values = whole.take("values", _each(lambda one, place: one))
    whole.done()
    read = (
        _read_value(spec, name, one, f"record.values.{_short(name)}")
        for name, one in values.items()
    )
    return attrs.evolve(spec, values=tuple(read))


def numbers_in(data: object, place: str) -> dict[str, int]:
    """The names and numbers that `data` holds. Raises: BadRecordError."""
    return _each(_number)(data, place)


class _Part:
    """A mapping whose entries are taken out one by one, so that none is left unread."""

    def __init__(self, place: str, entries: Mapping[str, Any]) -> None:
        self.place, self.entries = place, dict(entries)

    def take(self, key: str, read: Callable[[object, str], T]) -> T:
        if key not in self.entries:
            raise BadRecordError(f"{self.place}.{key}", "missing")
        return read(self.entries.pop(key), f"{self.place}.{key}")

    def done(self) -> None:
        for key in self.entries:
            raise BadRecordError(f"{self.place}.{_short(key)}", "unknown")


def _mapping(data: object, place: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
        raise BadRecordError(place, "no mapping of names")
    return data


def _text(data: object, place: str) -> str:
    if not isinstance(data, str):
        raise BadRecordError(place, f"no text but {_short(data)}")
    return data


def _number(data: object, place: str) -> int:
    if type(data) is not int or abs(data) > MAX_VALUE:
        raise BadRecordError(place, f"no whole number of 63 bits but {_short(data)}")
    return data


def _texts(data: object, place: str) -> tuple[str, ...]:
    if not isinstance(data, Sequence) or isinstance(data, (str, bytes)):
        raise BadRecordError(place, f"no list but {_short(data)}")
    return tuple(_text(one, place) for one in data)


def _expression(data: object, place: str) -> str:
    try:
        return Expression.parse(_text(data, place)).text
    except ExpressionError as error:
        raise BadRecordError(place, error.found) from None


def _expressions(data: object, place: str) -> tuple[str, ...]:
    return tuple(_expression(one, place) for one in _texts(data, place))


def _each(read: Callable[[object, str], T]) -> Callable[[object, str], dict[str, T]]:
    return lambda data, place: {
        name: read(one, f"{place}.{_short(name)}") for name, one in _mapping(data, place).items()
    }


def _optional(read: Callable[[object, str], T]) -> Callable[[object, str], T | None]:
    return lambda data, place: None if data is None else read(data, place)


def _word(key: str) -> Callable[[object, str], Any]:
    def read(data: object, place: str) -> str:
        if data not in _WORDS[key]:
            raise BadRecordError(place, f"none of {', '.join(_WORDS[key])} but {_short(data)}")
        return str(data)

    return read


def _parameter(data: object, place: str) -> Parameter:
    part = _Part(place, _mapping(data, place))
    parameter = Parameter(
        part.take("default", _number),
        part.take("minimum", _optional(_number)),
        part.take("maximum", _optional(_number)),
    )
    part.done()
    return parameter


def _family(data: object, place: str) -> Family:
    part = _Part(place, _mapping(data, place))
    family = Family(part.take("members", _each(_text)), part.take("count", _optional(_expression)))
    part.done()
    if bool(family.members) == (family.count is not None):
        raise BadRecordError(place, "not either members or a count")
    if not all(_MEMBER.fullmatch(text) for text in family.members.values()):
        raise BadRecordError(place, "a member that cannot stand in a key")
    return family


def _ring(data: object, place: str) -> Ring:
    part = _Part(place, _mapping(data, place))
    ring = Ring(
        bound=part.take("bound", _optional(_expression)), axis=part.take("axis", _optional(_number))
    )
    part.done()
    return ring


def _read_value(spec: ModelSpec, name: str, data: object, place: str) -> ValueSpec:
    part = _Part(place, _mapping(data, place))
    size = Size(
        part.take("shape", _optional(_expressions)),
        part.take("elements", _optional(_expression)),
        part.take("first", _optional(_expression)),
    )
    keys = part.take("keys", _texts)
    value = ValueSpec(
        name=name,
        bucket=part.take("bucket", _word("bucket")),
        object=part.take("object", _optional(_word("object"))),
        type=part.take("type", _text),
        key=part.take("key", _text),
        families=part.take("families", _texts),
        dtype=part.take("dtype", _optional(_text)),
        size=None if size == Size() else size,
        ring=part.take("ring", _optional(_ring)),
        device=part.take("device", _text),
        default=part.take("default", _text),
        coerce=part.take("coerce", _optional(_word("coerce"))),
        update=part.take("update", _word("update")),
    )
    part.done()
    _check_value(spec, value, keys, place)
    return value


def _check_value(spec: ModelSpec, value: ValueSpec, keys: tuple[str, ...], place: str) -> None:
    """Refuse what no schema says: E3 needs it, and a lie about one thing is a lie about all."""
    if (value.bucket == "StateObject") != (value.object is not None):
        raise BadRecordError(f"{place}.object", "an object that is none, or none that is one")
    try:
        StoredType.parse(value.type)
    except StoredTypeError as error:
        raise BadRecordError(f"{place}.type", str(error)) from None
    size = value.size or Size(elements="1")
    if (size.shape is None) == (size.elements is None):
        raise BadRecordError(f"{place}.shape", "a shape and elements, or neither")
    known = all(name in spec.families for name in value.families)
    if not known or len(set(value.families)) < len(value.families):
        raise BadRecordError(f"{place}.families", "a family that is unknown, or there twice")
    members = math.prod(len(spec.families[name].members) or 1 for name in value.families)
    if len(value.key) > _MAX_KEY_CHARS or members > _MAX_MEMBERS:
        raise BadRecordError(f"{place}.key", "a key that is too long, or too many of them")
    if spec.keys_of(value) != keys:
        raise BadRecordError(f"{place}.keys", "not the keys that follow from key and families")


def _short(data: object) -> str:
    if not isinstance(data, (str, int, float, type(None))):
        return f"a {type(data).__name__}"
    if isinstance(data, int) and abs(data) > MAX_VALUE:
        return "a number beyond that"
    text = ascii(data)
    return text if len(text) <= 40 else f"{text[:36]}...{text[0]}"
