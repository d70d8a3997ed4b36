"""What happens to a payload on its way into an object: detach, move, compact.

Owns the three steps for tensors, arrays, and (named) tuples, lists, deques or dicts of them; other
payloads pass as they are. The work is done when a payload is staged, so that a commit has nothing
left to do and a reader sees staged and committed data on one device.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import torch

__all__ = ["KEEP_AS_IS", "OnCommit"]

T = TypeVar("T")


@attrs.frozen
class OnCommit:
    """The steps, in the order in which they are taken.

    Attributes:
        detach: take tensors out of the autograd graph.
        device: move tensors there (`"cpu"`, `"cuda:0"`); None leaves them where they are.
        compact: copy tensors and arrays that are views of a larger storage, so that the rest of
            that storage is no longer held.
    """

    detach: bool = False
    device: str | None = None
    compact: bool = False

    def apply(self, payload: T) -> T:
        """`payload` with the steps taken; the very same object where none has anything to do."""
        if not (self.detach or self.compact or self.device is not None):
            return payload
        result: T = self._apply(payload)
        return result

    def _apply(self, payload: Any) -> Any:
        if isinstance(payload, torch.Tensor):
            if self.detach and payload.requires_grad:
                payload = payload.detach()
            if self.device is not None and not (self.device == "cpu" and payload.is_cpu):
                payload = payload.to(self.device)
            if self.compact and _pins_more(payload):
                payload = payload.clone()
        elif isinstance(payload, np.ndarray):
            if self.compact and _array_pins_more(payload):
                payload = payload.copy()
        elif isinstance(payload, (tuple, list)):
            parts = [self._apply(part) for part in payload]
            if any(new is not old for new, old in zip(parts, payload, strict=True)):
                named = hasattr(payload, "_fields")
                payload = type(payload)(*parts) if named else type(payload)(parts)
        elif isinstance(payload, deque):
            parts = [self._apply(part) for part in payload]
            if any(new is not old for new, old in zip(parts, payload, strict=True)):
                payload = type(payload)(parts, payload.maxlen)
        elif isinstance(payload, dict):
            new = {name: self._apply(part) for name, part in payload.items()}
            if any(new[name] is not part for name, part in payload.items()):
                payload = payload.copy()  # of its own class, in its order
                payload.update(new)
        return payload


KEEP_AS_IS = OnCommit()


def _pins_more(tensor: torch.Tensor) -> bool:
    """Whether the storage of `tensor` holds more than a copy of it would."""
    if tensor.layout is not torch.strided:
        return False  # has no one storage
    return tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()


def _array_pins_more(array: npt.NDArray[Any]) -> bool:
    """Whether `array` is a view of more than a copy of it would hold, as far as numpy can say."""
    base = array.base
    if isinstance(base, np.ndarray) and base.base is None:
        return base.nbytes > array.nbytes
    return base is not None
