"""The StateObject contract: one typed unit of a session's state that a manager can act on.

Owns the contract and what follows from it for every kind (two-phase writes, bytes as sums).
Not here: how a kind keeps its data (`statekit.objects`), or when to act (`statekit.manager`).
Speaks of bytes, growth, read views, commitment and release; never of tokens, layers, attention.

    S1  `discard` never touches committed data; staged data is invisible to `evict` and `nbytes`.
    S2  `view()` before `commit()` equals `view()` after it, for every kind.
    S3  A write that raises has changed nothing.
    S4  `evict` and `reset` leave the object unallocated: `resident` is False.

Thread rule: one thread at a time may write; others may read and count bytes meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from statekit.accounting import SeenStorages

__all__ = ["StateObject"]

Payload = TypeVar("Payload")
View = TypeVar("View")


class StateObject(ABC, Generic[Payload, View]):
    """A value of a session that the manager can stage, commit, release and count.

    Attributes:
        recompute_source: the object that this one can be rebuilt from; None means that it can't.
        recompute_cost: work to rebuild while the source is resident, in any one unit per model.
        written: another object after every write, for a kind whose readers cannot change what it
            holds; None: what it holds has to be looked at.
    """

    recompute_source: StateObject[Any, Any] | None = None
    recompute_cost: float | None = None
    written: object | None = None

    @abstractmethod
    def allocate(self) -> StateObject[Payload, View]:
        """Set the empty state and return the object; sizes are keyword arguments of the kind."""

    @abstractmethod
    def stage(self, payload: Payload) -> None:
        """Hold `payload` for the window in progress; `commit` promotes it, `discard` drops it.

        Raises:
            NotAllocatedError: the object is not allocated.
            PayloadError: the payload does not fit; nothing was staged.
        """

    @abstractmethod
    def _promote(self) -> None:
        """Make what is staged committed; must leave all as it was if it raises."""

    @abstractmethod
    def discard(self) -> None:
        """Drop what is staged; committed data stays."""

    @abstractmethod
    def view(self, *, include_staged: bool = True) -> View:
        """What a reader gets, with staged data as if it were committed, or without it.

        Raises:
            NotAllocatedError: the object is not allocated.
        """

    @abstractmethod
    def evict(self, policy: object = None) -> int:
        """Give the committed storage back; the bytes that this object no longer holds.

        Staged data stays. Only for a caller who knows that nobody uses the object.
        """

    @abstractmethod
    def reset(self) -> None:
        """Return to the unallocated state; staged and committed data are dropped."""

    @property
    @abstractmethod
    def resident(self) -> bool:
        """Whether the object is allocated."""

    @abstractmethod
    def nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Bytes of committed storage by device; storages that `seen` has met count nothing."""

    @abstractmethod
    def staged_nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Bytes of staged storage by device, less what `seen` has met."""

    def commit(self, payload: Payload | None = None) -> None:
        """Promote what is staged, after staging `payload` where one is given.

        Raises: as `stage`; then what was staged before stays staged, nothing is committed.
        """
        if payload is None:
            self._promote()
        else:
            self.append(payload)

    def append(self, payload: Payload) -> None:
        """Stage and commit in one.

        Raises: as `stage`; then nothing was changed.
        """
        self.stage(payload)
        self._promote()

    def committed(self) -> Any:
        """What the object holds, for a look at its memory; itself, where only it can tell."""
        return self

    def staged(self) -> Any:
        """What is staged, for a look at its memory; None where nothing is."""
        return getattr(self, "_staged", None)

    @property
    def nbytes(self) -> int:
        """Committed bytes over all devices; for a budget use `nbytes_by_device`."""
        return sum(self.nbytes_by_device().values())

    def _releasable_nbytes(self) -> int:
        """Committed bytes that staged data does not hold as well."""
        seen = SeenStorages()
        self.staged_nbytes_by_device(seen)
        return sum(self.nbytes_by_device(seen).values())

    @property
    def recomputable(self) -> bool:
        """Whether the object could be rebuilt now: its source is resident."""
        return self.recompute_source is not None and self.recompute_source.resident
