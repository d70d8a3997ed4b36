"""Inside `watch`, the operation that would write raises, before it writes."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from statekit import checking
from statekit.errors import DeclarationError
from statekit.manager import SessionStateManager
from tests.checking.toy import toy

pytestmark = pytest.mark.usefixtures("checked")

WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "add_": lambda tensor: tensor.add_(1),
    "relu_": lambda tensor: torch.nn.functional.relu(tensor, inplace=True),
    "copy_": lambda tensor: tensor.copy_(torch.ones(())),
    "view": lambda tensor: tensor[0].view(-1)[3:5].fill_(2),
    "index": lambda tensor: tensor.__setitem__((0, 1), 5),
    "out": lambda tensor: torch.add(tensor, 1, out=tensor),
    "out_list": lambda tensor: torch._foreach_mul_([torch.ones(2), tensor], 2.0),
    "resize_": lambda tensor: tensor.resize_(1),
    "set_": lambda tensor: tensor.set_(torch.ones(3)),
    "transpose": lambda tensor: tensor.transpose(3, 4)[..., 0].zero_(),
    "same": lambda tensor: tensor.mul_(1),
}


@pytest.mark.parametrize("inference", [False, True], ids=["grad", "inference"])
@pytest.mark.parametrize("write", WRITES)
def test_operation_when_it_would_write_into_a_value_then_raises_before_it_does(
    write: str, inference: bool
) -> None:
    """The value has its old bits, and the site is the line of the operation."""
    with torch.inference_mode(inference):
        tensor = torch.arange(512.0).reshape(1, 4, 2, 8, 8) - 9
        before = tensor.clone()
        state = toy()
        state.latent = tensor
        with checking.watch(state.session), pytest.raises(DeclarationError) as caught:
            WRITES[write](tensor)
        assert "writes into it, declared `update: replaced`" in caught.value.found
        assert caught.value.site.startswith(f"{__file__}:")
        assert torch.equal(tensor, before)
        checking.look(state.session)


def test_operation_when_it_raises_then_the_site_is_its_line() -> None:
    """A traceback of the model's ends where it writes."""
    state = toy()
    state.latent = torch.zeros(1, 4, 2, 8, 8)
    frame = inspect.currentframe()
    assert frame is not None
    with checking.watch(state.session), pytest.raises(DeclarationError) as caught:
        state.latent.add_(1)
    assert caught.value.site == f"{__file__}:{frame.f_lineno - 1}"


def test_value_when_stored_inside_then_watched_from_then_on() -> None:
    """What a step stores it may not write into afterwards; what it replaced it may."""
    state = toy()
    first, second = torch.zeros(1, 4, 2, 8, 8), torch.zeros(1, 4, 2, 8, 8)
    state.latent = first
    with checking.watch(state.session):
        second.add_(1)
        state.latent = second
        first.add_(1)
        with pytest.raises(DeclarationError):
            second.add_(1)
        state.session.attrs.clear()
        second.add_(1)


def test_entries_when_replaced_inside_then_fine_and_when_written_then_raises() -> None:
    """The tensors of a list declared `entries` are watched, in objects as in carried values."""
    state = toy()
    state.cache = [torch.zeros(3), None]
    state.held_object.commit([torch.zeros(3)])
    state.text("positive").replace([(torch.zeros(2), torch.zeros(2))] * 2)
    with checking.watch(state.session):
        cache = state.cache
        cache[1] = torch.ones(3)
        with pytest.raises(DeclarationError, match=r"cache .* writes into \[0\]"):
            cache[0].add_(1)
        with pytest.raises(DeclarationError, match=r"held .* writes into \[0\]"):
            state.held_object.view()[0].add_(1)
        with pytest.raises(DeclarationError, match=r"text .* under 'text/0', .* into \[1\]"):
            state.text("positive").view()[0][1].add_(1)
        cache[0] = torch.ones(3)


def test_array_when_a_tensor_over_its_memory_is_written_then_raises() -> None:
    """Memory is compared, not tensors: an array of the session under a tensor of the model."""
    frame = np.zeros((64, 64, 3), np.uint8)
    state = toy()
    state.frame = frame[::2]
    tensor = torch.from_numpy(frame)
    with checking.watch(state.session):
        tensor[1::2] = 3
        with pytest.raises(DeclarationError, match=r"frame .* writes into it"):
            tensor[4] = 3
    assert not frame[::2].any()


def test_watch_when_nested_or_in_another_thread_then_each_sees_its_own() -> None:
    """A second entry by the same thread adds nothing; a thread without one is not stopped."""
    state = toy()
    state.latent = torch.zeros(1, 4, 2, 8, 8)
    with checking.watch(state.session):
        with checking.watch(state.session), pytest.raises(DeclarationError):
            state.latent.add_(1)
        with pytest.raises(DeclarationError):
            state.latent.add_(1)
        thread = threading.Thread(target=state.latent.add_, args=(1,))
        thread.start()
        thread.join()
    with pytest.raises(DeclarationError, match="was written into"):
        checking.look(state.session)


def test_sessions_when_served_by_threads_then_each_is_checked_alone() -> None:
    """Eight threads store, watch, write in place where they may, and look: no mix-up."""
    manager = SessionStateManager()
    caught: list[BaseException] = []

    def serve(index: int) -> None:
        try:
            for step in range(30):
                state = toy(f"robot-{index}", manager)
                with checking.watch(state.session):
                    state.count += 1
                    state.latent = torch.full((1, 4, 1 + step % 3, 8, 8), float(index))
                    state.scratch = torch.zeros(3) if state.scratch is None else state.scratch
                    state.scratch.add_(1)
                    state.ring_object.append(torch.full((2, 1, 8), float(step)))
                    if index == step:
                        with pytest.raises(DeclarationError):
                            state.latent.add_(1)
                checking.look(state.session)
            assert (state.count, state.scratch[0]) == (30, 30)
        except BaseException as error:
            caught.append(error)

    threads = [threading.Thread(target=serve, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert caught == []


def test_watch_when_tasks_end_out_of_order_then_each_is_guarded_for_its_time() -> None:
    """Sessions of one thread begin and end in any order, as tasks of an event loop do."""
    states = [toy(name) for name in ("one", "two")]
    guards = []
    for state in states:
        state.latent = torch.zeros(1, 4, 2, 8, 8)
        guards.append(checking.watch(state.session))
        guards[-1].__enter__()
    guards[0].__exit__(None, None, None)
    states[0].latent.add_(1)
    with pytest.raises(DeclarationError):
        states[1].latent.add_(1)
    guards[1].__exit__(None, None, None)
    states[1].latent.add_(1)


def test_watch_when_ended_by_another_thread_then_over() -> None:
    """Who ends it elsewhere ends it; the thread that began it can begin another."""
    state = toy()
    state.latent = tensor = torch.zeros(1, 4, 2, 8, 8)
    guard = checking.watch(state.session)
    guard.__enter__()
    thread = threading.Thread(target=guard.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    state.latent = None
    tensor.add_(1)
    state.latent = tensor
    tensor.add_(0)
    with checking.watch(state.session), pytest.raises(DeclarationError):
        tensor.add_(1)


def test_compiled_code_when_inside_then_runs_compiled() -> None:
    """A graph that must be whole stays whole; what an eager backend writes is seen."""
    state = toy()
    state.latent = torch.zeros(1, 4, 2, 8, 8)

    @torch.compile(backend="eager", fullgraph=True)
    def double(value: torch.Tensor) -> torch.Tensor:
        return value.add_(1) * 2

    with checking.watch(state.session):
        assert torch.equal(double(torch.ones(3)), torch.full((3,), 4.0))
        with pytest.raises(DeclarationError) as caught:
            double(state.latent)
    assert caught.value.site.startswith(f"{__file__}:")


def test_watch_when_something_changed_before_it_then_raises_on_entry() -> None:
    """What happened outside is not blamed on the step."""
    state = toy()
    state.latent = torch.zeros(1, 4, 2, 8, 8)
    state.latent.add_(1)
    with pytest.raises(DeclarationError, match="was written into"), checking.watch(state.session):
        pass


def test_watch_when_over_then_operations_run_as_ever() -> None:
    """Nothing of the guard is left after the block, also after an error in it."""
    state = toy()
    state.latent = tensor = torch.zeros(1, 4, 2, 8, 8)
    with pytest.raises(ZeroDivisionError), checking.watch(state.session):
        raise ZeroDivisionError
    tensor.add_(1)
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
