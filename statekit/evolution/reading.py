"""Reading: the way back from a record to a spec, from data of which nothing is trusted.

Owns every check of a record that comes out of a file, before anything looks at it. The form is
`record`'s.

    G1  `read_record(record_of(spec))` has the same record.
    G2  What passes `read_record` can be compared without an error; where a session's parameters
        are known, in time linear in its size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

import attrs

from statekit.errors import ExpressionError
from statekit.evolution.record import RECORD_VERSION
from statekit.evolution.stored_type import StoredType, StoredTypeError
from statekit.expressions import MAX_VALUE, Expression
from statekit.spec import (
    Codec,
    Family,
    Index,
    Lifetime,
    Metric,
    ModelSpec,
    ObjectKind,
    Parameter,
    Ring,
    Size,
    ValueSpec,
)

__all__ = ["BadRecordError", "numbers_in", "read_record"]

_MAX_KEY_CHARS = 128
_MAX_MEMBERS = 256
_MEMBER = re.compile(r"[A-Za-z0-9_./-]{0,128}")  # no braces: keys would grow without end
_WORDS: Mapping[str, tuple[str, ...]] = {
    "bucket": ("attrs", "StateObject"),
    "object": get_args(ObjectKind),
    "lifetime": get_args(Lifetime),
    "metric": get_args(Metric),
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

    def maybe(self, key: str, read: Callable[[object, str], T]) -> T | None:
        """What came into the language later, by E2 of `record`."""
        return self.take(key, read) if key in self.entries else None

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
        bound=part.take("bound", _optional(_expression)),
        axis=part.take("axis", _optional(_number)),
        sink=part.maybe("sink", _expression),
        nbytes=part.maybe("nbytes", _expression),
    )
    part.done()
    return ring


def _index(data: object, place: str) -> Index:
    part = _Part(place, _mapping(data, place))
    index = Index(
        part.take("shape", _expressions),
        part.take("dtype", _text),
        part.take("metric", _word("metric")),
    )
    part.done()
    return index


def _codec(data: object, place: str) -> Codec:
    return Codec(_text(data, place))


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
        index=part.maybe("index", _index),
        codec=part.maybe("codec", _codec),
        lifetime=part.maybe("lifetime", _word("lifetime")) or "session",
    )
    part.done()
    _check_value(spec, value, keys, place)
    return value


def _check_value(spec: ModelSpec, value: ValueSpec, keys: tuple[str, ...], place: str) -> None:
    """Refuse what no schema says: G2 needs it, and a lie about one thing is a lie about all."""
    if (value.bucket == "StateObject") != (value.object is not None):
        raise BadRecordError(f"{place}.object", "an object that is none, or none that is one")
    try:
        StoredType.parse(value.type)
    except StoredTypeError as error:
        raise BadRecordError(f"{place}.type", str(error)) from None
    if (value.object == "RetrievalStore") != (value.index is not None):
        raise BadRecordError(f"{place}.index", "keys of what is no store, or a store without keys")
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
