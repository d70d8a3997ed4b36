"""Plain: what each kind of value should do, said in a few lines of lists and dicts.

Owns the meaning of the kinds a second time, without statekit's runtime: the state machine compares
the two. Everything is copied on its way in, so a plain value changes only when it is told to.

    K1  `read()` is what a reader gets, with staged data as a commit would leave it.
    K2  No method changes what an earlier `read` returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from statekit.errors import AlreadyEncodedError
from statekit.testing.copies import Copies

__all__ = ["Once", "Plain", "Ring", "Store", "Value", "Window", "copied"]


def copied(value: Any) -> Any:
    """The same, bit for bit, with memory of its own."""
    return Copies().of(value)


class Plain:
    """One value of a session; how a kind differs is in its subclasses."""

    def __init__(self) -> None:
        self.held: Any = self.empty()
        self.waiting: list[Any] = []

    def empty(self) -> Any:
        """What is held where there is nothing."""
        return None

    def after(self, held: Any, payload: Any) -> Any:
        """What is held when `payload` was added to `held`."""
        return payload

    def assigned(self, payload: Any) -> Any:
        """What is held when `payload` was assigned."""
        return payload

    def read(self, *, staged: bool = True) -> Any:
        """What a reader gets."""
        held = self.held
        for payload in self.waiting if staged else ():
            held = self.after(held, payload)
        return held

    def assign(self, payload: Any) -> None:
        """Hold this in place of all else, committed and staged; None is nothing."""
        self.held = self.empty() if payload is None else self.assigned(copied(payload))
        self.waiting = []

    def stage(self, payload: Any) -> None:
        """Hold one more, or another one, until a commit."""
        self.waiting = [*self.waiting, copied(payload)]

    def append(self, payload: Any) -> None:
        """Add one, after those that were staged."""
        self.stage(payload)
        self.commit()

    def commit(self) -> None:
        """Hold for good what is staged."""
        self.held, self.waiting = self.read(), []

    def discard(self) -> None:
        """Forget what is staged."""
        self.waiting = []

    def reset(self) -> None:
        """Hold nothing."""
        self.held, self.waiting = self.empty(), []

    def take(self, held: Any) -> None:
        """Hold what somebody else has found out that it holds."""
        self.held, self.waiting = copied(held), []


class Value(Plain):
    """One payload, the newest: HeldValue and FixedState."""

    def stage(self, payload: Any) -> None:
        """Hold another one until a commit."""
        self.waiting = [copied(payload)]

    def append(self, payload: Any) -> None:
        """Hold this one."""
        self.assign(payload)


class Once(Value):
    """One payload, written once: EncodeOnce."""

    def _require_nothing(self) -> None:
        if self.held is not None:
            raise AlreadyEncodedError("EncodeOnce")

    def stage(self, payload: Any) -> None:
        """Hold it until a commit, unless there is one."""
        self._require_nothing()
        super().stage(payload)

    def assign(self, payload: Any) -> None:
        """Hold it, unless there is one; None clears."""
        if payload is not None:
            self._require_nothing()
        super().assign(payload)


class Ring(Plain):
    """The newest items, or frames along an axis: LatentBuffer."""

    def __init__(self, bound: int | None = None, axis: int | None = None) -> None:
        self._bound, self._axis = bound, axis
        super().__init__()

    def empty(self) -> Any:
        """No item."""
        return []

    def after(self, held: Any, payload: Any) -> Any:
        """With one more item, and without those that the bound has no room for."""
        return self._bounded([*held, payload])

    def assigned(self, payload: Any) -> Any:
        """These items alone."""
        return self._bounded(list(payload))

    def _bounded(self, items: list[Any]) -> list[Any]:
        if self._bound is None:
            return items
        if self._axis is None:
            return items[-self._bound :]
        axis, kept, room = self._axis, [], self._bound
        for item in reversed(items):
            extent = min(item.shape[axis], room)
            if extent:
                ends = [slice(None)] * axis + [slice(item.shape[axis] - extent, None)]
                kept.append(item[tuple(ends)])
            room -= extent
        return kept[::-1]


class Window(Plain):
    """The first entries and the newest, of one tensor or of several: WindowedKV."""

    def __init__(self, bound: int | None, axis: int, sink: int) -> None:
        self._bound, self._axis, self._sink = bound, axis, sink
        super().__init__()

    def stage(self, payload: Any) -> None:
        """Hold another block until a commit."""
        self.waiting = [copied(payload)]

    def append(self, payload: Any) -> None:
        """Add a block; what was staged is dropped."""
        self.held, self.waiting = self.after(self.held, copied(payload)), []

    def after(self, held: Any, payload: Any) -> Any:
        """With one more block."""
        if held is None:
            return self.assigned(payload)
        if isinstance(payload, tuple):
            pairs = zip(held, payload, strict=True)
            return tuple(self._cut(torch.cat(pair, self._axis)) for pair in pairs)
        return self._cut(torch.cat([held, payload], self._axis))

    def assigned(self, payload: Any) -> Any:
        """This block alone."""
        if isinstance(payload, tuple):
            return tuple(map(self._cut, payload))
        return self._cut(payload)

    def _cut(self, entries: torch.Tensor) -> torch.Tensor:
        total = entries.shape[self._axis]
        if self._bound is None or total <= self._bound:
            return entries
        newest = self._bound - self._sink
        first = entries.narrow(self._axis, 0, self._sink)
        last = entries.narrow(self._axis, total - newest, newest)
        return torch.cat([first, last], self._axis)


class Store(Plain):
    """The newest (key, value) pairs, by count or by bytes: RetrievalStore."""

    def __init__(
        self, bound: int | None, nbytes: int | None, cast: Callable[[Any], Any] | None
    ) -> None:
        self._bound, self._nbytes, self._cast = bound, nbytes, cast
        super().__init__()

    def empty(self) -> Any:
        """No entry."""
        return []

    def after(self, held: Any, payload: Any) -> Any:
        """With one more entry."""
        return self._bounded([*held, self._kept(payload)])

    def assigned(self, payload: Any) -> Any:
        """These entries alone."""
        return self._bounded([self._kept(one) for one in payload])

    def _kept(self, entry: Any) -> Any:
        key, value = entry
        return key, _mapped(value, lambda one: one if self._cast is None else _through(one, self))

    def narrow(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor in the form in which it is kept."""
        if self._cast is None or not tensor.is_floating_point():
            return tensor
        narrow: torch.Tensor = self._cast(tensor)
        return narrow

    def _bounded(self, entries: list[Any]) -> list[Any]:
        if self._bound is not None:
            entries = entries[-self._bound :]
        if self._nbytes is None:
            return entries
        kept: list[Any] = []
        room = self._nbytes
        for key, value in reversed(entries):
            sizes: list[int] = [key.nbytes]
            _mapped(value, lambda one: sizes.append(self.narrow(one).nbytes))  # noqa: B023
            room -= sum(sizes)
            if room < 0:
                break
            kept.append((key, value))
        return kept[::-1]


def _through(tensor: torch.Tensor, store: Store) -> torch.Tensor:
    return store.narrow(tensor).to(tensor.dtype)


def _mapped(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_mapped(one, change) for one in value])
    return value
