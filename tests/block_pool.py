"""A little paged pool as engines have them: blocks of tokens in one tensor, sink and window.

Owns the blocks; a session of it holds block numbers alone. Knows nothing of state objects.
"""

from __future__ import annotations

from collections import deque

import torch

__all__ = ["BlockPool", "PoolFullError", "PoolSession"]

BLOCK_TOKENS = 16


class PoolFullError(RuntimeError):
    """No block is free."""


class BlockPool:
    """`blocks` blocks of 16 tokens, each token of `width` elements, in one tensor."""

    def __init__(self, blocks: int, width: int = 4) -> None:
        self.storage = torch.zeros(blocks, BLOCK_TOKENS, width)
        self.free = deque(range(blocks))
        self.block_nbytes = BLOCK_TOKENS * width * self.storage.element_size()

    def open(self, sink: int = 1, window: int = 3) -> PoolSession:
        return PoolSession(self, sink, window)


class PoolSession:
    """One session's blocks: the first `sink` ones, and the newest `window` of the others."""

    def __init__(self, pool: BlockPool, sink: int, window: int) -> None:
        self.pool, self.sink, self.window = pool, sink, window
        self.committed: list[int] = []
        self.staged: list[int] = []
        self.closed = 0
        self.broken = ""  # the name of the call that fails

    def _fail(self, call: str) -> None:
        if self.broken == call:
            raise PoolFullError(f"{call} failed")

    def stage(self, chunk: torch.Tensor) -> None:
        """Write whole blocks of tokens, (tokens, width), into free blocks."""
        self._fail("stage")
        count = -(-len(chunk) // BLOCK_TOKENS)
        if count > len(self.pool.free):
            raise PoolFullError(f"{count} blocks wanted, {len(self.pool.free)} free")
        for part in chunk.split(BLOCK_TOKENS):
            block = self.pool.free.popleft()
            self.pool.storage[block, : len(part)] = part
            self.staged.append(block)

    def commit(self) -> None:
        self._fail("commit")
        self.committed += self.staged
        self.staged = []
        while len(self.committed) > self.sink + self.window:
            self.pool.free.append(self.committed.pop(self.sink))

    def discard(self) -> None:
        self.pool.free += self.staged
        self.staged = []

    def tokens(self) -> torch.Tensor:
        return self.pool.storage[self.committed + self.staged].flatten(0, 1)

    def nbytes_by_device(self) -> dict[str, int]:
        self._fail("nbytes_by_device")
        return {"cpu": len(self.committed) * self.pool.block_nbytes}

    def staged_nbytes_by_device(self) -> dict[str, int]:
        return {"cpu": len(self.staged) * self.pool.block_nbytes}

    def close(self) -> None:
        self._fail("close")
        self.closed += 1
        self.pool.free += self.committed + self.staged
        self.committed, self.staged = [], []
