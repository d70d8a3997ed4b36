"""WindowedKV: keys and values of attention over a window, with entries at the start that stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, TypeVar

import torch

from statekit.errors import NotAllocatedError, PayloadError
from statekit.objects.frames import check_piece, frames_in, without_frames
from statekit.objects.parkable import ParkableObject
from statekit.objects.sizes import require_whole
from statekit.on_commit import KEEP_AS_IS, OnCommit

__all__ = ["WindowedKV"]

Payload = TypeVar("Payload", bound="torch.Tensor | tuple[torch.Tensor, ...]")

_NAME = "WindowedKV"


class WindowedKV(ParkableObject[Payload, "Payload | None"]):
    """The entries of a window along one axis of a tensor, or of several such as K and V.

    What is appended is a block of entries: a tensor, or a tuple of tensors with the same number of
    entries each. Of the history the first `sink` entries stay, and as many of the newest as the
    bound has room for beside them. Blocks are never written into, so a capture and a fork share
    them; a block of which a part leaves is replaced by a copy of the rest, so that the part's
    storage goes. The reader gets the blocks joined: a copy, where there is more than one.
    """

    def __init__(self) -> None:
        self._allocated = False
        self._bound: int | None = None
        self._axis = 0
        self._sink = 0
        self._on_commit = KEEP_AS_IS
        self._held: Any = ()
        self._local_end = 0
        self._global_end = 0
        self.written = object()
        self._staged: Payload | None = None

    def allocate(
        self,
        *,
        bound: int | None = None,
        axis: int = 0,
        sink: int = 0,
        on_commit: OnCommit = KEEP_AS_IS,
    ) -> WindowedKV[Payload]:
        """Set the empty state and return the object.

        Args:
            bound: keep so many entries at most, those of the sink among them; None keeps all.
            axis: along which entries (tokens, frames) are counted.
            sink: so many entries at the start stay for good.
            on_commit: what happens to a block when it is stored.

        Raises:
            ValueError: `bound` is below 1, or `sink` below 0 or not below the bound.
            TypeError: one of them is no whole number.
        """
        require_whole("bound", bound, least=1, optional=True)
        require_whole("axis", axis)
        require_whole("sink", sink, least=0)
        if bound is not None and sink >= bound:
            raise ValueError(f"bound counts the sink, so it must be above {sink}, got {bound}")
        self.reset()
        self._allocated, self._bound, self._axis, self._sink = True, bound, axis, sink
        self._on_commit = on_commit
        self._local_end = self._global_end = 0
        return self

    @property
    def bound(self) -> int | None:
        """How many entries are kept at most; None is unbounded."""
        return self._bound

    @property
    def axis(self) -> int:
        """The axis along which entries are counted."""
        return self._axis

    @property
    def sink(self) -> int:
        """How many entries at the start stay for good."""
        return self._sink

    @property
    def local_end(self) -> int:
        """How many entries are committed and kept: where the next one goes in the window."""
        return self._local_end if self._allocated else 0

    @property
    def global_end(self) -> int:
        """How many entries were committed since the object was empty: where the next one goes in
        the whole history."""
        return self._global_end if self._allocated else 0

    def stage(self, payload: Payload) -> None:
        """Hold a block for the step in progress, in place of one staged before.

        Raises:
            NotAllocatedError: the object is not allocated.
            PayloadError: `payload` is neither a dense tensor nor a tuple of such with one number of
                entries, or cannot be joined with the blocks that are held.
        """
        self._staged = self._fitting(payload)

    def _promote(self) -> None:
        self._require("commit")
        if self._staged is not None:
            self._append(self._staged)

    def append(self, payload: Payload) -> None:
        """Stage and commit in one.

        Fails as `stage` does, or where the kept part of a cut block cannot be copied (no memory);
        then nothing was changed.
        """
        self._append(self._fitting(payload))

    def _append(self, block: Payload) -> None:
        extent = frames_in(block, self._axis)
        held = self._with(block)
        self._local_end = self._within(self._local_end + extent)
        self._global_end += extent
        self._staged = None
        self._hold(held)

    def discard(self) -> None:
        """Drop the staged block."""
        self._staged = None

    def replace(self, payload: Payload) -> None:
        """Hold this block in place of all others, committed and staged; the cursors begin anew.

        Raises: as `append`; then nothing was changed.
        """
        self._require("replace", come_back=False)
        self.restore([self._on_commit.apply(payload)])

    def restore(self, blocks: Iterable[Payload], global_end: int | None = None) -> None:
        """Hold these blocks as they are, in place of all others, and the newest as committed last.

        Args:
            blocks: what `blocks()` of another object gave, the oldest first.
            global_end: of that object; None where the blocks are the whole history.

        Raises:
            PayloadError: they cannot be joined; nothing was changed.
            ValueError: `global_end` is below the number of their entries.
        """
        kept: list[Payload] = []
        total = 0
        for block in blocks:
            _check(block, self._axis, kept[-1:])
            kept.append(block)
            total += frames_in(block, self._axis)
        if global_end is not None and global_end < total:
            raise ValueError(f"global_end must be at least {total}, got {global_end}")
        held = self._windowed(kept, total)
        self._local_end = self._within(total)
        self._global_end = total if global_end is None else global_end
        self._staged = None
        self._hold(held)

    def clear(self) -> None:
        """Hold nothing, neither staged nor committed; the object stays allocated.

        Raises:
            NotAllocatedError: the object is not allocated.
        """
        self._require("clear", come_back=False)
        self._local_end = self._global_end = 0
        self._staged = None
        self._hold(())

    def view(self, *, include_staged: bool = True) -> Payload | None:
        """The blocks joined, or None where there are none.

        A single block is handed out as it is, not copied.

        Raises:
            NotAllocatedError: the object is not allocated.
        """
        held: Any = self._require("view")
        if include_staged and self._staged is not None:
            held = self._with(self._staged)
        if len(held) < 2:
            return held[0] if held else None
        joined: Any = None
        if isinstance(held[0], tuple):
            joined = tuple(torch.cat(parts, dim=self._axis) for parts in zip(*held, strict=True))
        else:
            joined = torch.cat(held, dim=self._axis)
        payload: Payload = joined
        return payload

    def blocks(self) -> list[Payload]:
        """The committed blocks as they are held, oldest first, in a new list.

        Raises:
            NotAllocatedError: the object is not allocated.
        """
        return list(self._require("blocks"))

    def _empty(self) -> tuple[Payload, ...]:
        return ()

    def committed(self) -> Any:
        """The tensors of the blocks; None where there are none, or they are parked."""
        held = super().committed()
        if held and isinstance(held[0], tuple):
            return tuple(chain.from_iterable(held))
        return held or None

    def park_payload(self) -> tuple[Payload, ...] | None:
        """The committed blocks; None where there are none, or a staged one beside them."""
        return None if self._staged is not None else ParkableObject.committed(self) or None

    def items(self) -> list[Payload]:
        """The blocks, staged ones too; nothing of what is parked."""
        staged = () if self._staged is None else (self._staged,)
        return [*(ParkableObject.committed(self) or ()), *staged]

    def _fitting(self, payload: Payload) -> Payload:
        """The payload as it would be stored."""
        held = self._require("stage")
        block = self._on_commit.apply(payload)
        _check(block, self._axis, held[-1:])
        return block

    def _with(self, block: Payload) -> tuple[Payload, ...]:
        """What is held, with one more block, within the bound."""
        held, extent = self._require("view"), frames_in(block, self._axis)
        if self._local_end and not extent:
            return held
        before = held if self._local_end else ()  # else at most a block without entries
        return self._windowed((*before, block), self._local_end + extent)

    def _windowed(self, blocks: Sequence[Payload], total: int) -> tuple[Payload, ...]:
        """What the bound keeps of these blocks, which have `total` entries."""
        gone = total - self._within(total)
        return tuple(without_frames(blocks, self._sink, gone, self._axis))

    def _within(self, total: int) -> int:
        """How many of so many entries are kept."""
        return total if self._bound is None else min(total, self._bound)

    def _require(self, operation: str, *, come_back: bool = True) -> tuple[Payload, ...]:
        """The committed blocks; every use comes through here, so parked ones are back before it."""
        if not self._allocated:
            raise NotAllocatedError(_NAME, operation)
        held: tuple[Payload, ...] = self._come_back() if come_back else ()
        return held


def _check(block: Any, axis: int, newest: Sequence[Any] = ()) -> None:
    """Refuse what is no block, or none that can be joined with the `newest` one that is held."""
    parts = _parts(block)
    for part in parts:
        if not isinstance(part, torch.Tensor) or part.layout is not torch.strided:
            found = "None" if part is None else f"a {type(part).__name__}"
            if isinstance(part, torch.Tensor):
                found = f"a tensor of layout {part.layout}"
            raise PayloadError(_NAME, found, "append a dense tensor, or a tuple of such")
    if not parts:
        raise PayloadError(_NAME, "an empty tuple", "append a tensor for each of K and V")
    like: Sequence[Any] = [()] * len(parts)
    for last in newest:
        found, wanted = (
            f"a tuple of {len(one)}" if isinstance(one, tuple) else "a tensor"
            for one in (block, last)
        )
        if found != wanted:
            todo = f"append {wanted}, or clear the object first"
            raise PayloadError(_NAME, f"{found} after {wanted}", todo)
        like = [(part,) for part in _parts(last)]
    for part, last in zip(parts, like, strict=True):
        check_piece(part, axis, last, _NAME)
    extents = [part.shape[axis] for part in parts]
    if len(set(extents)) > 1:
        found = f"{' and '.join(map(str, extents))} entries along axis {axis}"
        raise PayloadError(_NAME, found, "append tensors with one number of entries")


def _parts(block: Any) -> tuple[Any, ...]:
    return block if type(block) is tuple else (block,)
