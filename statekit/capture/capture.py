"""Capture: a session at one moment, to go back to it or to make another one of it.

Owns which values are copied: those of which a schema says that they change where they are, and the
containers of which no schema says anything. Everything else is a reference, so the cost grows with
the number of values, never with their bytes.

    K1  A capture changes nothing. One that cannot be taken leaves nothing behind.
    K2  After `roll_back` the session holds the same objects with the same content as before: what
        came since is gone, what went is back.
    K3  Each capture is ended once, by `roll_back` or `settle`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from statekit.capture.capturable import Capturable
from statekit.capture.picture import Picture
from statekit.errors import PayloadError, UnparkableError
from statekit.objects.encode_once import EncodeOnce
from statekit.objects.engine_handle import EngineHandle
from statekit.objects.fixed_state import FixedState
from statekit.objects.held_value import HeldValue
from statekit.objects.latent_buffer import LatentBuffer
from statekit.objects.retrieval_store import RetrievalStore
from statekit.objects.windowed_kv import WindowedKV
from statekit.spec import Update

if TYPE_CHECKING:
    from statekit.session import SessionState

__all__ = ["Capture", "UncapturedError", "pictures_of"]

_NOTHING_TO_SETTLE = frozenset(
    {EncodeOnce, FixedState, HeldValue, LatentBuffer, RetrievalStore, WindowedKV}
)
_UNDECLARED_CONTAINERS = frozenset({list, dict, set})


class UncapturedError(Exception):
    """A value of the session has no capture; the caller makes the public error of it."""

    def __init__(self, found: str, todo: str) -> None:
        super().__init__(found, todo)
        self.found, self.todo = found, todo


def pictures_of(session: SessionState, attrs: Mapping[str, Any]) -> dict[str, Picture]:
    """Pictures of those carried values that change where they are.

    Raises:
        UncapturedError: one is changed in place, and a part of it can't be copied.
    """
    adopted = session.adopted
    pictures: dict[str, Picture] = {}
    for name, update in adopted.changing.items():
        if attrs.get(name) is not None:
            pictures[name] = _picture(name, attrs[name], update)
    if not adopted.declared.issuperset(attrs):
        for name in attrs.keys() - adopted.declared:
            if type(attrs[name]) in _UNDECLARED_CONTAINERS:
                pictures[name] = Picture(attrs[name], "entries")
    return pictures


def _picture(name: str, value: Any, update: Update) -> Picture:
    try:
        return Picture(value, update)
    except UnparkableError as error:
        found = f"{name!r} is changed in place, and {error.found} at {error.path} cannot be copied"
        raise UncapturedError(found, error.todo) from None


class Capture:
    """One moment of a session.

    Attributes:
        attrs: the carried values by name.
        pictures: of those that change where they are, by name.
        objects: the objects by name.
        memos: what they held, in the same order.
        parameters: the sizes that they were built with, by model.
        past: of the session.

    Raises:
        UncapturedError: a value cannot be captured; nothing was done.
        ParkError: a value is parked and cannot be brought back now.
    """

    __slots__ = (
        "_others",
        "attrs",
        "memos",
        "objects",
        "parameters",
        "past",
        "pictures",
        "session",
    )

    def __init__(self, session: SessionState) -> None:
        self.session = session
        self.attrs = session.attrs.copy()
        self.parameters = session.parameters
        self.past = session.past
        self.objects = cast(dict[str, Any], session.objects)  # Capturable, or see below
        self.pictures = pictures_of(session, self.attrs)
        self.memos: list[Any] = []
        self._others: list[tuple[Any, Any]] = []  # not of our kinds, which have nothing to settle
        try:
            for obj in self.objects.values():
                memo = obj.capture()
                self.memos.append(memo)
                if type(obj) not in _NOTHING_TO_SETTLE:
                    self._others.append((obj, memo))
        except BaseException as error:
            self._give_up(error)
            raise

    def _give_up(self, error: BaseException) -> None:
        """End what was begun; raises the error where it has a better one."""
        name = tuple(self.objects)[len(self.memos)]
        self.settle()
        if isinstance(error, AttributeError) and not isinstance(self.objects[name], Capturable):
            found = f"{name!r} is a {type(self.objects[name]).__name__}, which cannot be captured"
            raise UncapturedError(found, "give the class the methods of Capturable") from None
        if isinstance(error, PayloadError | UnparkableError):
            raise UncapturedError(f"{name!r}: {error.found}", error.todo) from error

    def roll_back(self) -> None:
        """Make the session what it was.

        Raises:
            Exception: what an engine raised that had to give something back; all else is done.
        """
        session = self.session
        session.attrs.clear()
        session.attrs.update(self.attrs)
        for picture in self.pictures.values():
            picture.write_back()
        session.hold(self.objects, self.parameters)
        session.past = self.past
        with ExitStack() as every:
            for obj, memo in zip(self.objects.values(), self.memos, strict=True):
                every.callback(obj.roll_back, memo)

    def settle(self) -> None:
        """The capture is not needed any more: what was done since is done for good.

        Raises:
            Exception: what the first engine raised that was to commit; then all is rolled back. Or
                what another one raised, or one that was to close something; then all else is done.
        """
        if not self._others:
            return
        engines = [pair for pair in self._others if isinstance(pair[0], EngineHandle)]
        with ExitStack() as every:
            for obj, memo in self._others:
                if not isinstance(obj, EngineHandle):
                    every.callback(obj.settle, memo)
            for obj, memo in engines[:0:-1]:
                every.callback(obj.settle, memo)
            if engines:
                self._settle_first(*engines[0], every)

    def _settle_first(self, engine: EngineHandle[Any], memo: Any, others: ExitStack) -> None:
        try:
            engine.settle(memo)
        except BaseException:
            if engine.staged() is not None:  # nothing that cannot be undone has been done
                others.pop_all()
                self.roll_back()
            raise

    def new_attrs(self) -> dict[str, Any]:
        """The carried values for another session."""
        copied = {name: picture.copy() for name, picture in self.pictures.items()}
        return {**self.attrs, **copied}

    def new_objects(self) -> dict[str, Any]:
        """The objects for another session.

        Raises:
            UncapturedError: one of them has no twin.
        """
        twins: dict[str, Any] = {}
        try:
            for (name, obj), memo in zip(self.objects.items(), self.memos, strict=True):
                twins[name] = obj.twin(memo)
        except PayloadError as error:
            raise UncapturedError(f"{name!r}: {error.found}", error.todo) from error
        by_original = {id(obj): twins[name] for name, obj in self.objects.items()}
        for twin in twins.values():
            if twin.recompute_source is not None:
                source = twin.recompute_source
                twin.recompute_source = by_original.get(id(source), source)
        return twins

    def held(self) -> list[Any]:
        """What the capture keeps allocated, for a look at its memory."""
        held: list[Any] = [self.attrs, *(picture.held() for picture in self.pictures.values())]
        for obj, memo in zip(self.objects.values(), self.memos, strict=True):
            held.append(obj.held_by(memo))
        return held
