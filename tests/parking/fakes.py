"""Memory that runs out, in tests of parking; the device for the host tier is the kit's."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from statekit.testing.fake_device import FakeEngine

__all__ = ["FakeEngine", "fail_after"]


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
