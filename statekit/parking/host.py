"""HostTier: values of an accelerator parked in host memory.

Owns the layout of a value's bytes over chunks. Not here: the chunks (`statekit.parking.pool`), the
copies (`statekit.parking.cuda`).

Both directions return at once: `begin_park` and `begin_restore` start the copies beside the
model's work; `Parking.finish` waits for them, `Restoring.finish` lets the stream that is current
wait for them. The first park makes page-locked memory, which takes longer than the copy.

    H1  Storages that are in host memory already are held as they are, not copied; a value of which
        that is true as a whole is refused, since there is nothing to gain.

Thread rule: as `statekit.parking.tier`.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch

from statekit.accounting import SeenStorages, device_bytes, merge_bytes
from statekit.errors import ParkError
from statekit.image.memory import empty_bytes
from statekit.image.recipe import Recipe
from statekit.image.taking import Image
from statekit.parking.cuda import Copies, CudaEngine, Engine
from statekit.parking.pool import Chunk, PinnedPool
from statekit.parking.tier import FAILURES, Restoring, Transfer, park_error

if TYPE_CHECKING:  # its locks are POSIX only
    from statekit.parking.disk import DiskParked, DiskTier

__all__ = ["HostParked", "HostTier"]


class HostTier:
    """Host memory for values of an accelerator.

    Args:
        max_pinned_bytes: page-locked memory that the tier keeps at most, in use or idle; what
            does not fit is parked in pageable memory, whose copies are slower and wait.
        chunk_bytes: the pieces in which page-locked memory is made, a power of two.
        engine: the device's; None means CUDA.

    Raises:
        ValueError: a size is no such.
    """

    name = "host"

    def __init__(
        self,
        *,
        max_pinned_bytes: int = 4 << 30,
        chunk_bytes: int = 8 << 20,
        engine: Engine | None = None,
    ) -> None:
        if chunk_bytes < 1 or chunk_bytes & (chunk_bytes - 1):
            raise ValueError(f"chunk_bytes must be a power of two, got {chunk_bytes}")
        if max_pinned_bytes < 0:
            raise ValueError(f"max_pinned_bytes must not be negative, got {max_pinned_bytes}")
        self._engine = CudaEngine() if engine is None else engine
        self._pool = PinnedPool(self._engine.pin, max_pinned_bytes, chunk_bytes)
        self.takes_nbytes = chunk_bytes - 1  # the last chunk is whole

    def begin_park(self, image: Image) -> Transfer[HostParked]:
        """Begin to copy the image's storages into host memory.

        Raises:
            ParkError: no storage is on an accelerator, or there is no host memory.
        """
        if not any(self._engine.serves(storage) for storage in image.storages):
            found = "the value has no accelerator memory to free"
            raise ParkError(self.name, "park", found, "park it in the disk tier")
        try:
            return _HostParking(self._engine, self._pool, image)
        except FAILURES as error:
            raise park_error(self.name, "park", error) from error

    def trim(self) -> None:
        """Free the page-locked memory that no parked value uses."""
        self._pool.trim()

    def nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Page-locked bytes that no parked value uses."""
        return self._pool.nbytes_by_device(seen)


@attrs.frozen(eq=False)
class _Laid:
    """A storage in host memory, in pieces; `home` is None where it is the original's memory."""

    pieces: tuple[torch.Tensor, ...]
    home: torch.device | None
    nbytes: int


def _lay(engine: Engine, storages: Sequence[torch.Tensor], chunks: Sequence[Chunk]) -> list[_Laid]:
    """Give each storage of the device its place, one behind the other over the chunks."""
    laid: list[_Laid] = []
    index = offset = 0
    for storage in storages:
        nbytes = storage.numel()
        if not engine.serves(storage):
            laid.append(_Laid((storage,), None, nbytes))
            continue
        pieces = []
        while nbytes:
            room = chunks[index].memory[offset : offset + nbytes]
            pieces.append(room)
            nbytes -= room.numel()
            offset += room.numel()
            if offset == chunks[index].memory.numel():
                index, offset = index + 1, 0
        laid.append(_Laid(tuple(pieces), storage.device, storage.numel()))
    return laid


def _cut(whole: torch.Tensor, pieces: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return list(torch.split(whole, [piece.numel() for piece in pieces]))


class _HostParking(Transfer["HostParked"]):
    def __init__(self, engine: Engine, pool: PinnedPool, image: Image) -> None:
        super().__init__("host", "park")
        self._engine = engine
        self._pool = pool
        self._image: Image | None = image  # keeps the original alive while it is read
        moving = [one.numel() for one in image.storages if engine.serves(one)]
        self._chunks = pool.take(sum(moving))
        try:
            self._laid = _lay(engine, image.storages, self._chunks)
            pairs = [
                pair
                for storage, laid in zip(image.storages, self._laid, strict=True)
                if laid.home is not None
                for pair in zip(laid.pieces, _cut(storage, laid.pieces), strict=True)
            ]
            busy = [chunk.busy for chunk in self._chunks if chunk.busy is not None]
            self._copies = engine.copy(pairs, busy)
        except BaseException:
            pool.give_back(self._chunks)
            raise
        for chunk in self._chunks:
            chunk.busy = self._copies

    def _complete(self) -> HostParked:
        self._copies.wait()
        for chunk in self._chunks:
            chunk.busy = None
        assert self._image is not None
        recipe, self._image = self._image.recipe, None
        return HostParked(self._engine, self._pool, recipe, self._laid, self._chunks)

    def _undo(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._copies.wait()
        self._image = None
        self._pool.give_back(self._chunks)


class HostParked:
    """A value in host memory; the memory goes with `discard`, or with this object."""

    def __init__(
        self,
        engine: Engine,
        pool: PinnedPool,
        recipe: Recipe,
        laid: Sequence[_Laid],
        chunks: Sequence[Chunk],
    ) -> None:
        self._engine = engine
        self._recipe = recipe
        self._laid = laid
        self._chunks = chunks
        self._discard = weakref.finalize(self, pool.give_back, chunks)
        self._discard.atexit = False

    def begin_restore(self) -> Restoring:
        """Begin to copy the value back to the devices where it was.

        Raises:
            ParkError: a device has no memory for it, or it was discarded.
        """
        self._require_held("restore")
        try:
            return _HostRestoring(self._engine, self._recipe, self._laid, self._chunks)
        except FAILURES as error:
            raise park_error("host", "restore", error) from error

    def move_to(self, tier: DiskTier) -> DiskParked:
        """Return the value parked in `tier`, without building it; this copy is discarded then.

        Raises:
            ParkError: it could not be; this copy is as good as before.
        """
        self._require_held("move")
        storages = [laid.pieces for laid in self._laid]
        moved = tier.begin_park_bytes(self._recipe, storages).finish()
        self.discard()
        return moved

    def discard(self) -> None:
        """Give the host memory back; a restore that has begun goes on."""
        self._discard()
        self._laid, self._chunks = (), ()

    def nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Host bytes, whole chunks, and what the value shares with others and keeps alive."""
        seen = SeenStorages() if seen is None else seen
        found = device_bytes(self._recipe.kept, seen)
        held = [chunk.memory for chunk in self._chunks]
        held += [piece for laid in self._laid if laid.home is None for piece in laid.pieces]
        return merge_bytes(found, device_bytes(held, seen))

    def _require_held(self, operation: str) -> None:
        if not self._discard.alive:
            found = "it was discarded before"
            raise ParkError("host", operation, found, "keep the value instead")


class _HostRestoring(Transfer[Any]):
    def __init__(
        self, engine: Engine, recipe: Recipe, laid: Sequence[_Laid], chunks: Sequence[Chunk]
    ) -> None:
        super().__init__("host", "restore")
        self._recipe = recipe
        self._storages = [
            one.pieces[0] if one.home is None else empty_bytes(one.nbytes, one.home) for one in laid
        ]
        pairs = [
            pair
            for storage, one in zip(self._storages, laid, strict=True)
            if one.home is not None
            for pair in zip(_cut(storage, one.pieces), one.pieces, strict=True)
        ]
        self._copies: Copies = engine.copy(pairs, ())
        for chunk in chunks:
            chunk.busy = self._copies
        self._serves = engine.serves
        self._pageable = [chunk for chunk in chunks if not chunk.pinned]

    def _complete(self) -> Any:
        if self._pageable:  # nothing else keeps it until the device has read it
            self._copies.wait()
        self._copies.join([storage for storage in self._storages if self._serves(storage)])
        value = self._recipe.build(self._storages)
        self._storages = []
        return value

    def _undo(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._copies.wait()
        self._storages = []
