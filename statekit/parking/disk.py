"""DiskTier: values parked in files that live as long as this process.

Owns the executor whose threads move bytes, and the life of each file. Not here: how they share
the work (`statekit.bulk.moving`), the folder (`statekit.parking.folder`) and the layout of a file
(`statekit.parking.parked_file`).

Works for any memory. Memory of an accelerator goes through a host copy that is made while the
caller waits; park it in the host tier first, and move it from there, to avoid the wait.

Thread rule: as `statekit.parking.tier`.
"""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch

from statekit.accounting import SeenStorages, device_bytes, merge_bytes
from statekit.bulk.checksum import combined_checksum, part_checksum
from statekit.bulk.cutting import cut
from statekit.bulk.moving import Moving, usable_threads
from statekit.bulk.parts import DamagedFileError, read_part, write_part
from statekit.errors import ParkError
from statekit.image.memory import empty_bytes
from statekit.image.recipe import Recipe
from statekit.image.taking import Image
from statekit.parking.folder import OwnedFolder
from statekit.parking.parked_file import HEAD_NBYTES, check_head, write_head
from statekit.parking.tier import FAILURES, Restoring, Transfer, park_error

__all__ = ["DiskParked", "DiskTier"]


class DiskTier:
    """A folder for parked values.

    Args:
        folder: may be shared by processes; what dead ones left there is removed now.

    Raises:
        ParkError: the folder cannot be made or used.
    """

    name = "disk"
    takes_nbytes = HEAD_NBYTES

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            self._folder = OwnedFolder(folder)
        except OSError as error:
            raise park_error(self.name, f"open {os.fspath(folder)}", error) from error
        self._threads = usable_threads()
        self._executor = ThreadPoolExecutor(self._threads, "statekit-park")
        self._closing = threading.Event()

    def begin_park(self, image: Image) -> Transfer[DiskParked]:
        """Begin to write the image's storages to a new file.

        Raises:
            ParkError: the tier is closed, or an accelerator's memory could not be copied.
        """
        return self.begin_park_bytes(image.recipe, [(storage,) for storage in image.storages])

    def begin_park_bytes(
        self, recipe: Recipe, storages: Sequence[Sequence[torch.Tensor]]
    ) -> Transfer[DiskParked]:
        """Begin to write the storages of `recipe`, each in pieces. Raises: as `begin_park`."""
        self._require_usable("park")
        try:
            in_host = [[piece.to("cpu") for piece in pieces] for pieces in storages]
            return _DiskParking(self, recipe, in_host)
        except FAILURES as error:
            raise park_error(self.name, "park", error) from error

    def close(self) -> None:
        """Stop what is under way, remove all files; what is parked here is lost.

        Safe to repeat. Happens by itself when the tier is garbage and at exit.
        """
        self._closing.set()
        if self._folder.usable:
            self._executor.shutdown()
        self._folder.close()

    def _require_usable(self, operation: str) -> None:
        if not self._folder.usable or self._closing.is_set():
            found = "the tier is closed, or belongs to the parent of this process"
            raise ParkError(self.name, operation, found, "open another one")


def _write(fd: int, part: memoryview, offset: int) -> int:
    found = part_checksum(part)  # before, so that the part is in the cache when it is written
    write_part(fd, part, offset)
    return found


def _read(fd: int, part: memoryview, offset: int) -> int:
    read_part(fd, part, offset)
    return part_checksum(part)


class _DiskParking(Transfer["DiskParked"]):
    def __init__(
        self, tier: DiskTier, recipe: Recipe, storages: Sequence[Sequence[torch.Tensor]]
    ) -> None:
        super().__init__(tier.name, "park")
        self._recipe = recipe
        self._disk = tier
        self._identity = uuid.uuid4()
        self._temporary = f"{self._identity.hex}.tmp"
        self._name = f"{self._identity.hex}.park"
        fd = tier._folder.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._moving = Moving(
            tier._executor,
            tier._threads,
            partial(_write, fd),
            cut(storages, HEAD_NBYTES),
            before=partial(write_head, fd, self._identity.bytes, recipe.nbytes),
            after=partial(os.close, fd),
            closing=tier._closing,
        )

    def _complete(self) -> DiskParked:
        checksum = combined_checksum(self._moving.wait())
        self._disk._folder.rename(self._temporary, self._name)
        return DiskParked(self._disk, self._recipe, self._name, self._identity.bytes, checksum)

    def _undo(self) -> None:
        self._moving.stop()
        for name in (self._temporary, self._name):
            self._disk._folder.remove(name)


class DiskParked:
    """A value in a file; the file goes with `discard`, with this object, or with the tier."""

    def __init__(
        self, tier: DiskTier, recipe: Recipe, name: str, identity: bytes, checksum: int
    ) -> None:
        self._disk = tier
        self._recipe = recipe
        self._name = name
        self._identity = identity
        self._checksum = checksum
        self._discard = weakref.finalize(self, tier._folder.remove, name)
        self._discard.atexit = False  # the folder goes as a whole

    def begin_restore(self) -> Restoring:
        """Begin to read the value back, to the devices where it was.

        Raises:
            ParkError: the file is missing or not to be read, there is no memory, or it was
                discarded.
        """
        self._disk._require_usable("restore")
        if not self._discard.alive:
            raise ParkError("disk", "restore", "it was discarded before", "keep the value instead")
        try:
            return _DiskRestoring(self)
        except FAILURES as error:
            raise park_error("disk", "restore", error) from error

    def discard(self) -> None:
        """Remove the file; a restore that has begun goes on."""
        self._discard()

    def nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """The file's length as `disk`, and what the value shares with others and keeps alive."""
        seen = SeenStorages() if seen is None else seen
        found = device_bytes(self._recipe.kept, seen)
        if self._discard.alive and seen.visit(self._discard):
            merge_bytes(found, {"disk": HEAD_NBYTES + self._recipe.nbytes})
        return found


class _DiskRestoring(Transfer[Any]):
    def __init__(self, parked: DiskParked) -> None:
        super().__init__("disk", "restore")
        self._recipe = parked._recipe
        self._expected = parked._checksum
        self._place = parked._disk._folder.path / parked._name
        self._buffers = [empty_bytes(nbytes) for _, nbytes in self._recipe.storages]
        # O_NONBLOCK: whatever lies there instead of the file, opening it must not hang.
        fd = parked._disk._folder.open(parked._name, os.O_RDONLY | os.O_NONBLOCK)
        self._moving = Moving(
            parked._disk._executor,
            parked._disk._threads,
            partial(_read, fd),
            cut([(buffer,) for buffer in self._buffers], HEAD_NBYTES),
            before=partial(check_head, fd, parked._identity, self._recipe.nbytes),
            after=partial(os.close, fd),
            closing=parked._disk._closing,
        )

    def _complete(self) -> Any:
        try:
            if combined_checksum(self._moving.wait()) != self._expected:
                raise DamagedFileError("its bytes have changed")
        except DamagedFileError as error:
            found = f"{self._place} is damaged: {error}"
            todo = "begin the session anew; keep other programs out of the folder"
            raise ParkError("disk", "restore", found, todo) from None
        storages = [
            buffer.to(device)
            for buffer, (device, _) in zip(self._buffers, self._recipe.storages, strict=True)
        ]
        return self._recipe.build(storages)

    def _undo(self) -> None:
        self._moving.stop()
        self._buffers = []
