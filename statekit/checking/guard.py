"""The guard: sees the operations of torch that write, before they do.

Owns the question whether an argument that an operation writes into shares an element with a value
that may not be written into, for the thread that entered it. Not seen: numpy, compiled code and
kernels that do not go through torch's dispatcher, other threads, and what an operation of several
writes inside itself in inference mode (batch norm's running statistics). Fingerprints find those
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from threading import get_ident, local
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from statekit.accounting import SeenStorages
from statekit.checking.arrays import device_of, is_array
from statekit.checking.book import Book, Watched, book_of, remedy
from statekit.checking.overlap import Bounds, bounds_of, share_an_element
from statekit.session import SessionState

__all__ = ["guarded"]


@contextmanager
def guarded(session: SessionState) -> Iterator[None]:
    """Raise at writes into the values of `session`; see `statekit.checking.watch`."""
    book = book_of(session)
    guard = _of_this_thread()
    if book not in guard.shelves:
        book.look()
    guard.begin(book)
    try:
        yield
    finally:
        guard.end(book)


class _Shelf:
    """What one book has watched, with where it lies; and how often it was entered."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.entered = 0
        self._edition: object = None
        self._ranges = SeenStorages()
        self._watched: list[tuple[str, Bounds, Watched]] = []

    def near(self, device: str, start: int, end: int) -> list[Watched]:
        """What is watched within these addresses, or around them."""
        if self._edition is not self.book.edition:
            self._edition = self.book.edition
            self._list_anew()
        if not self._ranges.meets(device, start, end - start):
            return []  # nearly always
        return [
            watched
            for where, (first, last), watched in self._watched
            if where == device and first < end and start < last
        ]

    def _list_anew(self) -> None:
        self._ranges, self._watched = SeenStorages(), []
        for watched in self.book.watched():
            array = watched.print.of()
            bounds = bounds_of(array) if is_array(array) else None
            if bounds is not None:
                device, (start, end) = device_of(array), bounds
                self._ranges.cover(device, start, end - start, None)
                self._watched.append((device, bounds, watched))


class _Guard(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Looks at what operations of one thread write into.

    One for all sessions of a thread, since tasks of an event loop do not end in the order in which
    torch wants modes to end. What is ended from another thread leaves it there, without a session.
    """

    supports_higher_order_operators = True  # which have no schema, and run as without a guard

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True: compiled code stays compiled, and gives the bits that it gives without a guard."""
        return True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shelves: dict[Book, _Shelf] = {}
        self._thread = get_ident()
        self._active = False

    def begin(self, book: Book) -> None:
        """Guard the session of `book`, until `end` was called as often."""
        self.shelves.setdefault(book, _Shelf(book)).entered += 1
        if not self._active:
            self._active = True
            self.__enter__()  # type: ignore[no-untyped-call]

    def end(self, book: Book) -> None:
        """See `begin`."""
        shelf = self.shelves[book]
        shelf.entered -= 1
        if not shelf.entered:
            del self.shelves[book]
        if not self.shelves and get_ident() == self._thread:
            self._active = False
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        for place, name in _written(func):
            argument = args[place] if place < len(args) else kwargs.get(name)
            for one in argument if isinstance(argument, (list, tuple)) else (argument,):
                if isinstance(one, torch.Tensor):
                    self._refuse(func, one)
        return func(*args, **kwargs)

    def _refuse(self, func: Any, written: torch.Tensor) -> None:
        bounds = bounds_of(written)
        if bounds is None:
            return
        device = device_of(written)
        for shelf in tuple(self.shelves.values()):
            for watched in shelf.near(device, *bounds):
                _refuse_if_held(shelf.book, watched, func, written)


def _refuse_if_held(book: Book, watched: Watched, func: Any, written: torch.Tensor) -> None:
    """Raise, unless what is watched only lies near, or is no part of its value any more."""
    array = watched.print.of()
    if array is None or not share_an_element(written, array):
        return
    if book.still_holds(watched, array):
        what = f"{func} writes into {watched.print.path or 'it'}"
        update = watched.place.declaration.update
        raise book.error(watched.place, f"{what}, declared `update: {update}`", remedy(what))


def _of_this_thread() -> _Guard:
    guard: _Guard | None = getattr(_threads, "guard", None)
    if guard is None:
        guard = _threads.guard = _Guard()
    return guard


_threads = local()


@cache
def _written(func: Any) -> tuple[tuple[int, str], ...]:
    """The arguments that `func` writes into: place among the positional ones, and name."""
    schema = getattr(func, "_schema", None)
    return tuple(
        (place, argument.name)
        for place, argument in enumerate(() if schema is None else schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
