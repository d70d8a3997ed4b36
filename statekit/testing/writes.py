"""Writes: one change of a value, done alike to an adapter, a plain model, a hand-rolled object.

Owns what a state machine does to values. Each of the three gets a payload of its own.
"""

from __future__ import annotations

import contextlib
import random
from collections import deque
from collections.abc import Iterator
from typing import Any, Literal

import attrs
import numpy as np
import torch

from statekit.adapter import StateAdapter
from statekit.errors import AlreadyEncodedError
from statekit.testing.plain import Plain, copied
from statekit.testing.shown import shown
from statekit.testing.slots import AttrSlot, FamilySlot, ObjectSlot, Slot

__all__ = ["Action", "Write", "may"]

Action = Literal["assign", "append", "stage", "commit", "discard", "entry", "in_place"]


def may(slot: Slot, action: Action) -> bool:
    """Whether a value can be changed in this way."""
    if action == "assign":
        return True
    if action == "entry":
        whole = slot.value.object in (None, "HeldValue", "EncodeOnce")
        return whole and slot.value.update == "entries" and not isinstance(slot, FamilySlot)
    if action == "in_place":
        in_place = slot.value.update == "in_place" or slot.value.object == "FixedState"
        return in_place and isinstance(slot, (AttrSlot, ObjectSlot))
    return isinstance(slot, ObjectSlot)


@attrs.frozen(eq=False)
class Write:
    """One change.

    Attributes:
        slot: which value is changed.
        action: in which way.
        payload: what is stored; of a change within, a number that says what is written.
    """

    slot: Slot
    action: Action
    payload: Any = None

    def __repr__(self) -> str:
        stored = self.action in ("assign", "append", "stage")
        return f"<{self.action} {self.slot}{': ' + shown(self.payload) if stored else ''}>"

    def to_adapter(self, adapter: StateAdapter) -> None:
        """Do it to the adapter."""
        payload = copied(self.payload)
        with contextlib.suppress(AlreadyEncodedError):
            if self.action == "assign":
                self.slot.assign(adapter, payload)
            elif self.action in ("entry", "in_place"):
                if not _has_staged(self.slot, adapter):
                    self._change_within(self.slot.to_write_into(adapter))
            elif isinstance(self.slot, ObjectSlot):
                obj = self.slot.object(adapter)
                if self.action in ("append", "stage"):
                    getattr(obj, self.action)(payload)
                else:
                    getattr(obj, self.action)()

    def to_model(self, model: Plain) -> None:
        """Do it to the plain value."""
        with contextlib.suppress(AlreadyEncodedError):
            if self.action in ("entry", "in_place"):
                if model.waiting:
                    return
                held = copied(model.held)
                self._change_within(held)
                model.held = held
            elif self.action in ("assign", "append", "stage"):
                getattr(model, self.action)(self.payload)
            else:
                getattr(model, self.action)()

    def to_hand(self, state: Any) -> None:
        """Do it to the hand-rolled object; assignments and changes within alone."""
        name = self.slot.value.name
        if self.action == "assign":
            setattr(state, name, self.slot.for_hand(copied(self.payload)))
        else:
            self._change_within(getattr(state, name))

    def _change_within(self, value: Any) -> None:
        """Another entry in a container; or other bits in every tensor and array."""
        dice = random.Random(self.payload)
        if self.action == "entry":
            entry = torch.full((2,), float(dice.randint(0, 99)))
            if isinstance(value, dict) and value:
                value[dice.choice(sorted(value, key=repr))] = entry
            elif isinstance(value, (list, deque)) and value:
                value[dice.randrange(len(value))] = entry
            return
        filling = dice.randint(0, 1)
        for leaf in _leaves(value):
            if isinstance(leaf, torch.Tensor):
                with torch.inference_mode():
                    leaf.fill_(filling)
            else:
                leaf.fill(filling)


def _has_staged(slot: Slot, adapter: StateAdapter) -> bool:
    return isinstance(slot, ObjectSlot) and slot.object(adapter).staged() is not None


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, (list, tuple, deque)):
        for one in value:
            yield from _leaves(one)
