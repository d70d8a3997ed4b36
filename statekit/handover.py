"""Hand-over: passing a session's state through fields of an object that all sessions share.

Storing state by session does not isolate sessions where it reaches the model through fields of
one transformer: between load and capture, another thread may load its own. Owns the lock of each
such object, and that its fields are afterwards what they were before. Not here: what is put into
the fields (the adapter of the model).

    H1  Of all bodies under `hand_over` of one object, one runs at a time; other objects don't wait.
    H2  When the body has ended, in whatever way, the fields are as they were before it.
    H3  A lock lives as long as its object, and keeps no object alive.

Thread rule: thread-safe. A thread that hands over several objects at once must take them in the
same order as all others do, or pass `timeout_s`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from statekit.errors import HandOverError, HandOverTimeoutError

__all__ = ["hand_over"]

_ABSENT = object()


@contextmanager
def hand_over(
    owner: object, fields: Sequence[str], *, timeout_s: float | None = None
) -> Iterator[None]:
    """Have `owner` alone while the body loads its fields, runs it and captures what it left.

    The body covers all three; a field that it does not load still holds what was there before.
    Afterwards, also after an error, the fields are set back, and those that were absent deleted.

    Args:
        owner: an object that can be referred to weakly, such as an `nn.Module`.
        fields: names of the attributes through which state is passed.
        timeout_s: how long to wait for other threads at most; None waits as long as it takes.

    Raises:
        HandOverError: this thread hands `owner` over already (two tasks of one event loop would).
        HandOverTimeoutError: other threads had `owner` for `timeout_s`; nothing was touched.
        TypeError: `fields` is one string, or `owner` cannot be referred to weakly.
    """
    if isinstance(fields, str):
        raise TypeError(f"fields must be a sequence of names, got the string {fields!r}")
    turn = _turn_of(owner)
    turn.begin(owner, timeout_s)
    with ExitStack() as afterwards:
        afterwards.callback(turn.end)
        for field in fields:
            afterwards.callback(_set_back, owner, field, getattr(owner, field, _ABSENT))
        yield


def _set_back(owner: Any, field: str, before: object) -> None:
    now = getattr(owner, field, _ABSENT)
    if now is before:
        return
    if before is _ABSENT:
        delattr(owner, field)
    else:
        setattr(owner, field, before)


class _Turn:
    """Whose turn it is with one object."""

    __slots__ = ("_lock", "_thread")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None

    def begin(self, owner: object, timeout_s: float | None) -> None:
        # No other thread can make the two equal, so this needs no lock.
        if self._thread == threading.get_ident():
            raise HandOverError(
                _name(owner),
                "this thread hands it over already",
                "end that hand-over first; do not await inside it",
            )
        if not self._lock.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0)):
            raise HandOverTimeoutError(
                _name(owner),
                f"other threads had it for {timeout_s} s",
                "pass a longer timeout_s, or see what holds it up",
            )
        self._thread = threading.get_ident()

    def end(self) -> None:
        self._thread = None
        self._lock.release()


_turns: dict[int, tuple[weakref.ref[object], _Turn]] = {}
"""By identity: an object's own `__eq__` and `__hash__` say nothing about its fields."""
_turns_lock = threading.Lock()


def _turn_of(owner: object) -> _Turn:
    key = id(owner)
    with _turns_lock:
        found = _turns.get(key)
        if found is None:
            # The callback takes no lock (it may run anywhere, also in here); an id is free for
            # another object only after the callback has run.
            reference = weakref.ref(owner, lambda _: _turns.pop(key, None))
            found = _turns.setdefault(key, (reference, _Turn()))
        return found[1]


def _name(owner: object) -> str:
    return f"{type(owner).__name__} at {id(owner):#x}"
