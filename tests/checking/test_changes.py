"""Changes that are not declared are found at the next read or write, and by a look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from statekit import checking
from statekit.errors import DeclarationError
from statekit.manager import SessionStateManager
from tests.checking.toy import toy

pytestmark = pytest.mark.usefixtures("checked")


def latent() -> torch.Tensor:
    return torch.zeros(1, 4, 2, 8, 8)


def inference_latent() -> torch.Tensor:
    with torch.inference_mode():
        return latent()


def through_numpy(tensor: torch.Tensor) -> None:
    tensor.numpy()[0, 0, 0, 0, 0] = 1


def out_into(tensor: torch.Tensor) -> None:
    torch.add(tensor, 1, out=tensor)


def index_put(tensor: torch.Tensor) -> None:
    tensor[0, 1] = 5


def other_data(tensor: torch.Tensor) -> None:
    tensor.data = torch.ones(1, 4, 2, 8, 8)


CHANGES: dict[str, Callable[[torch.Tensor], Any]] = {
    "add_": lambda tensor: tensor.add_(1),
    "copy_": lambda tensor: tensor.copy_(torch.ones(())),
    "view": lambda tensor: tensor[0].view(-1)[3:5].fill_(2),
    "index": index_put,
    "out": out_into,
    "resize_": lambda tensor: tensor.resize_(1, 4, 1, 8, 8),
    "numpy": through_numpy,
    "data": other_data,
    "set_": lambda tensor: tensor.set_(torch.ones(1, 4, 2, 8, 8)),
    "foreach": lambda tensor: torch._foreach_add_([tensor], 1.0),
}


@pytest.mark.parametrize("found_by", ["read", "write", "look"])
@pytest.mark.parametrize("make", [latent, inference_latent], ids=["versioned", "inference"])
@pytest.mark.parametrize("change", CHANGES)
def test_replaced_tensor_when_written_into_then_found_once(
    change: str, make: Callable[[], torch.Tensor], found_by: str
) -> None:
    """Whatever wrote: the next read, write or look names the value, and the line that stored it."""
    state = toy()
    tensor = make()
    state.latent = tensor
    with torch.inference_mode(make is inference_latent):
        CHANGES[change](tensor)
    find: dict[str, Callable[[], Any]] = {
        "read": lambda: state.latent,
        "write": lambda: setattr(state, "latent", None),
        "look": lambda: checking.look(state.session),
    }
    with pytest.raises(DeclarationError) as caught:
        find[found_by]()
    error = caught.value
    assert error.value == "latent"
    assert "declared `update: replaced`" in error.found
    assert f"since {__file__}:" in error.found
    assert "update: in_place" in error.todo
    assert state.latent is tensor  # reported once, and not replaced


def test_array_when_written_into_then_found() -> None:
    """An array has its bytes summed, also where it is a view of another."""
    base = np.zeros((70, 64, 3), np.uint8)
    state = toy()
    state.frame = base[:64]
    base[65:] = 1  # beside it
    assert state.frame is not None
    base[3, 4, 1] = 7
    with pytest.raises(DeclarationError, match=r"frame .* it was written into since"):
        _ = state.frame


def test_tensor_when_another_part_of_its_storage_is_written_then_no_finding() -> None:
    """What a view does not show is not the session's."""
    base = torch.zeros(2, 4, 2, 8, 8)
    state = toy()
    state.latent = base[:1]
    base[1:] = 3
    assert state.latent is not None
    with checking.watch(state.session):
        base[1:] = 4
    checking.look(state.session)


def test_tensor_of_an_array_when_the_array_is_written_then_found() -> None:
    """Memory that numpy owns, under a tensor that torch counts the writes of."""
    array = np.zeros((1, 4, 2, 8, 8), np.float32)
    state = toy()
    state.latent = torch.from_numpy(array)
    array[0, 0] = 2
    with pytest.raises(DeclarationError, match="it was written into"):
        _ = state.latent


def test_replaced_list_when_an_entry_is_replaced_then_found() -> None:
    """In a list declared `replaced`, another tensor, one more and one less are changes."""
    for change, found in (
        (lambda kv: kv.__setitem__(1, torch.zeros(3)), r"\[1\] is another object"),
        (lambda kv: kv.append(torch.zeros(3)), "entries came or went"),
        (lambda kv: kv.pop(), "entries came or went"),
        (lambda kv: kv.reverse(), r"\[0\] is another object"),
        (lambda kv: kv[1].add_(1), r"\[1\] was written into"),
    ):
        state = toy()
        state.kv = [torch.zeros(3), torch.zeros(3)]
        change(state.kv)
        with pytest.raises(DeclarationError, match=found):
            _ = state.kv


def test_nested_container_when_changed_then_found_with_its_path() -> None:
    """Plain entries of dicts and tuples count as well; an equal one is no change."""
    state = toy()
    state.table = table = {"a": (1, "x"), "b": (2, "y")}
    table["a"] = (3, "x")
    with pytest.raises(DeclarationError, match=r"\['a'\] is another object") as caught:
        _ = state.table
    assert "`update: entries`" in caught.value.todo


def test_default_container_when_filled_in_place_then_found() -> None:
    """A container that the first read made is the session's like any other."""
    state = toy()
    state.table["a"] = (1, "x")
    assert state.table == {"a": (1, "x")}  # first seen here
    state.table["b"] = (2, "x")
    with pytest.raises(DeclarationError, match="entries came or went"):
        _ = state.table


def test_entries_when_they_are_replaced_then_fine_and_when_written_into_then_found() -> None:
    """`entries` allows other tensors in the list, and none to be written into."""
    state = toy()
    first, second = torch.zeros(3), torch.zeros(3)
    state.cache = [first, None]
    cache = state.cache
    cache[0], cache[1] = second, torch.ones(2)
    cache.append(None)
    state.cache = cache
    checking.look(state.session)
    first.add_(1)  # is no part any more
    assert state.cache is cache
    second.add_(1)
    with pytest.raises(DeclarationError, match=r"\[0\] was written into .* `update: entries`"):
        _ = state.cache


def test_entries_when_a_new_one_is_wrong_then_found() -> None:
    """What comes into a list past the adapter is compared with the declaration as well."""
    state = toy()
    state.cache = [None]
    state.cache.append(torch.zeros(3).double())
    with pytest.raises(DeclarationError, match=r"\[1\] is float64, declared float32"):
        checking.look(state.session)
    with pytest.raises(DeclarationError, match=r"\[1\] is float64, declared float32"):
        state.cache = state.cache


def test_in_place_value_when_written_into_then_fine() -> None:
    """What is declared is no finding, by any way of finding."""
    state = toy()
    state.scratch = torch.zeros(4)
    with checking.watch(state.session):
        state.scratch.add_(1)
        state.scratch = state.scratch
    checking.look(state.session)


def test_generator_when_it_draws_then_found() -> None:
    """A generator declared `replaced` that has drawn is not what was stored."""
    state = toy()
    state.rng = torch.Generator().manual_seed(1)
    checking.look(state.session)
    torch.rand(2, generator=state.rng)
    with pytest.raises(DeclarationError, match=r"rng .* was written into"):
        checking.look(state.session)


@pytest.mark.parametrize("name", ["ring", "held", "text"])
def test_object_when_what_it_holds_is_written_into_then_found(name: str) -> None:
    """Items of a ring, a held list, a member of a family: found by the next use and by a look."""
    for find in ("use", "look"):
        state = toy()
        tensor = torch.zeros(2, 1, 8)

        def use(state: Any = state) -> Any:
            return (
                state.text("negative").view() if name == "text" else
                getattr(state, f"{name}_object").view()
            )  # fmt: skip

        if name == "ring":
            state.ring_object.extend([torch.ones(2, 1, 8), tensor])
        elif name == "held":
            state.held_object.commit([torch.ones(1), tensor])
        else:
            state.text("negative").replace([(tensor, torch.ones(1)), (torch.ones(1),) * 2])
        use()
        tensor.mul_(1)  # the same bytes
        use()
        tensor.add_(1)
        with pytest.raises(DeclarationError, match="was written into") as caught:
            use() if find == "use" else checking.look(state.session)
        assert caught.value.value == name
        assert ("under 'text_neg/0'" in caught.value.found) == (name == "text")


def test_ring_when_it_cuts_and_drops_then_no_finding() -> None:
    """What a ring does to its own items is no change of the model's."""
    state = toy()
    for count in (3, 2, 4, 1, 9, 1):
        state.ring_object.append(torch.rand(2, count, 8))
        checking.look(state.session)
    dropped = torch.zeros(2, 4, 8)
    state.ring_object.append(dropped)
    state.ring_object.append(torch.ones(2, 4, 8))
    dropped.add_(1)
    with checking.watch(state.session):
        dropped.add_(1)
    assert len(state.ring_object) == 1


def test_parked_value_when_brought_back_then_no_finding(tmp_path: Path) -> None:
    """What parking brings back is another list of other tensors, with equal bits."""
    manager = SessionStateManager(
        budgets={"cpu": 4096, "disk": "1MiB"}, model_device="cpu", park_folder=tmp_path
    )
    for _ in range(3):
        for name in ("one", "two"):
            manager.get_or_create_session(name)  # not admitted: no size is declared
            with manager.lease(name):
                state = toy(name, manager)
                if state.held_object.view() is None:
                    state.held_object.commit([torch.rand(900)])
                checking.look(state.session)
    stats = manager.stats()
    assert stats.get("parked_nbytes:disk", 0) > 0
    with manager.lease("one"), pytest.raises(DeclarationError, match="writes into"):
        toy("one", manager).held_object.view()[0].add_(1)


def test_object_when_emptied_and_filled_past_the_adapter_then_no_finding() -> None:
    """A new list often lies where the old one lay; it is not taken for it."""
    held = toy().held_object
    places = set()
    for seed in range(50):
        held.commit([torch.full((3,), float(seed))])
        places.add(id(held.view()))
        held.clear()
    assert len(places) < 50


def test_value_when_reset_or_dropped_then_nothing_is_kept_alive() -> None:
    """Fingerprints hold neither values nor sessions."""
    import gc
    from weakref import ref

    from statekit.checking import book

    state = toy()
    tensor = torch.zeros(1, 4, 2, 8, 8)
    gone = ref(tensor)
    state.latent = tensor
    state.kv = [tensor]
    del tensor
    state.session.reset()
    assert gone() is None
    sessions = len(book._books)
    del state
    gc.collect()
    assert len(book._books) < sessions
