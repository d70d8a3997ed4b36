"""The writing of a snapshot: a value as a picture, a head, and the bytes behind it.

Owns what is refused before anything is touched, and the one pass over the bytes: each is written
and summed while it is in the cache, and the head, whose length is known, is written last.

    X1  A value that cannot be read back is refused first; no file is made for it.
    X2  Memory beyond the value is the head, and of an accelerator's storages a piece at a time.
    X3  Room on the disk is had before the first byte: a full one is found out at once.
    X4  What is to be on the disk goes there while the rest is written: one thread at a time waits
        for it. At the end little is left to wait for.

The caller must not let the value change until it is written. Any thread.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from itertools import islice
from typing import Any

import torch

from statekit.bulk.checksum import combined_checksum, part_checksum
from statekit.bulk.cutting import cut, part_count
from statekit.bulk.moving import move_now
from statekit.bulk.parts import write_part
from statekit.errors import UnsavableError
from statekit.image.check import BadRecipeError, check_recipe
from statekit.image.memory import NoPictureError
from statekit.image.taking import Image, shown_key, take_picture
from statekit.snapshot_file.entries import plan_entries, walk_recipe
from statekit.snapshot_file.head_text import HeadText

__all__ = ["Draft"]

_PIECE_NBYTES = 16 << 20
_FLUSH_NBYTES = 32 << 20
_SMALL_NBYTES = 1 << 20


class Draft:
    """A snapshot that is ready to be written.

    Raises:
        UnsavableError: a part of the value cannot be in a snapshot; its place is named.
    """

    def __init__(
        self, value: Any, about: Mapping[str, Any], created_at: datetime | None = None
    ) -> None:
        image = _picture(value)
        recipe = image.recipe
        try:
            check_recipe(recipe.data, recipe.nbytes)
        except BadRecipeError as error:
            todo = "store a copy, or simpler values"
            place = _place_of(recipe.data, error.node)
            raise UnsavableError(place, f"it has {error.found}", todo) from None
        entries = plan_entries(recipe.data)
        self._order = [number for number, _ in entries]
        self._storages = image.storages
        now = created_at or datetime.now(timezone.utc)
        self._head = HeadText(recipe.data, entries, about, now.astimezone(timezone.utc))
        self.nbytes = self._head.nbytes + recipe.nbytes

    def write(self, fd: int, *, flush: bool = False) -> None:
        """Write all of it to an empty file. Raises: OSError, RuntimeError, MemoryError."""
        begin = self._head.nbytes
        _make_room(fd, self.nbytes)
        parts = cut(self._pieces(), begin)
        write = _Flushing(fd).write if flush else partial(_write, fd)
        sums = move_now(write, parts, self.nbytes - begin)
        write_part(fd, memoryview(self._head.render(self._checksums(sums))), 0)

    def to_bytes(self) -> bytes:
        """All of it in memory. Raises: RuntimeError, MemoryError."""
        parts = [part for _, part in cut(self._pieces(), 0)]
        sums = move_now(_sum, ((0, part) for part in parts), self.nbytes)
        return b"".join([self._head.render(self._checksums(sums)), *parts])

    def _pieces(self) -> list[Iterator[torch.Tensor]]:
        """The storages in the order of the file, in host memory when their turn comes."""
        for device in {storage.device for storage in self._storages if storage.is_cuda}:
            # Other threads read it; what this one has begun there must have ended.
            torch.cuda.current_stream(device).synchronize()
        return [_in_host(self._storages[number]) for number in self._order]

    def _checksums(self, sums: Sequence[int]) -> list[int]:
        """Of each storage of the recipe, from the sums of the parts in the order of the file."""
        left = iter(sums)
        found = [0] * len(self._order)
        for number in self._order:
            count = part_count(self._storages[number].numel())
            found[number] = combined_checksum(islice(left, count))
        return found


def _make_room(fd: int, nbytes: int) -> None:
    """Have the disk set room aside, if it can. Raises: OSError, where there is none."""
    if nbytes > _SMALL_NBYTES and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, 0, nbytes)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise


def _write(fd: int, part: memoryview, offset: int) -> int:
    found = part_checksum(part)  # before, so that the part is in the cache when it is written
    write_part(fd, part, offset)
    return found


class _Flushing:
    """Writes that go to the disk some megabytes at a time."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._nbytes = 0

    def write(self, part: memoryview, offset: int) -> int:
        found = _write(self._fd, part, offset)
        with self._lock:
            self._nbytes += len(part)
            due = self._nbytes >= _FLUSH_NBYTES and self._flushing.acquire(blocking=False)
            if due:
                self._nbytes = 0
        if due:
            try:
                os.fdatasync(self._fd)
            finally:
                self._flushing.release()
        return found


def _sum(part: memoryview, offset: int) -> int:
    return part_checksum(part)


def _in_host(storage: torch.Tensor) -> Iterator[torch.Tensor]:
    if storage.device.type == "cpu":
        yield storage
        return
    for begin in range(0, storage.numel(), _PIECE_NBYTES):
        yield storage[begin : begin + _PIECE_NBYTES].to("cpu")


def _picture(value: Any) -> Image:
    try:
        return take_picture(value)
    except NoPictureError as refused:
        found = f"{refused.found} cannot be saved"
        raise UnsavableError(_place(refused.steps), found, refused.todo) from None


def _place_of(recipe: dict[str, Any], node: int | None) -> str:
    for index, way in walk_recipe(recipe):
        if index == node:
            steps = []
            while way is not None:
                way, key = way
                steps.append(".member" if key is None else (key,))
            return _place(steps[::-1])
    return _place(())


def _place(steps: Sequence[str | tuple[Any, ...]]) -> str:
    return "".join(map(_step, steps)).removeprefix(".") or "the state"


def _step(step: str | tuple[Any, ...]) -> str:
    if isinstance(step, str):
        return step
    (key,) = step
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{shown_key(key)}]"
