"""The check of keys and members in a recipe from elsewhere: what hashing them will take.

Owns invariant H4 of `statekit.image.check`. Python hashes a tuple by what it holds, each time anew:
a small graph of tuples can take without end, a deep one overflows the stack, and keys that were
chosen to have one hash are compared each with each. Needs neither torch nor numpy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import attrs

from statekit.image.fault import require

__all__ = ["Hashing"]

_MAX_WORK = 1 << 24
_MAX_DEPTH = 200  # Python hashes a tuple in a tuple by recursion, without looking at its stack
_MAX_ALIKE = 256  # of one container; text and bytes are hashed with a secret of the process
_NAMED = frozenset(["scalar", "dtype", "device"])
_UNHASHABLE = frozenset(["list", "dict", "ordered_dict", "set", "deque", "array"])


@attrs.frozen
class _Hashed:
    """What hashing a value takes, how deep it goes, and a number that is one where hashes are."""

    work: int
    depth: int
    alike: int


class Hashing:
    """The hashing of the values of some nodes, counted."""

    def __init__(self, nodes: list[Any]) -> None:
        self._nodes = nodes
        self._known: dict[int, _Hashed | None] = {}
        self._work_left = _MAX_WORK

    def add(self, index: int, kind: str, children: list[int]) -> None:
        """Take note of a tuple or frozenset; those that it holds were noted before."""
        parts = [self._of(child) for child in children]
        hashed = [part for part in parts if part is not None]
        if len(hashed) < len(parts):
            self._known[index] = None
        elif kind == "frozenset":  # has the hashes of its members
            alike = hash(frozenset(part.alike for part in hashed))
            self._known[index] = _Hashed(1 + len(parts), 0, alike)
        else:
            work = 1 + sum(part.work for part in hashed)
            depth = 1 + max((part.depth for part in hashed), default=0)
            alike = hash(tuple(part.alike for part in hashed))
            self._known[index] = _Hashed(min(work, _MAX_WORK + 1), depth, alike)

    def require_keys(self, children: Iterable[int]) -> None:
        """Count what a container hashes for its keys or members. Raises: BadRecipeError."""
        alike: Counter[int] = Counter()
        for child in children:
            hashed = self._of(child)
            require(hashed is not None, "a key or member that cannot be one")
            assert hashed is not None
            require(hashed.depth <= _MAX_DEPTH, "a key or member of tuples nested too deep")
            self._work_left -= hashed.work
            require(self._work_left >= 0, "keys or members that take too long to hash")
            alike[hashed.alike] += 1
        most = max(alike.values(), default=0)
        require(most <= _MAX_ALIKE, "too many keys or members of one hash")

    def _of(self, index: int) -> _Hashed | None:
        if index in self._known:
            return self._known[index]
        kind, *data = self._nodes[index]
        if kind in _UNHASHABLE:
            return None
        if kind == "size":
            return _Hashed(1 + len(data[0]), 0, hash(tuple(data[0])))
        if kind == "int" and isinstance(data[0], str):
            number = int(data[0], 16)
            self._known[index] = _Hashed(1 + number.bit_length() // 64, 0, hash(number))
            return self._known[index]
        if kind == "int":
            return _Hashed(1, 0, hash(data[0]))
        if kind in ("float", "complex") and all(type(part) is float for part in data):
            return _Hashed(1, 0, hash(complex(*data)))
        if kind in ("bool", "none"):
            return _Hashed(1, 0, hash(tuple(data)) if kind == "none" else hash(data[0]))
        return _Hashed(1, 0, hash((kind, str(data))) if kind in _NAMED else index)
