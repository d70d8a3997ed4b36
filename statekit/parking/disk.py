"""DiskTier: values parked in files that live as long as this process.

Owns the threads that move bytes, and the life of each file. Not here: the folder
(`statekit.parking.folder`) and the layout of a file (`statekit.parking.parked_file`).

Works for any memory. Memory of an accelerator goes through a host copy that is made while the
caller waits; park it in the host tier first, and move it from there, to avoid the wait.

Thread rule: as `statekit.parking.tier`.
"""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import torch

from statekit.accounting import SeenStorages, device_bytes, merge_bytes
from statekit.errors import ParkError
from statekit.image.memory import empty_bytes
from statekit.image.recipe import Recipe
from statekit.image.taking import Image
from statekit.parking.checksum import combined_checksum, part_checksum
from statekit.parking.folder import OwnedFolder
from statekit.parking.parked_file import (
    HEAD_NBYTES,
    DamagedFileError,
    check_head,
    cut,
    read_part,
    write_head,
    write_part,
)
from statekit.parking.tier import FAILURES, Restoring, Transfer, park_error

__all__ = ["DiskParked", "DiskTier"]

_MAX_THREADS = 4  # more do not move bytes faster


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
        self._threads = min(_MAX_THREADS, os.cpu_count() or 1)
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


class _Job:
    """A file's reading or writing by the tier's threads; each takes the next part when it is free.

    A part is read or written and summed by one thread while it is in that core's cache.
    """

    def __init__(
        self,
        tier: DiskTier,
        fd: int,
        head: Callable[[int], None],
        move: Callable[[int, memoryview, int], None],
        parts: Iterable[tuple[int, memoryview]],
    ) -> None:
        self._fd = fd
        self._head: Callable[[int], None] | None = head
        self._move = move
        self._parts = iter(parts)
        self._sums: list[int] = []
        self._closing = tier._closing
        self._stop = False
        self._lock = threading.Lock()
        self._running = tier._threads
        self._futures: list[Future[None]] = []
        try:
            for _ in range(tier._threads):
                self._futures.append(tier._executor.submit(self._run))
        except RuntimeError:  # shut down since the tier was seen to be usable
            self._leave(tier._threads - len(self._futures))
            raise CancelledError from None

    def wait(self) -> int:
        """The checksum of the file's bytes. Raises: what a thread raised."""
        errors = [future.exception() for future in self._futures]
        for error in sorted(filter(None, errors), key=lambda e: isinstance(e, CancelledError)):
            raise error  # the one that made the others stop
        return combined_checksum(self._sums)

    def stop(self) -> None:
        """Return when no thread touches the memory any more."""
        self._stop = True
        wait(self._futures)

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                number, offset, part = taken
                self._move(self._fd, part, offset)
                self._sums[number] = part_checksum(part)
        except BaseException:
            self._stop = True
            raise
        finally:
            self._leave(1)

    def _take(self) -> tuple[int, int, memoryview] | None:
        with self._lock:
            if self._stop or self._closing.is_set():
                raise CancelledError
            if self._head is not None:
                self._head(self._fd)
                self._head = None
            for offset, part in self._parts:
                self._sums.append(0)
                return len(self._sums) - 1, offset, part
            return None

    def _leave(self, threads: int) -> None:
        with self._lock:
            self._running -= threads
            if not self._running:
                os.close(self._fd)
                self._parts = iter(())  # lets go of the memory


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
        head = partial(write_head, identity=self._identity.bytes, nbytes=recipe.nbytes)
        self._job = _Job(tier, fd, head, write_part, cut(storages))

    def _complete(self) -> DiskParked:
        checksum = self._job.wait()
        self._disk._folder.rename(self._temporary, self._name)
        return DiskParked(self._disk, self._recipe, self._name, self._identity.bytes, checksum)

    def _undo(self) -> None:
        self._job.stop()
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
        head = partial(check_head, identity=parked._identity, nbytes=self._recipe.nbytes)
        parts = cut([(buffer,) for buffer in self._buffers])
        self._job = _Job(parked._disk, fd, head, read_part, parts)

    def _complete(self) -> Any:
        try:
            if self._job.wait() != self._expected:
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
        self._job.stop()
        self._buffers = []
