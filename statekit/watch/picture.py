"""What the live view shows: a manager at one moment, as data that goes through JSON and back.

Owns the classes, and the reading of them from data that nobody has checked. Loads without torch.

    D1  What `read` returns has every field, of the type that it is annotated with; numbers are
        none below zero, and none that a screen or a clock could not show.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, Union

import attrs

__all__ = ["Device", "Happening", "Picture", "Session", "Value", "read"]

Read = TypeVar("Read")


@attrs.frozen
class Session:
    """One session: `nbytes` by device with what is parked, `parked` by tier.

    `idle_s` is None for one that is used without leases; `listed` says whether it is in the table,
    or was evicted and is still held by somebody.
    """

    session_id: str
    model: str
    leases: int
    idle_s: float | None
    listed: bool
    nbytes: Mapping[str, int]
    parked: Mapping[str, int]

    @property
    def total(self) -> int:
        """Bytes on all devices."""
        return sum(self.nbytes.values())


@attrs.frozen
class Device:
    """What all sessions hold on a device, memory that several hold counted once."""

    device: str
    nbytes: int
    budget: int | None


@attrs.frozen
class Happening:
    """An event: the server's count of them, wall clock in seconds, what kind, in words."""

    number: int
    at: float
    kind: str
    warning: bool
    text: str


@attrs.frozen
class Value:
    """A value of one session: where it is, its bytes by device, what would be done with it next."""

    value: str
    bucket: str
    where: str
    nbytes: Mapping[str, int]
    next: str


@attrs.frozen
class Picture:
    """A manager at one moment.

    `sessions` are the first of `session_count` by the order that was asked for; `values` those of
    the session `values_of`, None where it is not there.
    """

    pid: int
    name: str
    session_count: int
    max_sessions: int
    leases: int
    hits: int
    misses: int
    evictions: int
    devices: tuple[Device, ...]
    parked: Mapping[str, int]
    sessions: tuple[Session, ...]
    happenings: tuple[Happening, ...]
    values_of: str | None
    values: tuple[Value, ...] | None


def read(cls: type[Read], data: object, path: str = "$") -> Read:
    """An instance of `cls` with what `data`, parsed from JSON, says; other keys are ignored.

    Raises:
        ValueError: something is missing or of another type; says where.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{path}: a {type(data).__name__}, not an object")
    values = {}
    for name, hint in _hints(cls).items():
        if name not in data:
            raise ValueError(f"{path}.{name}: missing")
        values[name] = _read(hint, data[name], f"{path}.{name}")
    return cls(**values)


_LIMITS: dict[type, float] = {int: 2**63, float: 1e11}
"""Bytes, and seconds since 1970, that are no mistake."""
_known: dict[type, dict[str, Any]] = {}


def _hints(cls: type) -> dict[str, Any]:
    found = _known.get(cls)
    if found is None:
        found = _known[cls] = typing.get_type_hints(cls)
    return found


def _read(hint: Any, data: object, path: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return None if data is None else _read(arguments[0], data, path)
    if origin is tuple:
        if not isinstance(data, list):
            raise ValueError(f"{path}: a {type(data).__name__}, not a list")
        return tuple(_read(arguments[0], one, f"{path}[{i}]") for i, one in enumerate(data))
    if origin is not None:
        if not isinstance(data, dict):
            raise ValueError(f"{path}: a {type(data).__name__}, not an object")
        return {key: _read(arguments[1], one, f"{path}.{key}") for key, one in data.items()}
    if attrs.has(hint):
        return read(hint, data, path)
    if hint is float and type(data) is int and abs(data) < _LIMITS[int]:
        data = float(data)
    if type(data) is not hint:
        raise ValueError(f"{path}: a {type(data).__name__}, not {hint.__name__}")
    if (type(data) is int or type(data) is float) and not 0 <= data < _LIMITS[hint]:
        raise ValueError(f"{path}: a number below 0, or of no use")
    return data
