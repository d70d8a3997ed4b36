"""Footprint: the remembered memory of a value is what a full count finds, after every change."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit.accounting import device_bytes
from statekit.books.footprint import Footprint
from statekit.objects import FixedState, HeldValue, LatentBuffer


def recorded(footprint: Footprint) -> dict[str, int]:
    """Bytes by device that the footprint speaks of."""
    total = dict(footprint.handles)
    for device, start, end in footprint.intervals:
        total[device] = total.get(device, 0) + end - start
    return total


def tensors(*sizes: int) -> list[Any]:
    return [torch.zeros(size, dtype=torch.uint8) for size in sizes]


@attrs.define
class Holder:
    payload: Any


BASE = torch.zeros(64, dtype=torch.uint8)
ARRAY = np.zeros(40, np.uint8)

MAKERS: dict[str, Callable[[int], Any]] = {
    "none": lambda size: None,
    "number": lambda size: size,
    "tensor": lambda size: torch.zeros(size, dtype=torch.uint8),
    "view of one storage": lambda size: BASE[:size],
    "array": lambda size: np.zeros(size, np.uint8),
    "view of one array": lambda size: ARRAY[:size],
    "tensor over an array": lambda size: torch.from_numpy(ARRAY[size:]),
    "attrs instance": lambda size: Holder(torch.zeros(size, dtype=torch.uint8)),
    "meta": lambda size: torch.zeros(size, device="meta"),
    "leaf of a graph": lambda size: torch.zeros(size, requires_grad=True),
}
PARTS = st.tuples(st.sampled_from(sorted(MAKERS)), st.integers(0, 40))


def make(part: tuple[str, int]) -> Any:
    return MAKERS[part[0]](part[1])


@given(st.lists(st.tuples(st.sampled_from(["entry", "append", "pop", "all"]), PARTS), max_size=20))
def test_refresh_when_a_list_is_changed_in_any_way_then_exact(
    changes: list[tuple[str, tuple[str, int]]],
) -> None:
    """Entries of any kind that are replaced, added or removed are seen at the next look."""
    value: list[Any] = [*tensors(8, 16), None]
    footprint = Footprint()
    for how, part in changes:
        if how == "entry" and value:
            value[part[1] % len(value)] = make(part)
        elif how == "append":
            value.append(make(part))
        elif how == "pop" and value:
            value.pop()
        elif how == "all":
            value = [make(part), *tensors(4)]
        footprint.refresh(value)
        assert recorded(footprint) == device_bytes(value)
        assert footprint.refresh(value) is False


@given(st.lists(PARTS, max_size=12))
def test_refresh_when_a_value_is_assigned_anew_then_exact(parts: list[tuple[str, int]]) -> None:
    """Whatever follows whatever, the footprint is that of the newest."""
    footprint = Footprint()
    for part in parts:
        value = make(part)
        footprint.refresh(value)
        assert recorded(footprint) == device_bytes(value)


def test_refresh_when_an_entry_becomes_none_then_its_bytes_are_gone() -> None:
    """None in place of a tensor that has died since is no tensor that is still there."""
    value: list[Any] = tensors(8, 16)
    footprint = Footprint()
    footprint.refresh(value)
    value[1] = None
    assert footprint.holds(value) is False
    assert footprint.refresh(value) is True
    assert recorded(footprint) == {"cpu": 8}


def test_refresh_when_a_new_tensor_has_the_id_of_a_dead_one_then_exact() -> None:
    """An id that the interpreter gives to another tensor does not stand for the old one."""
    footprint = Footprint()
    sizes = [8, 64, 8, 128, 16, 8] * 50
    value: list[Any] = [None]
    for size in sizes:
        value[0] = None
        value[0] = torch.zeros(size, dtype=torch.uint8)
        footprint.refresh(value)
        assert recorded(footprint) == {"cpu": size}


@pytest.mark.parametrize(
    ("how", "change"),
    [
        ("resize_", lambda tensor: tensor.resize_(100)),
        ("set_", lambda tensor: tensor.set_(torch.zeros(100, dtype=torch.uint8))),
        ("data", lambda tensor: setattr(tensor, "data", torch.zeros(100, dtype=torch.uint8))),
        ("storage", lambda tensor: tensor.untyped_storage().resize_(100)),
    ],
)
@pytest.mark.parametrize("shape", ["tensor", "list", "tuple", "dict"])
def test_refresh_when_a_tensor_is_given_other_memory_then_exact(
    how: str, change: Callable[[torch.Tensor], object], shape: str
) -> None:
    """The same tensor over another storage is not what was seen, wherever it lies."""
    tensor = torch.zeros(8, dtype=torch.uint8)
    value = {"tensor": tensor, "list": [tensor], "tuple": (tensor,), "dict": {"x": tensor}}[shape]
    footprint = Footprint()
    footprint.refresh(value)
    change(tensor)
    footprint.refresh(value)
    assert recorded(footprint) == device_bytes(value) == {"cpu": 100}


def test_refresh_when_storages_are_shared_then_each_counts_once() -> None:
    """Views of one storage, and a list that names a tensor twice, are one interval."""
    base = torch.zeros(32, dtype=torch.uint8)
    footprint = Footprint()
    footprint.refresh([base[:4], base[8:], base, None])
    assert recorded(footprint) == {"cpu": 32}
    assert len(footprint.intervals) == 1


def test_refresh_when_a_gradient_comes_then_it_is_counted() -> None:
    """A tensor that belongs to a graph is looked into each time: its gradient comes unseen."""
    weight = torch.zeros(8, requires_grad=True)
    footprint = Footprint()
    footprint.refresh(weight)
    weight.sum().backward()
    footprint.refresh(weight)
    assert recorded(footprint) == {"cpu": 64}


def test_refresh_when_an_attrs_instance_is_changed_inside_then_exact() -> None:
    """What a footprint cannot compare is walked each time."""
    holder = Holder(torch.zeros(8, dtype=torch.uint8))
    footprint = Footprint()
    footprint.refresh(holder)
    holder.payload = torch.zeros(100, dtype=torch.uint8)
    assert footprint.refresh(holder) is True
    assert recorded(footprint) == {"cpu": 100}


@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "extend", "replace", "stage", "evict"]), PARTS),
        max_size=20,
    ),
    st.sampled_from([None, 1, 3]),
)
def test_refresh_when_a_latent_buffer_is_written_then_exact(
    writes: list[tuple[str, tuple[str, int]]], maxlen: int | None
) -> None:
    """A buffer of tensors, arrays or anything: its count of writes stands for its items."""
    buffer: LatentBuffer[Any] = LatentBuffer[Any]().allocate(maxlen=maxlen)
    footprint = Footprint()
    for how, part in writes:
        item = make(part)
        if how == "evict":
            buffer.evict()
            buffer.allocate(maxlen=maxlen)
        elif item is not None and how in ("append", "stage"):
            getattr(buffer, how)(item)
        elif item is not None:
            getattr(buffer, how)([item, item])
        footprint.refresh(buffer.committed(), buffer.written)
        assert recorded(footprint) == device_bytes(buffer.committed())


def test_refresh_when_a_fixed_state_is_written_then_nothing_is_new() -> None:
    """A commit copies into the buffers, which are the same memory as before."""
    state: FixedState[Any] = FixedState[Any]().allocate(shape=(8,), dtype=torch.uint8)
    footprint = Footprint()
    assert footprint.refresh(state.committed(), state.written) is True
    state.commit(torch.ones(8, dtype=torch.uint8))
    assert footprint.refresh(state.committed(), state.written) is False
    assert recorded(footprint) == {"cpu": 8}


def test_refresh_when_a_held_list_is_changed_by_its_reader_then_exact() -> None:
    """A reader that replaces entries of the list it was given is seen, as the schema declares."""
    held: HeldValue[Any] = HeldValue[Any]().allocate()
    held.commit([*tensors(8, 8), None])
    footprint = Footprint()
    footprint.refresh(held.committed(), held.written)
    entries: list[Any] = held.view() or []
    entries[2] = torch.zeros(50, dtype=torch.uint8)
    footprint.refresh(held.committed(), held.written)
    assert recorded(footprint) == {"cpu": 66}


def test_refresh_when_nobody_else_holds_the_value_then_it_is_freed_at_once() -> None:
    """A footprint keeps no tensor alive, and dies without help of the garbage collector."""
    footprint = Footprint()
    value = tensors(8, 16)
    footprint.refresh(value)
    dead = [ref(value[0]), ref(value[1])]
    gc.disable()
    try:
        del value
        assert [one() for one in dead] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("nested", [[tensors(4), tensors(8)], {"layer": tensors(4)}, [np.zeros(4)]])
def test_unchanged_when_structure_is_deep_then_told_by_a_look_inside(nested: Any) -> None:
    """A value that `holds` cannot judge is unchanged if its memory is the same."""
    footprint = Footprint()
    footprint.refresh(nested)
    assert footprint.holds(nested) is False
    assert footprint.unchanged(nested) is True
    first = nested["layer"] if isinstance(nested, dict) else nested
    first.append(torch.zeros(4))
    assert footprint.unchanged(nested) is False
