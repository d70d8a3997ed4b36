"""Faults: the n-th access, commit, park, restore or file write of statekit fails, on purpose.

Owns where statekit can be made to fail, and how. What a test then asks: is the session what it was
before (`statekit.testing.held`)?

    F1  A fault comes before the thing is done: what fails has not been done at all.
    F2  After the block nothing of it is left: every method and function is the one it was.

One block at a time in a process: methods of classes are replaced while it runs.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

from statekit.adapter import StateAdapter
from statekit.errors import ParkError
from statekit.parking.disk import DiskParked, DiskTier
from statekit.parking.host import HostParked, HostTier
from statekit.session import SessionState
from statekit.state_object import StateObject
from statekit.testing.held import assert_unchanged, holding

__all__ = ["FaultError", "Faults", "Injection", "Point"]

Point = Literal["access", "commit", "park", "restore", "write"]
"""What fails: a read or write of a value through an adapter, its object or its session; a commit of
an object; the beginning of a park, or of a restore; a write to a file (a full disk)."""

_SESSION = ("get", "get_or_create", "put", "claim_parameters", "reset", "reset_objects")
_COMMITS = ("commit", "append", "extend", "replace", "_promote")
_CALLS = (*_COMMITS, "stage", "discard", "view", "joined", "clear", "reset", "evict", "_hold")
_WRITES = ("pwrite", "fsync", "fdatasync", "replace")


class FaultError(Exception):
    """What is raised where a fault was asked for."""


class Injection:
    """The faults of one block.

    Attributes:
        count: how often the point was reached.
        happened: whether the fault came.
    """

    def __init__(self, nth: int | None, error: Callable[[], BaseException]) -> None:
        self.count = 0
        self.happened = False
        self._nth = nth
        self._error = error
        self._lock = threading.Lock()

    def reach(self) -> None:
        """Fail here, if it is the turn of this one."""
        with self._lock:
            number, self.count = self.count, self.count + 1
            fails = number == self._nth
            self.happened = self.happened or fails
        if fails:
            raise self._error()


class Faults:
    """Makes statekit fail where a test wants it to."""

    @contextmanager
    def failing(
        self, point: Point, nth: int | None = 0, error: BaseException | None = None
    ) -> Iterator[Injection]:
        """Within the block the `nth` time that the point is reached fails; None only counts.

        Args:
            error: what is raised; else a FaultError, a ParkError, or an OSError of a full disk.

        Raises:
            ValueError: there is no such point.
        """
        if point not in get_args(Point):
            raise ValueError(f"no point {point!r}; use one of {', '.join(get_args(Point))}")
        injection = Injection(nth, lambda: _error_of(point) if error is None else error)
        undo: list[Callable[[], None]] = []
        try:
            for owner, name in _places(point):
                undo.append(_replace(owner, name, point, injection))
            yield injection
        finally:
            for one in reversed(undo):
                one()

    def everywhere(
        self, run: Callable[[], object], state: SessionState | StateAdapter, point: Point = "access"
    ) -> int:
        """Fail `run` at each place that it reaches, one after the other, and then let it pass.

        After each failure the session has to be what it was before, bit for bit and object for
        object. A fault that `run` takes without failing is none of it: it is expected to raise.

        Returns how often it failed; 0 means that it never reaches the point.

        Raises:
            AssertionError: the session has changed, or `run` went on in spite of a fault.
        """
        failed = 0
        while True:
            before = holding(state)
            with self.failing(point, failed) as injection:
                try:
                    run()
                except Exception:
                    if not injection.happened:
                        raise
                else:
                    if not injection.happened:
                        return failed
                    raise AssertionError(f"{point} {failed} failed, and nobody was told")
            try:
                assert_unchanged(state, before)
            except AssertionError as error:
                raise AssertionError(f"after {point} {failed} failed: {error}") from None
            failed += 1


def _error_of(point: Point) -> BaseException:
    if point in ("park", "restore"):
        return ParkError("fake", point, "a fault was asked for", "expect it in the test")
    if point == "write":
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return FaultError(f"{point}: a fault was asked for")


def _places(point: Point) -> Iterator[tuple[Any, str]]:
    """The methods and functions that reach a point."""
    if point == "write":
        yield from ((os, name) for name in _WRITES if hasattr(os, name))
    elif point == "park":
        yield from ((tier, "begin_park") for tier in (DiskTier, HostTier))
    elif point == "restore":
        yield from ((parked, "begin_restore") for parked in (DiskParked, HostParked))
    else:
        names = _COMMITS if point == "commit" else _CALLS
        for kind in _kinds(StateObject):
            yield from ((kind, name) for name in names if name in vars(kind))
        if point == "access":
            yield from ((SessionState, name) for name in _SESSION)
            yield StateAdapter, "__getattribute__"
            yield StateAdapter, "__setattr__"


def _kinds(base: type[Any]) -> Iterator[type[Any]]:
    kinds: list[type[Any]] = base.__subclasses__()
    for kind in kinds:
        yield kind
        yield from _kinds(kind)


def _replace(owner: Any, name: str, point: Point, injection: Injection) -> Callable[[], None]:
    """Put a method that can fail in the place of one; what puts that back."""
    own = name in vars(owner)
    original = getattr(owner, name)

    def reaches(*args: Any) -> bool:
        if owner is StateAdapter:
            return _is_value(args[0], args[1])
        if owner is os:
            caller = sys._getframe(2).f_globals.get("__name__", "")
            return str(caller).startswith("statekit.")
        return True

    def method(*args: Any, **kwargs: Any) -> Any:
        if reaches(*args):
            injection.reach()
        return original(*args, **kwargs)

    setattr(owner, name, method)
    return lambda: setattr(owner, name, original) if own else delattr(owner, name)


def _is_value(adapter: Any, name: str) -> bool:
    values = type(adapter).SPEC.values
    name = name.removesuffix("_object")
    return any(value.name == name for value in values)
