"""Drawing: the Hypothesis strategies of writes, for the slots of one adapter class.

Owns which writes there are. Numbers are drawn, and payloads made of them, so that what Hypothesis
shrinks and prints is small.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from statekit.testing.slots import AttrSlot, FamilySlot, Slot
from statekit.testing.writes import Action, Write, may

__all__ = ["Drawing"]

_SEEDS = st.integers(0, 2**16)
_ACTIONS: tuple[Action, ...] = (
    "assign", "append", "stage", "commit", "discard", "entry", "in_place",
)  # fmt: skip
_BY_HAND = ("assign", "entry", "in_place")
_LISTS = ("LatentBuffer", "RetrievalStore")

Strategy = st.SearchStrategy[Any]


class Drawing:
    """Strategies of writes.

    Args:
        slots: all there are.
        shared: those that a hand-rolled object has, too: they are written in ways that it knows.
        given: by name of a value a strategy for what is stored.

    Attributes:
        any: every write.
        kept: the writes whose outcome is compared with a hand-rolled object.
        filling: nothing, or an assignment of every value.
        deletable: carried values that may be deleted.

    Raises:
        NoPayloadError: nobody knows what to store in a value.
    """

    def __init__(
        self, slots: Sequence[Slot], shared: Sequence[Slot], given: Mapping[str, Strategy]
    ) -> None:
        every: list[Strategy] = []
        kept: list[Strategy] = []
        for slot in slots:
            strategy = given.get(slot.value.name)
            for seed in range(8 if strategy is None else 0):
                slot.payload(seed)  # raises now, and not in the middle of a run
            for action in _ACTIONS:
                if may(slot, action):
                    writes = _writes(slot, action, strategy)
                    every.append(writes)
                    if slot not in shared or action in _BY_HAND:
                        kept.append(writes)
        assignments = [_writes(one, "assign", given.get(one.value.name)) for one in slots]
        self.filling: Strategy = st.booleans().flatmap(
            lambda full: st.tuples(*assignments if full else ()).map(list)
        )
        self.any: Strategy = st.one_of(every)
        self.kept: Strategy = st.one_of(kept)
        self.deletable = [one for one in slots if isinstance(one, AttrSlot) and one not in shared]


def _writes(slot: Slot, action: Action, given: Strategy | None) -> Strategy:
    def write(payload: Any) -> Write:
        return Write(slot, action, payload)

    def write_made(seed: int) -> Write:
        return Write(slot, action, make(seed))

    name = re.sub(r"\W+", "_", f"{action}_{slot}").strip("_")
    write.__name__ = write_made.__name__ = name  # so does Hypothesis print it: assign_latent(17)
    if action in ("commit", "discard"):
        return st.just(write(None))
    if action in ("entry", "in_place"):
        return _SEEDS.map(write)
    if given is not None:
        is_list = slot.value.object in _LISTS or isinstance(slot, FamilySlot)
        whole = st.lists(given, max_size=3) if is_list else given
        return (whole if action == "assign" else given).map(write)
    make: Callable[[int], Any] = slot.whole if action == "assign" else slot.payload
    return _SEEDS.map(write_made)
