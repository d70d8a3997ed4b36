"""A step happens whole or not at all, and two of them never overlap."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.errors import ParkError, SessionStateLostError, StepError
from statekit.manager import SessionStateManager
from statekit.objects import EncodeOnce, FixedState, HeldValue, LatentBuffer
from statekit.session import SessionState
from tests.capture.sessions import (
    assert_same_session,
    dreamzero,
    everything_of,
    frame,
    latents,
)
from tests.pressure.toys import DECLARED, KEPT, read, same, write


class FaultError(Exception):
    """What a model raises in the middle of a forward."""


def do_everything(state: DreamZeroStateAdapter) -> None:
    """Change every value in each way that it has."""
    state.accumulate_frames(frame(9))
    state.stitched_buffer_object.stage(frame(10))
    state.current_start_frame += 2
    state.clip_feas = torch.zeros(1, 2, 4)
    state.ys = None
    del state.language
    state.prompt_embeds = None
    state.vae_stream_initialized = False
    feat_map: Any = state.vae_enc_feat_map
    feat_map[0], feat_map[4] = None, torch.zeros(3)
    feat_map.append(torch.zeros(1))
    state.append_vae_encoder_chunk(torch.zeros(1, 32, 1, 1, 1))
    state.vae_pending_body_frames = None
    state.append_video_latents(latents(3.0))
    state.video_latents_across_time_object.stage(torch.zeros(1, 16, 2, 1, 1))
    state.session.attrs["undeclared"] = [1]
    state.session.put("more", LatentBuffer[Any]().allocate())


CHANGES: dict[str, Callable[[DreamZeroStateAdapter], None]] = {
    "everything": do_everything,
    "session_reset": lambda state: state.reset(),
    "window_reset": lambda state: state.reset_inference_state(),
    "stream_reset": lambda state: state.reset_vae_encoder_stream(),
    "reset_and_all_anew": lambda state: (state.reset(), do_everything_anew(state)),  # type: ignore[func-returns-value]
    "object_removed": lambda state: bool(state.session.remove("frames")),  # type: ignore[return-value]
    "object_put": lambda state: state.session.put("frames", EncodeOnce[Any]().allocate()),
    "objects_evicted": lambda state: [one.evict() for one in state.session.objects.values()],  # type: ignore[return-value]
}


def do_everything_anew(state: DreamZeroStateAdapter) -> None:
    state.accumulate_frames(frame(7))
    state.vae_enc_feat_map = [None]
    state.append_video_latents(latents(8.0))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_step_when_the_body_raises_then_all_is_as_before_and_the_error_goes_on(
    change: Callable[[DreamZeroStateAdapter], None],
) -> None:
    """Values, staged data, objects, and which list holds the feature map, are as before."""
    state = dreamzero()
    state.video_latents_across_time_object.stage(torch.ones(1, 16, 2, 1, 1))
    before = everything_of(state.session)
    feat_map: Any = state.vae_enc_feat_map
    entries = list(feat_map)
    fault = FaultError()
    with pytest.raises(FaultError) as caught, state.step():
        change(state)
        raise fault
    assert caught.value is fault
    assert caught.value.__cause__ is None
    assert_same_session(state.session, before)
    assert state.vae_enc_feat_map is feat_map
    assert all(one is other for one, other in zip(feat_map, entries, strict=True))


def test_step_when_the_body_succeeds_then_what_is_staged_is_committed() -> None:
    """After the block nothing is staged, and a view is what it was in the block."""
    state = dreamzero()
    with state.step() as session:
        assert session is state.session
        state.video_latents_across_time_object.stage(torch.full((1, 16, 2, 1, 1), 3.0))
        shown = state.video_latents_across_time
    buffer = state.video_latents_across_time_object
    assert len(buffer.view(include_staged=False)) == 3
    assert all(a is b for a, b in zip(buffer.view(), shown, strict=True))
    assert session.staged_nbytes_by_device() == {}


class FailingCommit(LatentBuffer[Any]):
    """Takes what is staged and cannot keep it."""

    def commit(self, payload: Any = None) -> None:
        raise MemoryError("no room")


def test_step_when_a_commit_fails_then_it_is_undone_with_that_error() -> None:
    """Objects that had committed before it are as before the step, too."""
    session = SessionState()
    session.put("first", LatentBuffer[Any]().allocate())
    session.put("second", FailingCommit().allocate())
    first, second = session.get("first"), session.get("second")
    assert first is not None
    assert second is not None
    with pytest.raises(MemoryError, match="no room"), session.step():
        first.stage(1)
        second.stage(2)
        session.attrs["x"] = 1
    assert first.view() == []
    assert second.view() == []
    assert session.attrs == {}


@pytest.mark.parametrize("leave", [KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_step_when_it_is_left_by_no_ordinary_error_then_undone_as_well(
    leave: type[BaseException],
) -> None:
    """An interrupt, a cancelled task and a closed generator undo the step."""
    state = dreamzero()
    with pytest.raises(leave), state.step():
        state.call_count = 99
        raise leave
    assert state.call_count == 2


def test_steps_when_nested_then_the_inner_one_is_undone_alone() -> None:
    """A failed inner step leaves what the outer one did before; a failed outer one takes all."""
    state = dreamzero()
    with state.step():
        state.call_count = 10
        state.append_video_latents(latents(3.0))
        with pytest.raises(FaultError), state.step():
            state.call_count = 20
            state.append_video_latents(latents(4.0))
            raise FaultError
        assert state.call_count == 10
        assert len(state.video_latents_across_time) == 3
        with state.step():
            state.call_count = 30
    assert state.call_count == 30
    with pytest.raises(FaultError), state.step():
        with state.step():
            state.call_count = 40
            state.video_latents_across_time_object.stage(torch.ones(1, 16, 2, 1, 1))
        assert len(state.video_latents_across_time) == 4
        raise FaultError
    assert state.call_count == 30
    assert len(state.video_latents_across_time) == 3


def test_step_when_entered_again_then_refused() -> None:
    """One step object is one step: neither in its own body nor after it does it begin again."""
    state = dreamzero()
    step = state.step()
    with step:
        state.call_count = 5
        with pytest.raises(StepError, match="has begun before; make another one"), step:
            pass
    with pytest.raises(StepError, match="has begun before"), step:
        pass
    assert state.call_count == 5


def test_step_when_another_thread_is_in_one_then_refused_and_neither_is_touched() -> None:
    """A session cannot be in the steps of two threads."""
    state = dreamzero()
    found: list[BaseException] = []

    def other() -> None:
        try:
            with state.step():
                state.call_count = 77
        except StepError as error:
            found.append(error)

    with state.step():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        state.call_count = 5
    assert "another thread or task is in one; let one request" in str(found[0])
    assert state.call_count == 5


def test_step_when_two_tasks_of_one_loop_overlap_then_the_second_is_refused() -> None:
    """Tasks that take turns in one thread are told apart; the first one's step goes on."""
    state = dreamzero()

    async def forward(value: int, wait: asyncio.Event, go: asyncio.Event) -> None:
        with state.step():
            state.call_count = value
            go.set()
            await wait.wait()

    async def serve() -> BaseException | None:
        inside, leave = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(forward(5, leave, inside))
        await inside.wait()
        second = asyncio.create_task(forward(6, leave, inside))
        await asyncio.wait([second])
        leave.set()
        await first
        return second.exception()

    assert isinstance(asyncio.run(serve()), StepError)
    assert state.call_count == 5
    with state.step():  # nothing is left of either
        state.call_count = 6
    assert state.call_count == 6


def test_steps_when_ended_out_of_turn_then_all_of_them_are_undone_and_said_so() -> None:
    """An outer step that ends before the inner one takes it along; both say so."""
    state = dreamzero()
    outer, inner = state.step(), state.step()
    outer.__enter__()
    state.call_count = 10
    inner.__enter__()
    state.call_count = 20
    with pytest.raises(StepError, match="a step within it has not ended; it was undone"):
        outer.__exit__(None, None, None)
    assert state.call_count == 2
    with pytest.raises(StepError, match="it was undone with the step around it"):
        inner.__exit__(None, None, None)
    assert state.call_count == 2
    assert state.session.open_step is None


def test_steps_of_two_sessions_when_interleaved_then_each_is_its_own() -> None:
    """Steps of different sessions nest and end in any order."""
    manager = SessionStateManager()
    one, two = dreamzero(manager, "one"), dreamzero(manager, "two")
    first, second = one.step(), two.step()
    first.__enter__()
    second.__enter__()
    one.call_count, two.call_count = 11, 12
    first.__exit__(None, None, None)
    second.__exit__(FaultError, FaultError(), None)
    assert (one.call_count, two.call_count) == (11, 2)
    with one.step(), two.step():
        one.call_count = two.call_count = 5
    assert (one.call_count, two.call_count) == (5, 5)


def test_step_when_a_value_is_no_kind_it_knows_then_refused_before_the_body() -> None:
    """An object of a foreign class is named, and how to mend it; nothing has begun."""

    class Strange:
        """Holds what statekit cannot look into."""

    session = SessionState()
    session.put("fine", LatentBuffer[Any]().allocate())
    strange = HeldValue[Any]().allocate(update="in_place")
    strange.append([Strange()])
    session.put("strange", strange)
    with pytest.raises(StepError, match=r"'strange': an instance of .*Strange") as caught:
        session.step().__enter__()
    assert caught.value.session_id == "default"
    assert session.open_step is None
    session.remove("strange")
    with session.step():
        session.attrs["x"] = 1
    assert session.attrs == {"x": 1}


@pytest.mark.parametrize("update", ["replaced", "entries", "in_place"])
def test_step_when_a_value_changes_as_declared_then_undone(update: Any) -> None:
    """Each of the three ways to change a value is undone where it is declared."""
    session = SessionState()
    session.put("value", HeldValue[Any]().allocate(update=update))
    value: Any = session.get("value")
    tensor = torch.arange(4)
    value.append([tensor, [tensor[1:3]], {"a": tensor}])
    held = value.view()
    with pytest.raises(FaultError), session.step():
        if update == "replaced":
            value.append([1])
        else:
            held[1].append(3)
            held[2]["b"] = held[2].pop("a")
            held[0] = None
        if update == "in_place":
            tensor.add_(7)
        raise FaultError
    assert value.view() is held
    assert held[0] is tensor
    assert held[1][0].tolist() == [1, 2]
    assert len(held[1]) == 1
    assert list(held[2]) == ["a"]
    assert tensor.tolist() == [0, 1, 2, 3]


def test_step_when_an_undeclared_container_changes_then_undone() -> None:
    """A list or dict that no schema speaks of may be changed where it is, so it is copied."""
    session = SessionState()
    session.attrs["notes"], session.attrs["by_name"] = [1, [2]], {"a": {1}}
    notes = session.attrs["notes"]
    with pytest.raises(FaultError), session.step():
        notes.append(3)
        notes[1].append(4)
        session.attrs["by_name"]["a"].add(5)
        session.attrs["by_name"]["b"] = 6
        raise FaultError
    assert session.attrs == {"notes": [1, [2]], "by_name": {"a": {1}}}
    assert session.attrs["notes"] is notes


def test_step_when_random_numbers_are_drawn_then_the_generator_goes_back() -> None:
    """A generator that a schema declares in place gives the same numbers in the retry."""
    session = SessionState()
    value = HeldValue[Any]().allocate(update="in_place")
    session.put("rng", value)
    generators = [torch.Generator().manual_seed(1), np.random.default_rng(1), random.Random(1)]
    value.append(generators)

    def draw() -> list[Any]:
        torch_one, numpy_one, python_one = generators
        drawn: list[Any] = [torch.rand(3, generator=torch_one).tolist()]  # type: ignore[arg-type]
        return [*drawn, numpy_one.random(), python_one.random()]  # type: ignore[attr-defined]

    first = []
    with pytest.raises(FaultError), session.step():
        first = draw()
        raise FaultError
    assert value.view() is generators
    assert draw() == first


def test_fixed_state_when_undone_then_its_buffers_are_at_the_same_addresses() -> None:
    """Whoever holds the buffers reads the old values in them, also after a reset in the step."""
    session = SessionState()
    session.put("cell", FixedState[Any]().allocate(shape=(3,), dtype=torch.float32))
    cell: Any = session.get("cell")
    cell.append(torch.ones(3))
    address = cell.view().data_ptr()
    with pytest.raises(FaultError), torch.inference_mode(), session.step():
        cell.append(torch.zeros(3))
        cell.reset()
        cell.allocate(shape=(5,), dtype=torch.int64)
        raise FaultError
    assert cell.view().tolist() == [1, 1, 1]
    assert cell.view().data_ptr() == address


def test_lease_step_when_it_fails_then_undone_and_the_lease_has_ended() -> None:
    """One `with` for both: the use ends with the step, whatever comes of it."""
    manager = SessionStateManager()
    with manager.lease("s", begin=DreamZeroStateAdapter.SPEC).step() as session:
        session.attrs["call_count"] = 1
    lease = manager.lease("s")
    with pytest.raises(FaultError), lease.step() as session:
        assert lease.active
        session.attrs["call_count"] = 2
        raise FaultError
    assert not lease.active
    with manager.lease("s") as session:
        assert session.attrs["call_count"] == 1
    with pytest.raises(SessionStateLostError), manager.lease("gone").step():
        pass
    assert manager.stats()["leases"] == 0


def test_lease_step_when_the_lease_was_there_then_it_goes_on() -> None:
    """Several steps in one lease; it ends where it began."""
    manager = SessionStateManager()
    lease = manager.lease("s", begin=DreamZeroStateAdapter.SPEC)
    with lease as session:
        for value in range(3):
            with lease.step() as same:
                assert same is session
                session.attrs["call_count"] = value
        assert lease.active
    assert not lease.active


def test_stats_when_a_step_is_open_then_what_it_keeps_to_go_back_is_counted() -> None:
    """The old feature map is kept until the step ends: under staged bytes, not in the total."""
    manager = SessionStateManager()
    state = dreamzero(manager)
    before = manager.stats()
    with state.step():
        old: Any = state.vae_enc_feat_map
        kept = sum(one.nbytes for one in old if one is not None)
        state.vae_enc_feat_map = [torch.zeros(100)]
        assert manager.stats()["staged_nbytes:cpu"] == kept
        assert manager.stats()["total_nbytes"] == before["total_nbytes"] - kept + 400
    assert manager.stats()["staged_nbytes"] == 0
    assert "staged_nbytes:cpu" not in manager.stats()


def parked(tmp_path: Path) -> SessionStateManager:
    """A manager with one session whose cache is on disk, because a second one has come."""
    manager = SessionStateManager(budgets={"cpu": DECLARED + 8000}, park_folder=tmp_path)
    for name in ("a", "b"):
        with manager.lease(name, begin=KEPT) as session:
            write(session, "cache", 1)
    assert manager.stats()["parked_nbytes:disk"] > 0
    return manager


def test_step_when_values_are_parked_then_they_are_back_first_and_can_be_gone_back_to(
    tmp_path: Path,
) -> None:
    """A step without a lease over a parked value: undone, it holds the value itself."""
    manager = parked(tmp_path)
    session = manager.get_or_create_session("a")
    wanted = write(SessionState(), "cache", 1)
    with pytest.raises(FaultError), session.step():
        write(session, "cache", 2)
        raise FaultError
    assert same(read(session, "cache"), wanted)
    assert session.parked == []


def test_step_when_a_parked_copy_is_gone_then_it_does_not_begin(tmp_path: Path) -> None:
    """What cannot be brought back cannot be gone back to: ParkError before the body."""
    manager = parked(tmp_path)
    session = manager.get_or_create_session("a")
    for file in tmp_path.rglob("*.park"):
        file.unlink()
    with pytest.raises(ParkError, match="restore"), session.step():
        pytest.fail("the body ran")
    assert session.open_step is None


class Operations(TorchDispatchMode):
    """Counts what torch is asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_step_and_fork_when_nothing_changes_in_place_then_no_tensor_is_touched() -> None:
    """A step of DreamZero, undone or not, a fork and a promotion ask torch for nothing at all."""
    state = dreamzero()
    with Operations() as operations:
        with state.step():
            pass
        with pytest.raises(FaultError), state.step():
            raise FaultError
        state.fork().session.promote()
    assert operations.count == 0
