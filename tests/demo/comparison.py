"""What a rollout on both sides found: equal bits, bytes, times."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np
import torch

from statekit.manager import SessionStateManager
from statekit.session import SessionState
from tests.equivalence.bits import difference
from tests.equivalence.held import held_bytes

__all__ = ["Comparison"]


@attrs.define
class Comparison:
    """The findings of one model, gathered while its rollout runs.

    Attributes:
        model: name of the model.
        setup: what was run, in a line.
        steps: how many steps the rollout has.
        tensors: how many tensors and arrays were compared bit for bit.
        first_difference: where the sides differed first, and how; None: nowhere.
        reported: bytes by device as `manager.stats()` reports them, at the end of the rollout.
        held: the same, found by walking the session's storages.
        hand_held: what the hand-rolled side holds at that moment, found by walking.
        bounded_what: the part of the state that the generated side bounds or compacts.
        hand_bounded: what the hand-rolled side keeps of it, in words.
        adapter_bounded: what the generated side keeps of it.
        after: bytes reported after the sessions were dropped.
        hand_s: seconds of state work of each step on the hand-rolled side.
        adapter_s: the same on the generated side.
        model_s: seconds of model work of both sides together.
    """

    model: str
    setup: str
    steps: int
    tensors: int = 0
    first_difference: str | None = None
    reported: dict[str, int] = attrs.field(factory=dict)
    held: dict[str, int] = attrs.field(factory=dict)
    hand_held: dict[str, int] = attrs.field(factory=dict)
    bounded_what: str = ""
    hand_bounded: str = ""
    adapter_bounded: str = ""
    after: int = 0
    hand_s: list[float] = attrs.field(factory=list)
    adapter_s: list[float] = attrs.field(factory=list)
    model_s: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether nothing differed."""
        return self.first_difference is None

    @property
    def hand_median_s(self) -> float:
        """Median seconds of state work in a step of the hand-rolled side."""
        return statistics.median(self.hand_s)

    @property
    def adapter_median_s(self) -> float:
        """Median seconds of state work in a step of the generated side."""
        return statistics.median(self.adapter_s)

    def compare(self, where: str, adapter: Any, hand: Any) -> None:
        """Compare two values bit for bit; the first difference is kept."""
        self.tensors += _count_tensors(hand)
        if self.equal:
            found = difference(adapter, hand)
            if found is not None:
                self.first_difference = f"{where}{found}"

    def compare_bytes(
        self, where: str, manager: SessionStateManager, sessions: Iterable[SessionState]
    ) -> None:
        """Take the bytes of now down; one more or less than is held is a difference."""
        prefix = "nbytes:"
        stats = manager.stats().items()
        self.reported = {key[len(prefix) :]: n for key, n in stats if key.startswith(prefix)}
        self.held = held_bytes(*map(_values, sessions))
        if self.equal and self.reported != self.held:
            self.first_difference = f"{where}: {self.reported} bytes reported, {self.held} held"


def _values(session: SessionState) -> list[Any]:
    """All values of both buckets."""
    objects = map(session.get, session.names)
    return [session.attrs, *(obj.view() for obj in objects if obj is not None and obj.resident)]


def _count_tensors(value: Any) -> int:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return 1
    return sum(map(_count_tensors, value)) if isinstance(value, (list, tuple)) else 0
