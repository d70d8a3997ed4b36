"""EncodeOnce: a value that is computed once and reread until the session or its branch ends."""

from __future__ import annotations

from typing import TypeVar

from statekit.accounting import SeenStorages, device_bytes
from statekit.errors import AlreadyEncodedError, NotAllocatedError, PayloadError
from statekit.on_commit import KEEP_AS_IS, OnCommit
from statekit.state_object import StateObject

__all__ = ["EncodeOnce"]

Payload = TypeVar("Payload")


class EncodeOnce(StateObject[Payload, "Payload | None"]):
    """Holds one payload of any type; None is what a reader gets before there is one.

    A second commit is refused: what has been read must not change under its readers. To encode
    anew, `reset()` and `allocate()`.
    """

    def __init__(self) -> None:
        self._allocated = False
        self._on_commit = KEEP_AS_IS
        self._committed: Payload | None = None
        self._staged: Payload | None = None

    def allocate(self, *, on_commit: OnCommit = KEEP_AS_IS) -> EncodeOnce[Payload]:
        """Set the empty state and return the object.

        Args:
            on_commit: what happens to the payload when it is stored.
        """
        self.reset()
        self._allocated, self._on_commit = True, on_commit
        return self

    def stage(self, payload: Payload) -> None:
        """Hold `payload`, in place of one staged before.

        Raises:
            NotAllocatedError: the object is not allocated.
            AlreadyEncodedError: a value is committed already.
            PayloadError: `payload` is None, which means "not encoded yet".
        """
        self._require("stage")
        if self._committed is not None:
            raise AlreadyEncodedError("EncodeOnce")
        if payload is None:
            raise PayloadError("EncodeOnce.stage", "None", "pass the encoded value")
        self._staged = self._on_commit.apply(payload)

    def _promote(self) -> None:
        self._require("commit")
        if self._staged is not None:
            self._committed, self._staged = self._staged, None

    def discard(self) -> None:
        """Drop the staged payload; a committed one stays."""
        self._staged = None

    def view(self, *, include_staged: bool = True) -> Payload | None:
        """The payload, the very object that was stored, or None.

        Raises:
            NotAllocatedError: the object is not allocated.
        """
        self._require("view")
        return self._staged if include_staged and self._staged is not None else self._committed

    def evict(self, policy: object = None) -> int:
        """Drop the committed payload and return its bytes."""
        freed = self._releasable_nbytes()
        self._committed, self._allocated = None, False
        return freed

    def reset(self) -> None:
        """Return to the unallocated state."""
        self._allocated = False
        self._committed = self._staged = None

    @property
    def resident(self) -> bool:
        """Whether the object is allocated, with or without a payload."""
        return self._allocated

    @property
    def encoded(self) -> bool:
        """Whether a payload is committed."""
        return self._committed is not None

    def nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Bytes of the committed payload by device."""
        return device_bytes(self._committed, seen)

    def staged_nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Bytes of the staged payload by device."""
        return device_bytes(self._staged, seen)

    def _require(self, operation: str) -> None:
        if not self._allocated:
            raise NotAllocatedError("EncodeOnce", operation)
