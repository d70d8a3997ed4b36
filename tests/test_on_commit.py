"""OnCommit: detach, move, compact; and the very same object where there is nothing to do."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from statekit.on_commit import KEEP_AS_IS, OnCommit
from tests.equivalence.bits import assert_same_bits

ALL = OnCommit(detach=True, device="cpu", compact=True)
Pair = namedtuple("Pair", "k v")


@pytest.mark.parametrize(
    "payload",
    [
        torch.ones(3),
        torch.ones(4).reshape(2, 2),
        torch.ones(1).expand(5),
        torch.zeros(0),
        np.ones(3),
        np.ones(4).reshape(2, 2),
        np.broadcast_to(np.ones(1), 5),
        (torch.ones(3), torch.ones(2)),
        [np.ones(3), None],
        Pair(torch.ones(1), 2),
        torch.eye(3).to_sparse(),
        {"other": "types"},
        "text",
        None,
    ],
    ids=repr,
)
def test_apply_when_nothing_to_do_then_same_object(payload: Any) -> None:
    """All steps together return the very same object where none has anything to do."""
    assert ALL.apply(payload) is payload
    assert KEEP_AS_IS.apply(payload) is payload


@pytest.mark.parametrize("container", [tuple, list])
def test_apply_when_container_has_a_view_then_only_that_part_is_new(container: Any) -> None:
    """Tuples and lists keep their type and the parts that need no work."""
    own, padded = torch.ones(3), torch.arange(100.0)
    payload = container([own, padded[:10]])
    result = OnCommit(compact=True).apply(payload)
    assert type(result) is container
    assert result[0] is own
    assert_same_bits(result[1], padded[:10])
    assert result[1].untyped_storage().nbytes() == 40


def test_apply_when_named_tuple_then_it_stays_one() -> None:
    """A named tuple is rebuilt as itself."""
    result = OnCommit(compact=True).apply(Pair(torch.arange(100.0)[:1], 7))
    assert type(result) is Pair
    assert (result.k.untyped_storage().nbytes(), result.v) == (4, 7)


def test_apply_when_deque_has_a_view_then_another_of_its_length() -> None:
    """A deque keeps its bound."""
    done = OnCommit(compact=True).apply(deque([torch.zeros(4)[1:], torch.ones(1)], maxlen=2))
    assert done.maxlen == 2
    assert [one.untyped_storage().nbytes() for one in done] == [12, 4]


@pytest.mark.parametrize("make", [dict, OrderedDict, partial(defaultdict, list)])
def test_apply_when_dict_has_a_view_then_another_of_its_kind_and_order(make: Any) -> None:
    """The parts of a dict are done too; the payload's own stays as it was."""
    whole, view = torch.zeros(3), torch.zeros(4)[1:]
    payload = make({"b": view, "a": whole, "n": 1})
    done = OnCommit(compact=True).apply(payload)
    assert type(done) is type(payload)
    assert list(done) == ["b", "a", "n"]
    assert done["a"] is whole
    assert done["b"] is not view
    assert payload["b"] is view
    assert OnCommit(compact=True).apply(done) is done


def test_detach_when_in_graph_then_out_of_it_on_the_same_memory() -> None:
    """detach leaves the graph and copies nothing."""
    tensor = torch.ones(3, requires_grad=True)
    result = OnCommit(detach=True).apply(tensor)
    assert not result.requires_grad
    assert result.data_ptr() == tensor.data_ptr()


def test_device_when_elsewhere_then_moved() -> None:
    """Tensors end up on the device; arrays, which are always in host memory, stay."""
    array = np.ones(3)
    result = OnCommit(device="meta").apply((torch.ones(3), array))
    assert result[0].device.type == "meta"
    assert result[1] is array


@pytest.mark.parametrize(
    "view",
    [
        np.arange(100.0)[:10],
        np.arange(100.0).reshape(10, 10)[3],
        np.arange(100.0)[:50][:10],
        torch.arange(100.0, dtype=torch.float64)[:10].numpy(),
        np.frombuffer(bytes(800))[:10],
    ],
    ids=["slice", "row", "chain", "of_a_tensor", "of_bytes"],
)
def test_compact_when_array_is_part_of_more_then_copied(view: np.ndarray) -> None:
    """An array over a part of another owner's memory becomes an owner of its own bytes."""
    result = OnCommit(compact=True).apply(view)
    assert_same_bits(result, view)
    assert result.base is None


def test_compact_when_tensor_is_transposed_then_strides_stay() -> None:
    """A copy keeps the order in memory that the view had."""
    tensor = torch.arange(24.0).reshape(4, 2, 3)[:2].transpose(0, 1)
    result = OnCommit(compact=True).apply(tensor)
    assert_same_bits(result, tensor, strides=True)
    assert result.untyped_storage().nbytes() == 12 * 4
