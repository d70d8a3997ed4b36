"""Snapshot: a file that was opened and whose head was checked; its bytes are read when asked.

Owns the reading of bytes, their check, and on which devices they come to be. Not here: the head
(`statekit.snapshot_file.head`) and how values are built (`statekit.image.recipe`).

    Z1  A value is handed out whole, with every byte as it was written, or not at all.
    Z2  It lies in fresh memory of its own: the file may change or go.
    Z3  Memory of an accelerator is filled storage by storage: the host holds one of them at a time.

Any thread may read; several may at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain, islice
from types import TracebackType
from typing import Any

import torch

from statekit.bulk.checksum import PART_NBYTES, combined_checksum, part_checksum
from statekit.bulk.cutting import cut, part_count
from statekit.bulk.moving import Part, move_now
from statekit.bulk.parts import DamagedFileError
from statekit.image.memory import empty_bytes
from statekit.image.recipe import Recipe
from statekit.snapshot_file.entries import Entry
from statekit.snapshot_file.head import Head, read_head
from statekit.snapshot_file.source import Source, damaged, failed
from statekit.snapshot_file.targets import find_targets

__all__ = ["Snapshot"]

_FAILING = (OSError, MemoryError, RuntimeError)
_FAILING_BUILD = (MemoryError, getattr(torch, "OutOfMemoryError", MemoryError))
_BUILDING = (ValueError, TypeError, KeyError, IndexError, OverflowError, RuntimeError, SystemError)
"""What building a recipe that was checked can still raise."""


class Snapshot:
    """A snapshot, open: what it says of itself, and its value when asked.

    Raises:
        SnapshotError: as `statekit.snapshot_file.head.read_head`; the source is closed again.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        try:
            self._head: Head = read_head(source)
        except BaseException:
            source.close()
            raise

    @property
    def place(self) -> str:
        """The file, for errors."""
        return self._source.place

    @property
    def about(self) -> dict[str, Any]:
        """What the writer said of it."""
        return self._head.about

    @property
    def format(self) -> int:
        """The format of the file."""
        return self._head.format

    @property
    def version(self) -> str:
        """The statekit that wrote it."""
        return self._head.version

    @property
    def created_at(self) -> datetime:
        """When it was written."""
        return self._head.created_at

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self._head.nbytes

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its storages, in the order of the file."""
        return self._head.entries

    @property
    def head(self) -> Head:
        """All that its head says."""
        return self._head

    def read(self, devices: Mapping[str, str] | None = None, *, verify: bool = True) -> Any:
        """Return the value.

        Args:
            devices: where tensors and torch's generators go instead of the device they were on,
                such as `{"cuda:0": "cpu"}`. Arrays, bytes and what shares memory with them stay in
                host memory.
            verify: whether the bytes are checked; without, a damaged one can go unseen.

        Raises:
            DamagedSnapshotError: it is not as it was written.
            IncompatibleSnapshotError: a device, a dtype or a generator is not there.
            SnapshotError: it could not be read, or there is no memory.
        """
        moves = {str(old): str(new) for old, new in (devices or {}).items()}
        recipe = Recipe(self._head.recipe)
        targets = find_targets(self._source.place, recipe, moves)
        try:
            storages = self._read_storages(recipe, targets, verify=verify)
        except DamagedFileError as error:
            raise damaged(self._source.place, str(error)) from None
        except _FAILING as error:
            raise failed(self._source.place, error) from None
        try:
            return recipe.build(storages, moves)
        except _FAILING_BUILD as error:
            raise failed(self._source.place, error) from None
        except _BUILDING as error:
            found = f"a value cannot be built: {str(error).strip()[:200] or type(error).__name__}"
            raise damaged(self._source.place, found) from None

    def verify(self) -> None:
        """Return if every byte is as it was written; takes little memory.

        Raises:
            DamagedSnapshotError: one is not.
            SnapshotError: it could not be read.
        """
        parts = {
            number: _scratch(stored.begin, stored.nbytes)
            for number, stored in enumerate(self._head.storages)
        }
        try:
            self._fill(parts, verify=True)
        except DamagedFileError as error:
            raise damaged(self._source.place, str(error)) from None
        except _FAILING as error:
            raise failed(self._source.place, error) from None

    def close(self) -> None:
        """Let go of the file; safe to repeat. What was read stays good."""
        self._source.close()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read_storages(
        self, recipe: Recipe, targets: list[str], *, verify: bool
    ) -> list[torch.Tensor]:
        """The storages, on their targets. Raises: DamagedFileError, OSError, no memory."""
        sizes = [nbytes for _, nbytes in recipe.storages]
        found: dict[int, torch.Tensor] = {}
        in_host = [number for number, target in enumerate(targets) if target == "cpu"]
        groups = [in_host, *([n] for n, target in enumerate(targets) if target != "cpu")]
        for group in groups:
            buffers = {number: empty_bytes(sizes[number]) for number in group}
            self._fill({n: self._parts(n, buffer) for n, buffer in buffers.items()}, verify=verify)
            found |= {n: _moved(buffer, targets[n]) for n, buffer in buffers.items()}
        return [found[number] for number in range(len(sizes))]

    def _parts(self, number: int, buffer: torch.Tensor) -> Iterator[Part]:
        return cut([(buffer,)], self._head.storages[number].begin)

    def _fill(self, parts: dict[int, Iterator[Part]], *, verify: bool) -> None:
        """Read the parts of each storage. Raises: DamagedFileError, OSError, no memory."""
        stored = self._head.storages
        nbytes = sum(stored[number].nbytes for number in parts)
        read = self._read_summed if verify else self._read_unsummed
        sums = iter(move_now(read, chain(*parts.values()), nbytes))
        for number in parts:
            found = combined_checksum(islice(sums, part_count(stored[number].nbytes)))
            if verify and found != stored[number].checksum:
                raise DamagedFileError(f"the bytes of {stored[number].name!r} have changed")

    def _read_summed(self, part: memoryview, offset: int) -> int:
        self._source.read(part, offset)
        return part_checksum(part)

    def _read_unsummed(self, part: memoryview, offset: int) -> int:
        self._source.read(part, offset)
        return 0


def _scratch(begin: int, nbytes: int) -> Iterator[Part]:
    """Parts of memory that is let go of when they have been summed."""
    for offset in range(0, nbytes, PART_NBYTES):
        yield begin + offset, memoryview(bytearray(min(PART_NBYTES, nbytes - offset)))


def _moved(buffer: torch.Tensor, device: str) -> torch.Tensor:
    with torch.inference_mode(False):
        return buffer.to(device)
