"""What happens to a payload on its way into an object: detach, move, compact.

Owns the three steps for tensors, arrays, and tuples or lists of them. The work is done when a
payload is staged, so that a commit can no longer fail and a reader sees staged and committed
data on one device.
"""

from __future__ import annotations

from typing import Any, TypeVar

import attrs
import numpy as np
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
        if self == KEEP_AS_IS:
            return payload
        result: T = self._apply(payload)
        return result

    def _apply(self, payload: Any) -> Any:
        if isinstance(payload, torch.Tensor):
            if self.detach:
                payload = payload.detach()
            if self.device is not None:
                payload = payload.to(self.device)
            if self.compact and payload.untyped_storage().nbytes() > _own_nbytes(payload):
                payload = payload.clone()
        elif isinstance(payload, np.ndarray):
            if self.compact and payload.base is not None:
                payload = payload.copy()
        elif type(payload) in (tuple, list):
            payload = type(payload)(self._apply(part) for part in payload)
        return payload


KEEP_AS_IS = OnCommit()


def _own_nbytes(tensor: torch.Tensor) -> int:
    """Bytes that a compact copy of `tensor` would hold."""
    return tensor.numel() * tensor.element_size()
