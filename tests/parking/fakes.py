"""What goes wrong or late in tests of parking: a device, and memory that runs out.

The device is for the host tier: its memory is the host's, its copies happen late.

A copy is carried out only when somebody waits for it, and then only after those that it was told
to come after. So whoever reads or reuses memory too early sees the wrong bytes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch

from statekit.parking.cuda import Copies, Pair


class LateCopies:
    def __init__(self, pairs: Sequence[Pair], after: Sequence[Any]) -> None:
        self._pairs, self._after = list(pairs), list(after)
        self.joined = False

    def wait(self) -> None:
        for earlier in self._after:
            earlier.wait()
        self._after = []
        for destination, source in self._pairs:
            destination.copy_(source)
        self._pairs = []

    def join(self, tensors: Iterable[torch.Tensor]) -> None:
        self.joined = True
        self.wait()


class FakeEngine:
    """Serves memory that `serves` says is the device's; counts what it pins."""

    def __init__(self, serves: Callable[[torch.Tensor], bool] = lambda memory: True) -> None:
        self._serves = serves
        self.pinned_bytes = 0
        self.copies: list[LateCopies] = []
        self.fail_copy: BaseException | None = None
        self.fail_pin: BaseException | None = None

    def serves(self, memory: torch.Tensor) -> bool:
        return self._serves(memory)

    def pin(self, nbytes: int) -> torch.Tensor:
        if self.fail_pin is not None:
            raise self.fail_pin
        self.pinned_bytes += nbytes
        with torch.inference_mode(False):
            return torch.empty(nbytes, dtype=torch.uint8)

    def copy(self, pairs: Sequence[Pair], after: Iterable[Copies]) -> Copies:
        if self.fail_copy is not None:
            raise self.fail_copy
        self.copies.append(LateCopies(pairs, list(after)))
        return self.copies[-1]


def fail_after(
    patch: pytest.MonkeyPatch, allowed: int, error: BaseException
) -> list[weakref.ref[torch.Tensor]]:
    """Let `torch.empty` succeed so many times; what it gave."""
    empty = torch.empty
    had: list[weakref.ref[torch.Tensor]] = []

    def fail(*args: Any, **kwargs: Any) -> torch.Tensor:
        if len(had) == allowed:
            raise error
        tensor = empty(*args, **kwargs)
        had.append(weakref.ref(tensor))
        return tensor

    patch.setattr(torch, "empty", fail)
    return had
