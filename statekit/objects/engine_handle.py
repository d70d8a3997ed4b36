"""EngineHandle: a session's share of storage that another component owns, such as a paged pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Protocol, TypeVar, cast

import attrs

from statekit.accounting import SeenStorages, merge_bytes
from statekit.errors import NotAllocatedError, PayloadError
from statekit.state_object import StateObject

__all__ = ["EngineHandle", "EngineOwned", "EngineStages"]

Chunk = TypeVar("Chunk")


class EngineOwned(Protocol):
    """What one session holds of an engine's storage; its owner is the engine.

    Its `nbytes_by_device` takes no record of what has been counted, so a session that refers to it
    from a carried value as well does not count it a second time.
    """

    def nbytes_by_device(self) -> Mapping[str, int]:
        """Committed bytes that closing would give back, by device: the session's blocks alone."""

    def close(self) -> None:
        """Give everything back to the engine. An error means that nothing was given back."""


class EngineStages(EngineOwned, Protocol):
    """An EngineOwned that also takes chunks, which a step may still discard."""

    def stage(self, chunk: Any, /) -> None:
        """Hold one more chunk; an error means that it is not held."""

    def commit(self) -> None:
        """Make what is staged committed; an error means that all is as it was."""

    def discard(self) -> None:
        """Give back what is staged."""

    def staged_nbytes_by_device(self) -> Mapping[str, int]:
        """Staged bytes by device, which `nbytes_by_device` leaves out."""


@attrs.frozen
class _Memo:
    """What a handle held, and how many others were to be closed."""

    owned: EngineOwned | None
    leaving: int


class EngineHandle(StateObject[Chunk, EngineOwned]):
    """Counts what the engine holds for a session, and delegates what is done with it.

    Holds no data. The view is the engine's own object, before a commit and after it: through it
    the model reads, as it does without a manager. Closing ends a chunk that is staged as well:
    there is nothing left that could commit it.

    No schema speaks of a handle, so a manager counts it in its budgets and never gives it up alone.
    It is closed when its session ends: with a drop or an expiry at once, after an eviction when
    nobody holds the session any more, at the manager's next call.

    An engine cannot be gone back in. So as long as something may be undone (a step is open), chunks
    stay staged and nothing is closed: both happen when the step has succeeded.
    """

    def __init__(self) -> None:
        self._owned: EngineOwned | None = None
        self._depth = 0  # steps that are open
        self._leaving: list[EngineOwned] = []  # what they have closed
        self._staged_mark = object()  # what a count remembers for the staged bytes

    def allocate(self, *, owned: EngineOwned | None = None) -> EngineHandle[Chunk]:
        """Take over what the engine opened for the session, and return the object.

        Args:
            owned: an open one; the handle closes it from now on.

        Raises:
            TypeError: `owned` is missing.
            Exception: what closing the one held before raises; then that one is still held.
        """
        if owned is None:
            raise TypeError("EngineHandle.allocate needs owned, what the engine opened")
        if owned is not self._owned:
            self.reset()
        self._owned = owned
        return self

    def stage(self, payload: Chunk) -> None:
        """Have the engine hold one more chunk.

        Raises:
            NotAllocatedError: the handle is closed.
            PayloadError: `payload` is None, or the engine takes no chunks from here.
            Exception: what the engine raises; then nothing was staged.
        """
        owned = self._open("stage")
        if payload is None:
            raise PayloadError("EngineHandle.stage", "None", "pass the chunk")
        engine = _staging(owned)
        if engine is None:
            found = f"{type(owned).__name__}, which stages no chunks"
            raise PayloadError("EngineHandle.stage", found, "write through the engine itself")
        engine.stage(payload)

    def _promote(self) -> None:
        engine = _staging(self._open("commit"))
        if engine is not None and not self._depth:
            engine.commit()

    def append(self, payload: Chunk) -> None:
        """Stage and commit in one.

        Raises: as `stage`, or what the engine's commit raises. Then nothing was changed, except
            that the chunk stays staged where others were staged before: they go together.
        """
        alone = not self.staged_nbytes_by_device()
        self.stage(payload)
        try:
            self._promote()
        except BaseException:
            if alone:
                self.discard()
            raise

    def discard(self) -> None:
        """Have the engine give back what is staged."""
        engine = _staging(self._owned)
        if engine is not None:
            engine.discard()

    def view(self, *, include_staged: bool = True) -> EngineOwned:
        """What the engine opened for the session, the very object; `include_staged` is its affair.

        Raises:
            NotAllocatedError: the handle is closed.
        """
        return self._open("view")

    def evict(self, policy: object = None) -> int:
        """Close, and return the bytes that this gave back, those of a staged chunk included.

        Raises:
            Exception: what the engine raises; then the handle is open as before.
        """
        owned = self._owned
        if owned is None:
            return 0
        if self._depth:
            self._leaving.append(owned)
            self._owned = None
            return 0
        freed = self.nbytes + sum(self.staged_nbytes_by_device().values())
        owned.close()
        self._owned = None
        return freed

    def reset(self) -> None:
        """Close.

        Raises:
            Exception: as `evict`.
        """
        self.evict()

    @property
    def resident(self) -> bool:
        """Whether the handle is open."""
        return self._owned is not None

    def nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """What the engine says that it holds for the session; nothing where `seen` has met it."""
        total: dict[str, int] = {}
        for owned in (self._owned, *self._leaving):
            if owned is not None and (seen is None or seen.visit(owned)):
                merge_bytes(total, _present(owned.nbytes_by_device()))
        return total

    def staged_nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Staged bytes as the engine says; nothing where `seen` has met them."""
        engine = _staging(self._owned)
        if engine is None or (seen is not None and not seen.visit(self._staged_mark)):
            return {}
        return _present(engine.staged_nbytes_by_device())

    def staged(self) -> Any:
        """The handle itself while the engine holds a staged chunk; else None."""
        return self if self.staged_nbytes_by_device() else None

    def capture(self) -> _Memo:
        """See `Capturable`.

        Raises:
            PayloadError: a chunk is staged; an engine could not tell it from later ones.
        """
        if self.staged_nbytes_by_device():
            todo = "commit it or discard it before a step or a fork begins"
            raise PayloadError("EngineHandle", "a chunk is staged", todo)
        self._depth += 1
        return _Memo(self._owned, len(self._leaving))

    def roll_back(self, memo: _Memo) -> None:
        """See `Capturable`. Raises: what the engine raises, when all is as it was."""
        since, self._leaving = self._leaving[memo.leaving :], self._leaving[: memo.leaving]
        opened = [one for one in (*since, self._owned) if one is not None and one is not memo.owned]
        self._owned = memo.owned
        self._depth -= 1
        self.discard()
        _close_all(opened)

    def settle(self, memo: _Memo) -> None:
        """See `Capturable`.

        Raises:
            Exception: what the engine's commit raises; then nothing has changed and the chunk is
                staged. Or what closing raises, when all else is done.
        """
        if self._depth > 1:
            self._depth -= 1
            return
        engine = _staging(self._owned)
        if engine is not None:
            engine.commit()
        self._depth = 0
        leaving, self._leaving = self._leaving, []
        _close_all(leaving)

    def twin(self, memo: _Memo) -> EngineHandle[Chunk]:
        """A handle of what the engine forks off, where it can.

        Raises:
            PayloadError: it cannot: what it opened has no `fork`.
        """
        other: EngineHandle[Chunk] = EngineHandle()
        if memo.owned is not None:
            fork = getattr(memo.owned, "fork", None)
            if not callable(fork):
                found = f"{type(memo.owned).__name__}, which has no fork()"
                raise PayloadError("EngineHandle", found, "let the engine offer one")
            other.allocate(owned=fork())
        return other

    def take_over(self, memo: _Memo) -> None:
        """See `Capturable`. Raises: what closing raises; what is taken over is held then too."""
        before, self._owned = self._owned, memo.owned
        _close_all([] if before is None else [before])

    def held_by(self, memo: _Memo) -> Any:
        """See `Capturable`; nothing, for what was closed is counted until it is."""
        return None

    def _open(self, operation: str) -> EngineOwned:
        owned = self._owned
        if owned is None:
            raise NotAllocatedError("EngineHandle", operation)
        return owned


def _close_all(owned: Iterable[EngineOwned]) -> None:
    with ExitStack() as every:
        for one in owned:
            every.callback(one.close)


def _staging(owned: EngineOwned | None) -> EngineStages | None:
    """`owned`, where it takes chunks."""
    names = ("stage", "commit", "discard", "staged_nbytes_by_device")
    takes = all(callable(getattr(owned, name, None)) for name in names)
    return cast(EngineStages, owned) if takes else None


def _present(nbytes: Mapping[str, int]) -> dict[str, int]:
    return {device: count for device, count in nbytes.items() if count}
