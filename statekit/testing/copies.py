"""Copies: what crosses the border of a state object, copied, and what became of it later.

Owns the question which object is which. A tensor or list that was seen before and holds the same
gets the same copy again; one that was changed since gets a new copy, and the pair is noted.

    Y1  What is copied shares no memory with what lives.
    Y2  Whoever holds a tensor or an array alone lets go of it: only weak references are kept.
        Containers and their entries are held, so that no address is used again unseen.
    Y3  `changed` tells of each change once.

A tensor is known to be unchanged by torch's count of the writes into it, which sees neither
`tensor.data` nor memory shared with an array; `thorough` compares the bytes instead.
"""

from __future__ import annotations

import copy
import enum
import random
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import torch

from statekit.testing.elements import as_flat_array
from statekit.testing.fields import fields_of, has_own_equality, set_fields

__all__ = ["Change", "Copies", "Unseen", "copied_leaf", "fill", "is_leaf", "parts_of", "shell_of"]

_CONTAINERS = (list, tuple, dict, OrderedDict, defaultdict, deque, set, frozenset)
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.Size, torch.dtype, torch.device)
_GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


@attrs.frozen
class Unseen:
    """Stands in a trace for what has no copy (an iterator, a lock): its kind alone is known."""

    kind: str


@attrs.frozen(eq=False)
class Change:
    """An object that holds something else than before: its copies from before and after.

    `own` tells a change of itself from one of something in it.
    """

    before: Any
    after: Any
    own: bool


class _Known:
    """One object that was met."""

    __slots__ = ("copy", "live", "mark", "parts")

    def __init__(self, live: Callable[[], Any], copied: Any, mark: Any, parts: list[Any]) -> None:
        self.live, self.copy, self.mark, self.parts = live, copied, mark, parts


class Copies:
    """The copies of one run. One thread at a time."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._changes: list[Change] = []
        self._open: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """The copy of `value`: the one there is, where it holds the same as then."""
        if isinstance(value, _PLAIN):
            return value
        if is_leaf(value):
            return self._of_leaf(value)
        if type(value) in _CONTAINERS or _is_named_tuple(value) or fields_of(value) is not None:
            return self._of_container(value)
        return _without_parts(value)

    def changes(self) -> list[Change]:
        """The changes that were found since the last call, what is in a container before it."""
        found, self._changes = self._changes, []
        return found

    def look(self, *, thorough: bool = False) -> None:
        """Find what was changed: tensors, arrays and generators, and containers' own entries."""
        for key in tuple(self._known):
            known = self._known[key]  # as it is now: what holds it may have come before
            live = known.live()
            if live is None:
                self._known.pop(key, None)
            elif is_leaf(live):
                if _is_changed(live, known, thorough):
                    self._renew(live, known)
            elif not _same_parts(parts_of(live), known.parts):
                self.of(live)

    def _of_leaf(self, value: Any) -> Any:
        known = self._at(value)
        if known is not None and not _is_changed(value, known, thorough=False):
            return known.copy
        return self._renew(value, known)

    def _renew(self, value: Any, known: _Known | None) -> Any:
        new = copied_leaf(value)
        self._keep(value, new, _mark_of(value), [])
        if known is not None:
            self._changes.append(Change(known.copy, new, own=True))
        return new

    def _of_container(self, value: Any) -> Any:
        if id(value) in self._open:  # a cycle
            return self._open[id(value)]
        known, parts = self._at(value), parts_of(value)
        shell = shell_of(value)
        if shell is not None:
            self._open[id(value)] = shell
        try:
            copies = [self.of(part) for part in parts]
            if known is not None and _same_parts(copies, parts_of(known.copy)):
                return known.copy
            if shell is None and _same_parts(copies, parts):
                return value  # a tuple of plain values
            new = fill(value, shell, copies)
        finally:
            self._open.pop(id(value), None)
        self._keep(value, new, None, parts)
        if known is not None:
            own = not _same_parts(parts, known.parts)
            self._changes.append(Change(known.copy, new, own))
        return new

    def _at(self, value: Any) -> _Known | None:
        known = self._known.get(id(value))
        return known if known is not None and known.live() is value else None

    def _keep(self, value: Any, new: Any, mark: Any, parts: list[Any]) -> None:
        live: Callable[[], Any] = (lambda: value) if not is_leaf(value) else _weakly(value)
        self._known[id(value)] = _Known(live, new, mark, parts)


def is_leaf(value: Any) -> bool:
    """Whether `value` can change, but holds no other values."""
    return isinstance(value, (torch.Tensor, np.ndarray, *_GENERATORS))


def copied_leaf(value: Any) -> Any:
    """A tensor, array or generator with the same bits, and no memory in common."""
    if isinstance(value, torch.Tensor):
        return _copied_tensor(value)
    if isinstance(value, torch.Generator):
        return torch.Generator(value.device).set_state(value.get_state())
    return copy.deepcopy(value)


def _copied_tensor(value: torch.Tensor) -> torch.Tensor:
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
        return copy.deepcopy(value.detach())
    with torch.inference_mode(False), torch.no_grad():
        new = torch.empty_like(value, requires_grad=False)
        new.copy_(value)
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(new, value.requires_grad)
    return new.requires_grad_(value.requires_grad)


def parts_of(value: Any) -> list[Any]:
    """What a container or an instance holds, keys and names aside members, in its order."""
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    fields = None if isinstance(value, (list, tuple, set, frozenset, deque)) else fields_of(value)
    if fields is not None:
        return [part for pair in fields.items() for part in pair]
    return list(value)


def shell_of(value: Any) -> Any:
    """An empty container or instance of the same kind; None for what cannot be filled later."""
    if isinstance(value, (tuple, frozenset)):
        return None
    if isinstance(value, deque):
        return deque(maxlen=value.maxlen)
    if isinstance(value, defaultdict):
        return defaultdict(value.default_factory)
    if type(value) in _CONTAINERS:
        return type(value)()
    kind: Any = type(value)
    try:
        return object.__new__(kind)
    except TypeError:  # an exception, a namespace: with memory of its own
        return kind.__new__(kind)


def fill(like: Any, shell: Any, parts: list[Any]) -> Any:
    """Give `shell` these parts in place of its own (where there is none, make one like `like`)."""
    if isinstance(like, (tuple, frozenset)):
        return type(like)(*parts) if _is_named_tuple(like) else type(like)(parts)
    if isinstance(like, dict):
        shell.clear()
        shell.update(zip(parts[::2], parts[1::2], strict=True))
    elif isinstance(like, set):
        shell.clear()
        shell.update(parts)
    elif isinstance(like, (list, deque)):
        shell.clear()
        shell.extend(parts)
    else:
        set_fields(shell, dict(zip(parts[::2], parts[1::2], strict=True)))
    return shell


def _without_parts(value: Any) -> Any:
    """What has no parts that we know: plain values and functions as they are, others unseen."""
    if isinstance(value, (np.generic, enum.Enum, type)) or callable(value):
        return value
    if not has_own_equality(type(value)) and type(value) is not object:
        return Unseen(f"{type(value).__module__}.{type(value).__qualname__}")
    return value


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _same_parts(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        a is b or (isinstance(a, _PLAIN) and type(a) is type(b) and _equal(a, b))
        for a, b in zip(one, other, strict=True)
    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)  # tells -0.0 from 0.0, and a NaN from a number
    return bool(one == other)


def _weakly(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _mark_of(value: Any) -> Any:
    """What tells, without a look at the bytes, that nobody has written; None where nothing does."""
    if isinstance(value, torch.Tensor) and not value.is_inference():
        return (value._version, value.data_ptr() if value.layout is torch.strided else 0)
    return None


def _is_changed(value: Any, known: _Known, thorough: bool) -> bool:
    mark = _mark_of(value)
    if mark is not None and mark == known.mark and not thorough:
        return False
    if not isinstance(value, (torch.Tensor, np.ndarray)):
        return bool(_state_of(value) != _state_of(known.copy))
    held = known.copy
    if value.shape != held.shape or value.dtype != held.dtype or not _same_bytes(value, held):
        return True
    known.mark = mark  # written were other parts of the memory, or the same bits
    return False


def _same_bytes(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and (one.is_meta or one.layout is not torch.strided):
        return one is other or not one.is_meta
    if isinstance(one, np.ndarray) and one.dtype.hasobject:
        return all(a is b for a, b in zip(one.flat, other.flat, strict=True))
    return bool(np.array_equal(as_flat_array(one), as_flat_array(other)))


def _state_of(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return bytes(as_flat_array(generator.get_state()))
    if isinstance(generator, np.random.Generator):
        return repr(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return repr(generator.get_state())
    return generator.getstate()
