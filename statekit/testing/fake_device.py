"""FakeDevice: host memory that counts as an accelerator's, for tests on a machine without one.

Owns the pretence. While it is on, the memory of torch's CPU tensors counts under the device's name,
except what was moved to host memory: by `on_commit: [move]` to `cpu`, by parking, or by `to_host`.
Arrays of numpy are host memory always. So budgets of the device, admission, parking in host memory
and coming back run as they would there, without its speed and without its errors.

    X1  A copy between the two is carried out only when somebody waits for it, after those that it
        was told to come after: whoever reads or reuses memory too early sees the wrong bytes.
    X2  Afterwards nothing of it is left, but for the managers that were made meanwhile: close them.

What `tensor.to("cpu")` returns in the model's own code is the same tensor here, and stays on the
device. One at a time in a process.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

import torch

from statekit.books import footprint
from statekit.manager import SessionStateManager
from statekit.measure import part
from statekit.on_commit import OnCommit
from statekit.parking import host
from statekit.parking.cuda import Copies, Pair
from statekit.walk import torch_memory

__all__ = ["FakeDevice", "FakeEngine", "LateCopies"]


class LateCopies:
    """Copies that are made when somebody waits for them."""

    def __init__(self, pairs: Sequence[Pair], after: Sequence[Copies]) -> None:
        self._pairs, self._after = list(pairs), list(after)
        self.joined = False

    def wait(self) -> None:
        """Make those that come before, then these."""
        for earlier in self._after:
            earlier.wait()
        self._after = []
        for destination, source in self._pairs:
            destination.copy_(source)
        self._pairs = []

    def join(self, tensors: Iterable[torch.Tensor]) -> None:
        """As `wait`: there is no stream that could wait instead."""
        self.joined = True
        self.wait()


class FakeEngine:
    """What the host tier needs of a device: its memory is what `serves` says.

    Attributes:
        pinned_bytes: how much host memory was asked for.
        copies: all that were begun.
        fail_copy, fail_pin: what the next such call raises; None lets it pass.
    """

    def __init__(self, serves: Callable[[torch.Tensor], bool] = lambda memory: True) -> None:
        self._serves = serves
        self.pinned_bytes = 0
        self.copies: list[LateCopies] = []
        self.fail_copy: BaseException | None = None
        self.fail_pin: BaseException | None = None

    def serves(self, memory: torch.Tensor) -> bool:
        """Whether this memory is the device's."""
        return self._serves(memory)

    def pin(self, nbytes: int) -> torch.Tensor:
        """New host memory."""
        if self.fail_pin is not None:
            raise self.fail_pin
        self.pinned_bytes += nbytes
        with torch.inference_mode(False):
            return torch.empty(nbytes, dtype=torch.uint8)

    def copy(self, pairs: Sequence[Pair], after: Iterable[Copies]) -> LateCopies:
        """Begin to copy: nothing happens yet."""
        if self.fail_copy is not None:
            raise self.fail_copy
        self.copies.append(LateCopies(pairs, list(after)))
        return self.copies[-1]


class FakeDevice:
    """An accelerator that is none, for a `with` block.

    Args:
        name: what it is called in budgets, statistics and as the manager's `model_device`.

    Attributes:
        engine: carries the copies out; can be told to fail.
    """

    def __init__(self, name: str = "cuda:0") -> None:
        self.name = name
        self.engine = FakeEngine(lambda memory: not self.is_host(memory))
        self._host: dict[int, weakref.ref[Any]] = {}
        self._undo: list[Callable[[], None]] = []

    def manager(self, budget: int | str | None = None, **settings: Any) -> SessionStateManager:
        """A manager of a model on this device, with a budget for it; close it before the end."""
        settings.setdefault("model_device", self.name)
        if budget is not None:
            settings["budgets"] = {self.name: budget, **settings.get("budgets", {})}
        return SessionStateManager(**settings)

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of a tensor in host memory; one that is there already as it is."""
        if self.is_host(tensor):
            return tensor
        copied = tensor.clone()
        self._mark(copied)
        return copied

    def is_host(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's memory is the host's."""
        storage = tensor.untyped_storage()
        found = self._host.get(id(storage))
        return found is not None and found() is storage

    def __enter__(self) -> FakeDevice:
        memory_of = torch_memory.memory_of
        apply = OnCommit.apply
        pin = self.engine.pin

        def counted(tensor: torch.Tensor, storage: Any) -> tuple[str, int, int]:
            device, start, end = memory_of(tensor, storage)
            on_device = device == "cpu" and not self.is_host(tensor)
            return (self.name if on_device else device), start, end

        def moved(steps: OnCommit, payload: Any) -> Any:
            payload = apply(steps, payload)
            return self._all_to_host(payload) if steps.device == "cpu" else payload

        def pinned(nbytes: int) -> torch.Tensor:
            memory = pin(nbytes)
            self._mark(memory)
            return memory

        self._set(self.engine, "pin", pinned)
        self._set(OnCommit, "apply", moved)
        self._set(host, "CudaEngine", lambda: self.engine)
        for module in (torch_memory, footprint, part):
            self._set(module, "memory_of", counted)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._undo:
            self._undo.pop()()

    def _set(self, owner: Any, name: str, new: Any) -> None:
        old = getattr(owner, name)
        self._undo.append(lambda: setattr(owner, name, old))
        setattr(owner, name, new)

    def _mark(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = id(storage)
        self._host[key] = weakref.ref(storage, lambda _: self._host.pop(key, None))

    def _all_to_host(self, payload: Any) -> Any:
        if isinstance(payload, torch.Tensor):
            return self.to_host(payload)
        if isinstance(payload, (tuple, list)):
            parts = [self._all_to_host(one) for one in payload]
            return type(payload)(*parts) if hasattr(payload, "_fields") else type(payload)(parts)
        return payload
