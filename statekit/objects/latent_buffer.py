"""LatentBuffer: items that accumulate, in a ring of items, a ring of frames, or without bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from statekit.capture.picture import Picture
from statekit.errors import NotAllocatedError
from statekit.objects.frames import check_piece, newest_frames
from statekit.objects.parkable import ParkableObject
from statekit.objects.sizes import require_whole
from statekit.on_commit import KEEP_AS_IS, OnCommit
from statekit.spec import Update

__all__ = ["LatentBuffer"]

Item = TypeVar("Item")


class LatentBuffer(ParkableObject[Item, "list[Item]"]):
    """An append buffer of tensors or arrays (any objects, where the bound is in items).

    A bound in items keeps the newest `maxlen` items. A bound in frames keeps the newest `maxlen`
    frames along `axis`: an item that is only partly within the bound is cut, and the kept part is
    copied, so that it does not hold the storage of the part that was dropped.
    """

    def __init__(self) -> None:
        self._allocated = False
        self._maxlen: int | None = None
        self._axis: int | None = None
        self._on_commit = KEEP_AS_IS
        self._held: Any = []
        self.written = object()
        self._staged: tuple[Item, ...] = ()

    def allocate(
        self,
        *,
        maxlen: int | None = None,
        axis: int | None = None,
        on_commit: OnCommit = KEEP_AS_IS,
        update: Update = "replaced",
    ) -> LatentBuffer[Item]:
        """Set the empty state and return the buffer.

        Args:
            maxlen: keep the newest so many; None keeps all.
            axis: count `maxlen` in frames along this axis of the items, not in items.
            on_commit: what happens to an item when it is stored.
            update: how the model changes an item that it has read; what is changed where it is
                gets copied when a step begins.

        Raises:
            ValueError: `maxlen` is below 1, or `axis` is given without it.
            TypeError: one of them is no whole number.
        """
        require_whole("axis", axis, optional=True)
        require_whole("maxlen", maxlen, least=1, optional=True)
        if maxlen is None and axis is not None:
            raise ValueError("axis counts maxlen in frames, so it needs maxlen")
        self.reset()
        self._allocated, self._maxlen, self._axis = True, maxlen, axis
        self._on_commit, self._update = on_commit, update
        return self

    @property
    def maxlen(self) -> int | None:
        """The bound, in items, or in frames along `axis`; None is unbounded."""
        return self._maxlen

    @property
    def axis(self) -> int | None:
        """The axis along which the bound counts frames, or None where it counts items."""
        return self._axis

    def stage(self, payload: Item) -> None:
        """Hold one more item for the window in progress.

        Raises:
            NotAllocatedError: the buffer is not allocated.
            PayloadError: `payload` is None; or the bound is in frames, and `payload` has no such
                axis or cannot be joined with what the buffer holds.
        """
        items = self._require("stage")
        item = self._on_commit.apply(payload)
        check_piece(item, self._axis, (self._staged or items)[-1:])
        self._staged = (*self._staged, item)

    def _promote(self) -> None:
        items = self._require("commit")
        self._commit(items, self._staged)

    def _commit(self, items: list[Item], new: Iterable[Item]) -> None:
        if self._maxlen is None:
            items.extend(new)
        else:
            self._held = self._bounded([*items, *new])
        self._staged = ()
        self.written = object()

    def discard(self) -> None:
        """Drop the staged items."""
        self._staged = ()

    def append(self, payload: Item) -> None:
        """Stage and commit one item.

        Fails as `stage` does, or where the kept part of a cut item cannot be copied (no memory);
        then nothing was changed.
        """
        self.extend((payload,))

    def extend(self, payloads: Iterable[Item]) -> None:
        """Append several items, all or none.

        Raises: as `append`; then nothing was changed.
        """
        items = self._require("stage")
        new = list(self._staged)
        newest: Sequence[Item] = (new or items)[-1:]
        for payload in payloads:
            item = self._on_commit.apply(payload)
            check_piece(item, self._axis, newest)
            new.append(item)
            newest = (item,)
        self._commit(items, new)

    def replace(self, payloads: Iterable[Item]) -> None:
        """Hold these items in place of all others, committed and staged.

        Raises: as `stage`; then nothing was changed.
        """
        self._require("replace")
        items: list[Item] = []
        for payload in payloads:
            item = self._on_commit.apply(payload)
            check_piece(item, self._axis, items[-1:])
            items.append(item)
        self._held, self._staged = self._bounded(items), ()
        self.written = object()

    def view(self, *, include_staged: bool = True) -> list[Item]:
        """The kept items, oldest first, in a new list.

        Raises:
            NotAllocatedError: the buffer is not allocated.
        """
        items = self._require("view")
        if include_staged and self._staged:
            return self._bounded([*items, *self._staged])
        return list(items)

    def joined(self, axis: int) -> Item | None:
        """The kept items, staged ones too, joined along `axis`; None if there are none.

        A single item is handed out as it is, not copied.
        """
        items: list[Any] = list(self.view())
        if not items:
            return None
        joined: Item
        if len(items) == 1:
            joined = items[0]
        elif isinstance(items[0], np.ndarray):
            joined = np.concatenate(items, axis=axis)  # type: ignore[assignment]
        else:
            joined = torch.cat(items, dim=axis)  # type: ignore[assignment]
        return joined

    def __len__(self) -> int:
        """How many items `view()` hands out."""
        return len(self.view()) if self._allocated else 0

    def __bool__(self) -> bool:
        """True, so that `buffer or other` does not throw an empty buffer away."""
        return True

    def _empty(self) -> list[Item]:
        return []

    # What is pictured is the length: a list of items only grows, or another one takes its place.

    def _picture(self) -> Any:
        if self._update == "replaced":
            return len(self._held)
        return Picture(list(self._held), self._update)

    def _as_pictured(self, picture: Any) -> list[Item]:
        if isinstance(picture, int):
            del self._held[picture:]
            items: list[Item] = self._held
            return items
        return list(picture.write_back())

    def _copied(self, held: Any, picture: Any) -> list[Item]:
        return list(held[:picture] if isinstance(picture, int) else picture.copy())

    def staged(self) -> Any:
        """The staged items; None where there are none."""
        return self._staged or None

    def items(self) -> list[Item]:
        """The items, staged ones too; nothing of what is parked."""
        return [*(self.committed() or ()), *self._staged]

    def park_payload(self) -> list[Item] | None:
        """The committed items; None where there are none, or staged ones beside them."""
        return super().park_payload() or None

    def _require(self, operation: str) -> list[Item]:
        """The committed items; every use comes through here, so parked ones are back before it."""
        if not self._allocated:
            raise NotAllocatedError("LatentBuffer", operation)
        items: list[Item] = self._come_back()
        return items

    def _bounded(self, items: list[Any]) -> list[Any]:
        """The newest part of `items` that the bound keeps."""
        if self._maxlen is None:
            return items
        if self._axis is None:
            return items[-self._maxlen :]
        return newest_frames(items, self._maxlen, self._axis)
