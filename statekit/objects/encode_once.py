"""EncodeOnce: a value that is computed once and reread until the session or its branch ends."""

from __future__ import annotations

from typing import Any, TypeVar

from statekit.errors import AlreadyEncodedError
from statekit.objects.held_value import HeldValue
from statekit.on_commit import KEEP_AS_IS, OnCommit
from statekit.spec import Update

__all__ = ["EncodeOnce"]

Payload = TypeVar("Payload")
Self = TypeVar("Self", bound="EncodeOnce[Any]")


class EncodeOnce(HeldValue[Payload]):
    """Holds one payload of any type; None is what a reader gets before there is one.

    A second commit is refused: what has been read must not change under its readers. To encode
    anew, `clear()`, or `reset()` and `allocate()`.
    """

    def allocate(
        self: Self, *, on_commit: OnCommit = KEEP_AS_IS, update: Update = "replaced"
    ) -> Self:
        """Set the empty state and return the object.

        Args:
            on_commit: what happens to the payload when it is stored.
            update: `replaced`; whoever rereads a payload does not change it.

        Raises:
            ValueError: `update` says something else.
        """
        if update != "replaced":
            raise ValueError(f"an EncodeOnce is not changed by its readers, got update={update!r}")
        return super().allocate(on_commit=on_commit)

    def stage(self, payload: Payload) -> None:
        """Hold `payload`, in place of one staged before.

        Raises:
            NotAllocatedError: the object is not allocated.
            AlreadyEncodedError: a value is committed already.
            PayloadError: `payload` is None, which means "not encoded yet".
        """
        self._require("stage")
        if self.encoded:
            raise AlreadyEncodedError("EncodeOnce")
        super().stage(payload)

    @property
    def encoded(self) -> bool:
        """Whether a payload is committed, parked or not."""
        return self._held is not None
