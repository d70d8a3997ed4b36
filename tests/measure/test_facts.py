"""Facts: what is remembered of a value is what it is, whatever was done to it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch
from weakref import ref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from statekit.accounting import device_bytes
from statekit.measure import facts as facts_module
from statekit.measure.facts import NO_FACTS, Watched

BASE = torch.zeros(64)
ARRAY = np.zeros(64, np.float32)

ENTRIES: dict[str, Callable[[], Any]] = {
    "fresh": lambda: torch.zeros(3, 5),
    "view": lambda: BASE[:8],
    "other view": lambda: BASE[8:24],
    "the base": lambda: BASE,
    "none": lambda: None,
    "array": lambda: np.zeros((2, 3), np.float16),
    "array view": lambda: ARRAY[4:],
    "the array": lambda: ARRAY,
    "shared with numpy": lambda: torch.from_numpy(ARRAY[8:]),
    "gradient": lambda: torch.zeros(4, requires_grad=True),
    "empty": lambda: torch.zeros(0),
    "expanded": lambda: torch.zeros(1).expand(100),
    "nested": lambda: [torch.zeros(2), {"k": torch.zeros(3)}],
    "text": lambda: "text",
    "bytes": lambda: bytearray(7),
}
OPERATIONS = st.tuples(
    st.sampled_from(["append", "put", "pop", "clear", "resize", "again"]),
    st.sampled_from([*ENTRIES]),
)


@settings(max_examples=200)
@given(
    operations=st.lists(OPERATIONS, max_size=12),
    look=st.lists(st.booleans(), min_size=12),
    many=st.sampled_from([1, 2, 16]),
)
def test_bytes_when_a_list_changes_in_any_way_then_those_of_a_full_count(
    operations: list[tuple[str, str]], look: list[bool], many: int
) -> None:
    """Looks that only see what changed agree with a walk from scratch, after each change."""
    with patch.object(facts_module, "_MANY", many):  # so that short lists take the long ones' way
        _change_and_look(operations, look)


def _change_and_look(operations: list[tuple[str, str]], look: list[bool]) -> None:
    value: list[Any] = []
    watched = Watched()
    for (operation, entry), looks in zip(operations, look, strict=False):
        if operation == "append":
            value.append(ENTRIES[entry]())
        elif operation == "put" and value:
            value[0] = ENTRIES[entry]()
        elif operation == "pop" and value:
            value.pop()
        elif operation == "clear":
            value.clear()
        elif operation == "resize" and value and _owns(value[-1]):
            value[-1].resize_(value[-1].numel() + 7)
        if looks:
            facts = watched.look(value)
            assert dict(facts.nbytes) == device_bytes(value)
            assert facts.items == len(value)
            assert dict(watched.look(value).nbytes) == device_bytes(value)


def _owns(entry: Any) -> bool:
    """Whether an entry can be given other memory."""
    plain = type(entry) is torch.Tensor and not entry.requires_grad
    return plain and entry.untyped_storage().resizable() and entry.stride() != (0,)


def test_facts_when_nothing_has_changed_then_the_very_same() -> None:
    """A second look at the same tensors costs a comparison."""
    watched = Watched()
    value = [torch.zeros(2), None, torch.zeros(3)]
    facts = watched.look(value)
    assert watched.look(value) is facts
    assert watched.look(list(value)) is facts
    value[1] = torch.zeros(4)
    assert watched.look(value) is not facts


def test_value_when_written_says_so_then_not_looked_at() -> None:
    """A StateObject that was not written since is taken at its word."""
    watched, written = Watched(), object()
    facts = watched.look([torch.zeros(2)], written)
    assert watched.look([torch.zeros(9)], written) is facts
    assert watched.look([torch.zeros(9)], object()).nbytes == {"cpu": 36}


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, False), (0, True), (False, True), ("", True), ([], False), ({}, False),
     ([None], False), (torch.zeros(0), True), (object(), True), ((), False)],
)  # fmt: skip
def test_value_when_it_is_anything_then_whether_it_was_written(value: Any, written: bool) -> None:
    """None and empty containers are what a value is before anybody writes it."""
    assert Watched().look(value).written is written


def test_view_when_it_shows_a_part_then_the_rest_is_known() -> None:
    """Several views of one memory show it together; the same view twice shows no more."""
    base = torch.zeros(64)
    (interval,) = Watched().look([base[:8]]).intervals
    part = Watched().look([base[:8], base[:8]])
    assert (part.shown, part.partly) == ({interval: 32}, {interval})
    whole = Watched().look([base[:8], base[8:]])
    assert (whole.shown, whole.partly) == ({interval: 256}, set())


def test_frames_when_an_axis_counts_them_then_summed_up() -> None:
    """Pieces of a ring: frames along the axis, items, and the largest of them."""
    facts = Watched().look([torch.zeros(2, 3, 4), torch.zeros(2, 1, 4)], axis=1)
    assert (facts.frames, facts.items, facts.largest_item) == (4, 2, 96)
    assert facts.shapes == {(2, 3, 4), (2, 1, 4)}


def test_tensor_when_only_the_facts_are_left_then_freed() -> None:
    """Nothing that was looked at is kept."""
    watched = Watched()
    value = [torch.zeros(2)]
    watched.look(value)
    weakly = ref(value[0])
    value.clear()
    assert weakly() is None


def test_array_when_looked_at_then_it_can_still_be_resized() -> None:
    """A weak reference would forbid that."""
    array = np.zeros(4)
    watched = Watched()
    watched.look([array])
    array.resize(8)
    assert watched.look([array]).nbytes == {"cpu": 64}


def test_watch_when_new_then_knows_nothing() -> None:
    """Before the first look there are no facts."""
    assert Watched().facts is NO_FACTS
