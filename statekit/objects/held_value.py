"""HeldValue: a value that the model assigns whole and reads back, and that may be parked."""

from __future__ import annotations

from typing import Any, TypeVar

from statekit.errors import NotAllocatedError, PayloadError
from statekit.objects.parkable import ParkableObject
from statekit.on_commit import KEEP_AS_IS, OnCommit
from statekit.spec import Update

__all__ = ["HeldValue"]

Payload = TypeVar("Payload")
Self = TypeVar("Self", bound="HeldValue[Any]")


class HeldValue(ParkableObject[Payload, "Payload | None"]):
    """Holds one payload of any type, the newest; None is what a reader gets before there is one.

    A reader gets the very object that was stored, until it has been parked and brought back: then
    an equal one, bit for bit.
    """

    def __init__(self) -> None:
        self._allocated = False
        self._on_commit = KEEP_AS_IS
        self._staged: Payload | None = None

    def allocate(
        self: Self, *, on_commit: OnCommit = KEEP_AS_IS, update: Update = "replaced"
    ) -> Self:
        """Set the empty state and return the object.

        Args:
            on_commit: what happens to a payload when it is stored.
            update: how the model changes the payload that it has read; what is changed where it
                is gets copied when a step begins.
        """
        self.reset()
        self._allocated, self._on_commit, self._update = True, on_commit, update
        return self

    def stage(self, payload: Payload) -> None:
        """Hold `payload` for the window in progress, in place of one staged before.

        Raises:
            NotAllocatedError: the object is not allocated.
            PayloadError: `payload` is None, which means "nothing stored"; to clear, `clear()`.
        """
        self._require("stage")
        if payload is None:
            raise PayloadError(
                f"{type(self).__name__}.stage", "None", "pass a value, or call clear()"
            )
        self._staged = self._on_commit.apply(payload)

    def _promote(self) -> None:
        self._require("commit")
        if self._staged is not None:
            self._hold(self._staged)
            self._staged = None

    def discard(self) -> None:
        """Drop the staged payload; a committed one stays."""
        self._staged = None

    def clear(self) -> None:
        """Hold nothing, neither staged nor committed; the object stays allocated.

        Raises:
            NotAllocatedError: the object is not allocated.
        """
        self._require("clear")
        self._hold(None)
        self._staged = None

    def view(self, *, include_staged: bool = True) -> Payload | None:
        """The payload, or None; a parked one is brought back first.

        Raises:
            NotAllocatedError: the object is not allocated.
            ParkError: it is parked and cannot be brought back now; it stays parked.
        """
        self._require("view")
        if include_staged and self._staged is not None:
            return self._staged
        payload: Payload | None = self._come_back()
        return payload

    def _require(self, operation: str) -> None:
        if not self._allocated:
            raise NotAllocatedError(type(self).__name__, operation)
