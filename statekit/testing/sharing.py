"""Which values share what: one tensor under two names, a list that the caller still holds.

Owns the question whether a write through one name would be seen through another. Two arrays count
as one where they are the same memory from the first byte to the last, whatever their dtype.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from statekit.spec import ModelSpec
from statekit.testing.fields import fields_of

__all__ = ["Places", "Shared", "copied_on_purpose", "lost_or_gained"]

Shared = frozenset[frozenset[str]]
"""Groups of places that are one object or one memory, each of two or more."""

_NEW_ON_READ = ("LatentBuffer", "FixedState", "WindowedKV", "RetrievalStore")


class Places:
    """Where objects were passed in. Whoever uses it keeps them alive."""

    def __init__(self) -> None:
        self._passed: dict[Any, str] = {}

    def passed(self, place: str, value: Any) -> None:
        """Remember what was passed; of several places the first."""
        for where, key in _keys(place, value):
            self._passed.setdefault(key, where)

    def shared(self, values: Iterable[tuple[str, Any]]) -> Shared:
        """The groups of places that are one: of these values by place, and of what was passed."""
        values = list(values)
        groups: dict[Any, set[str]] = {}
        for place, value in values:
            for where, key in _keys(place, value):
                groups.setdefault(key, set()).add(where)
        for key, group in groups.items():
            if key in self._passed:
                group.add(self._passed[key])
        return frozenset(frozenset(group) for group in groups.values() if len(group) > 1)


def lost_or_gained(got: Shared, want: Shared) -> tuple[str, list[str]] | None:
    """The first group that is not in both, as "lost" or "gained" and its places."""
    for what, groups, others in (("lost", want, got), ("gained", got, want)):
        for group in sorted(sorted(one) for one in groups):
            pairs = set(group)
            if not any(pairs <= other for other in others):
                return what, group
    return None


def copied_on_purpose(spec: ModelSpec | None) -> frozenset[str]:
    """The values of which a schema says that they are copied when stored, or made when read."""
    return frozenset(
        value.name
        for value in spec or ()
        if value.on_commit or value.codec or value.object in _NEW_ON_READ
    )


def _keys(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every part of a value that can be written into, by its place."""
    todo, met = [(place, value)], set[int]()
    kept: list[Any] = []
    while todo:
        where, part = todo.pop()
        key = _key_of(part)
        if key is not None:
            yield where, key
        if id(part) not in met:
            met.add(id(part))
            parts = _parts(part)
            kept.append(parts)  # so that no address is met twice
            todo += [(f"{where}{step}", one) for step, one in parts]


def _key_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if not value.numel() or value.is_meta or value.layout is not torch.strided:
            return None
        return (str(value.device), value.data_ptr(), value.numel() * value.element_size())
    if isinstance(value, np.ndarray):
        return ("cpu", value.__array_interface__["data"][0], value.nbytes) if value.nbytes else None
    if isinstance(value, (list, dict, set)) or hasattr(value, "maxlen"):
        return id(value)
    return None


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", one) for key, one in value.items()]
    if isinstance(value, (list, tuple)) or hasattr(value, "maxlen"):
        return [(f"[{index}]", one) for index, one in enumerate(value)]
    return [(f".{name}", one) for name, one in (fields_of(value) or {}).items()]
