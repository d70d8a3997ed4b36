"""Pinned host memory in chunks of one size, used again and again.

Owns the chunks that nobody uses, and the bound. Chunks have one size because page-locked memory is
dear to make and comes in powers of two: any chunk serves any value, and little is wasted. Beyond
the bound, or where no more can be page-locked, memory is pageable, of the exact size, and not kept.

    P1  Page-locked bytes, used or not, never exceed `max_bytes`.
    P2  A chunk that is given back is handed out again only together with the copy that last read
        it (`Chunk.busy`); the next user's copy waits for that one on the device.

Thread-safe without holding a lock while memory is made; `give_back` takes no lock at all, because
the garbage collector may call it at any moment.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

import attrs
import torch

from statekit.accounting import SeenStorages, device_bytes
from statekit.image.memory import empty_bytes
from statekit.parking.cuda import Copies

__all__ = ["Chunk", "PinnedPool"]


@attrs.define(eq=False)
class Chunk:
    """A piece of host memory; `busy` is the copy that may still read or write it."""

    memory: torch.Tensor
    pinned: bool
    busy: Copies | None = None


class PinnedPool:
    """Hands out host memory, page-locked as far as the bound allows.

    Args:
        pin: makes page-locked memory; may raise.
        max_bytes: the bound.
        chunk_bytes: the size of a chunk, a power of two.
    """

    def __init__(
        self, pin: Callable[[int], torch.Tensor], max_bytes: int, chunk_bytes: int
    ) -> None:
        self.chunk_bytes = chunk_bytes
        self._pin = pin
        self._max_chunks = max_bytes // chunk_bytes
        self._idle: deque[Chunk] = deque()
        self._lock = threading.Lock()  # guards the next line alone
        self._chunks = 0

    def take(self, nbytes: int) -> list[Chunk]:
        """Chunks that hold `nbytes` together; all but the last are of the pool's size.

        Raises:
            RuntimeError, MemoryError: there is no memory; nothing was taken.
        """
        taken: list[Chunk] = []
        try:
            while nbytes > 0:
                taken.append(self._take_one(min(self.chunk_bytes, nbytes)))
                nbytes -= self.chunk_bytes
        except BaseException:
            self.give_back(taken)
            raise
        return taken

    def give_back(self, chunks: Iterable[Chunk]) -> None:
        """Take chunks back that nobody reads or writes but `busy`."""
        self._idle.extend(chunk for chunk in chunks if chunk.pinned)

    def trim(self) -> None:
        """Free the idle chunks."""
        while True:
            try:
                chunk = self._idle.popleft()
            except IndexError:
                return
            if chunk.busy is not None:
                chunk.busy.wait()
            with self._lock:
                self._chunks -= 1

    def nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Bytes of the idle chunks."""
        return device_bytes([chunk.memory for chunk in tuple(self._idle)], seen)

    def _take_one(self, nbytes: int) -> Chunk:
        try:
            return self._idle.popleft()  # the one whose last copy is the oldest
        except IndexError:
            pass
        with self._lock:
            if self._chunks >= self._max_chunks:
                return Chunk(empty_bytes(nbytes), pinned=False)
            self._chunks += 1
        try:
            return Chunk(self._pin(self.chunk_bytes), pinned=True)
        except BaseException as error:
            with self._lock:
                self._chunks -= 1
            if not isinstance(error, RuntimeError):
                raise
        return Chunk(empty_bytes(nbytes), pinned=False)
