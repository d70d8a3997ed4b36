"""Fingerprint: what a value was when it was stored, without keeping it alive.

Owns identities of containers and entries, and the sums of bytes of tensors and arrays. A tensor on
a device whose version is unchanged is taken for unchanged; in host memory numpy may have written as
well, so its bytes decide, and bytes alone decide for inference tensors, which have no version.

What counts as a change follows `update`: of a `replaced` value everything, of a value changed by
`entries` what is inside tensors and arrays that are still there, of an `in_place` one nothing.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import torch

from statekit.checking.arrays import is_array, parts_of
from statekit.checking.checksum import bytes_checksum
from statekit.spec import Update

__all__ = ["Fingerprint", "Print"]

_PLAIN = (bool, int, float, str, type(None))


class Print:
    """What one tensor, array or generator was."""

    __slots__ = ("checksum", "form", "of", "path", "version")

    def __init__(self, path: str, array: Any) -> None:
        self.path = path
        self.of: ref[Any] = ref(array)
        self.form, self.version = _form(array), _version(array)
        self.checksum = _checksum(array)

    def change(self, array: Any) -> str | None:
        """What has changed, in words."""
        form = _form(array)
        if form != self.form:
            return f"{self.path or 'it'} was {_words(self.form)} and is {_words(form)}"
        on_host = not isinstance(array, torch.Tensor) or array.is_cpu
        version = _version(array)
        if not on_host and version is not None and version == self.version:
            return None
        if _checksum(array) != self.checksum:
            return f"{self.path or 'it'} was written into"
        self.version = version
        return None


class Fingerprint:
    """What one value, or item of a buffer, was."""

    __slots__ = ("_entries", "_id", "_update", "prints", "site")

    def __init__(self, value: Any, update: Update, site: str) -> None:
        self.site = site
        self._id = id(value)
        self._update = update
        self._entries: list[tuple[str, Any]] = []
        self.prints: dict[int, Print] = {}
        for path, part in parts_of(value):
            self._entries.append((path, _entry(part)))
            if _has_content(part) and update != "in_place":
                self.prints.setdefault(id(part), Print(path, part))

    def is_of(self, value: Any) -> bool:
        """Whether it was taken of this very object, as far as can be told."""
        if id(value) != self._id:
            return False
        own = self.prints.get(self._id)
        return own is None or own.of() is value

    def knows_nothing_of(self, value: Any) -> bool:
        """Whether all tensors and arrays in `value` are others, as after it was parked."""
        parts = [part for _, part in parts_of(value) if _has_content(part)]
        known = [self.prints.get(id(part)) for part in parts]
        pairs = zip(known, parts, strict=True)
        return bool(parts) and all(one is None or one.of() is not part for one, part in pairs)

    def change(self, value: Any) -> str | None:
        """What has changed that should not, in words; what is new and may be is recorded."""
        if self._update == "in_place":
            return None
        now = list(parts_of(value))
        if self._update == "replaced":
            moved = self._other_entries(now)
            if moved is not None:
                return moved
        fresh: dict[int, Print] = {}
        for path, part in now:
            if id(part) in fresh or not _has_content(part):
                continue
            known = self.prints.get(id(part))
            if known is None or known.of() is not part:
                known = Print(path, part)
            else:
                known.path = path
                found = known.change(part)
                if found is not None:
                    return found
            fresh[id(part)] = known
        self.prints = fresh
        return None

    def _other_entries(self, now: list[tuple[str, Any]]) -> str | None:
        if len(now) != len(self._entries):
            return "entries came or went"
        for (path, part), (before, entry) in zip(now, self._entries, strict=True):
            known = self.prints.get(id(part))
            same = known is None or known.of() is part
            if path != before or not same or not _same_entry(_entry(part), entry):
                return f"{path or 'it'} is another object than the one that was stored"
        return None


def _entry(part: Any) -> Any:
    """What stands for a part in the list of entries."""
    if isinstance(part, bytes):
        return bytes, len(part), hash(part)
    if isinstance(part, _PLAIN):
        return type(part), part
    if isinstance(part, (set, frozenset)):
        return id(part), frozenset(map(id, part))
    return id(part)


def _same_entry(one: Any, other: Any) -> bool:
    return one == other or one != one or (type(one) is tuple and one[1] != one[1])


def _has_content(part: Any) -> bool:
    return is_array(part) or isinstance(part, torch.Generator)


def _form(array: Any) -> tuple[Any, Any]:
    """All but the bytes."""
    return (None, None) if isinstance(array, torch.Generator) else (array.shape, array.dtype)


def _words(form: tuple[Any, Any]) -> str:
    return f"{tuple(form[0])} of {str(form[1]).removeprefix('torch.')}"


def _version(array: Any) -> int | None:
    """The number of writes that torch has seen, where it counts them."""
    if not isinstance(array, torch.Tensor) or array.is_inference():
        return None
    return array._version


def _checksum(array: Any) -> int | None:
    if isinstance(array, torch.Generator):
        return bytes_checksum(array.get_state())
    return bytes_checksum(array)
