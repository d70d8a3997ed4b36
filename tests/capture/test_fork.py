"""A session goes on in several ways, and one of them is kept."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from typing import Any

import pytest
import torch

from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.errors import ForkError, SessionStateLostError
from statekit.manager import SessionStateManager
from statekit.objects import EncodeOnce, EngineHandle, FixedState, LatentBuffer
from statekit.session import SessionState
from tests.block_pool import BlockPool
from tests.capture.sessions import (
    assert_same_session,
    dreamzero,
    everything_of,
    frame,
    latents,
)
from tests.equivalence.bits import assert_same_bits


def change(state: Any, value: float) -> None:
    """Write into every kind of value."""
    state.call_count = int(value)
    state.clip_feas = torch.full((1, 2, 4), value)
    state.vae_enc_feat_map[0] = torch.full((2,), value)
    state.accumulate_frames(frame(int(value)))
    state.append_video_latents(latents(value))
    state.append_vae_encoder_chunk(torch.full((1, 32, 1, 1, 1), value))
    state.video_latents_across_time_object.stage(torch.full((1, 16, 2, 1, 1), value))


def test_fork_when_made_then_it_reads_what_its_origin_reads() -> None:
    """All values, staged data too, through an adapter of the same class and parameters."""
    state = dreamzero()
    state.video_latents_across_time_object.stage(torch.ones(1, 16, 2, 1, 1))
    fork = state.fork()
    assert type(fork) is type(state)
    assert fork.session_id == state.session_id
    assert fork.vae_encoder_window == state.vae_encoder_window
    for name in state.SPEC.values:
        assert_same_bits(getattr(fork, name.name), getattr(state, name.name), name.name)
    assert fork.clip_feas is state.clip_feas
    assert fork.vae_enc_feat_map[1] is state.vae_enc_feat_map[1]  # type: ignore[index]


def test_forks_when_written_then_none_sees_what_another_wrote() -> None:
    """Origin and forks, and forks of forks, are each their own."""
    state = dreamzero()
    before = everything_of(state.session)
    one, two = state.fork(), state.fork()
    three = one.fork()
    change(one, 5.0)
    change(three, 7.0)
    assert_same_session(state.session, before)
    change(state, 9.0)
    assert [fork.call_count for fork in (state, one, two, three)] == [10, 6, 2, 8]
    firsts = [float(fork.vae_enc_feat_map[0][0]) for fork in (state, one, two, three)]  # type: ignore[index]
    assert firsts == [9.0, 5.0, 0.0, 7.0]
    assert [len(fork.video_latents_across_time) for fork in (state, one, two, three)] == [
        4,
        4,
        2,
        4,
    ]
    assert [len(fork.stitched_buffer) for fork in (state, one, two, three)] == [3, 3, 2, 3]


def test_forks_when_made_then_shared_bytes_are_counted_once_and_own_ones_too() -> None:
    """Eight forks add nothing to the bytes; what one writes is counted as long as it lives."""
    manager = SessionStateManager()
    state = dreamzero(manager)
    before = manager.nbytes_by_device()
    forks = [state.fork() for _ in range(8)]
    assert manager.nbytes_by_device() == before
    assert len(manager) == 1
    forks[3].clip_feas = torch.zeros(1000)
    assert manager.nbytes_by_device() == {"cpu": before["cpu"] + 4000}
    del forks
    gc.collect()
    assert manager.nbytes_by_device() == before


def test_eight_forks_when_made_then_cost_less_than_a_hundredth_of_the_session() -> None:
    """Of a session with a feature map of 64 MiB: Python's memory, and torch's storages."""
    state = dreamzero()
    state.vae_enc_feat_map = [torch.zeros(1 << 20) for _ in range(16)]
    held = state.session.nbytes
    tracemalloc.start()
    start, _ = tracemalloc.get_traced_memory()
    forks = [state.fork() for _ in range(8)]
    now, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    storages = {
        one.untyped_storage().data_ptr()
        for fork in (state, *forks)
        for one in fork.vae_enc_feat_map or ()
        if one is not None
    }
    assert len(storages) == 16
    assert now - start < held / 100
    assert held > 64 << 20


def test_promote_when_called_then_the_origin_is_what_the_fork_was() -> None:
    """For every adapter over the origin, also in who holds its attrs and objects."""
    manager = SessionStateManager()
    state = dreamzero(manager)
    attrs, buffer = state.session.attrs, state.video_latents_across_time_object
    fork = state.fork()
    change(fork, 5.0)
    fork.session.put("more", EncodeOnce[Any]().allocate())
    fork.session.remove("frames")
    wanted = {one.name: getattr(fork, one.name) for one in state.SPEC.values}
    assert fork.session.promote() is state.session
    for name, value in wanted.items():
        assert_same_bits(getattr(state, name), value, name)
    assert state.session.attrs is attrs
    assert state.video_latents_across_time_object is buffer
    assert buffer.staged() is not None
    assert state.session.get("more") is not None
    assert fork.session.attrs == {}
    assert fork.session.names == ()
    assert manager.nbytes_by_device() == state.session.nbytes_by_device()
    change(state, 6.0)  # it goes on


def test_promote_when_another_fork_came_first_then_refused_and_both_are_as_they_were() -> None:
    """The other forks are of another past: they can be read and discarded, no more."""
    state = dreamzero()
    first, second = state.fork(), state.fork()
    change(first, 5.0)
    change(second, 6.0)
    first.session.promote()
    origin, fork = everything_of(state.session), everything_of(second.session)
    with pytest.raises(ForkError, match="another fork was promoted, since; discard it, and fork"):
        second.session.promote()
    assert_same_session(state.session, origin)
    assert_same_session(second.session, fork)
    second.session.discard()
    assert second.session.attrs == {}
    with pytest.raises(ForkError, match="it is none; promote what fork"):
        first.session.promote()


@pytest.mark.parametrize("end", ["reset", "drop"])
def test_promote_when_the_origin_began_anew_then_refused(end: str) -> None:
    """A fork of a rollout that is over does not come back as the new one."""
    manager = SessionStateManager()
    state = dreamzero(manager)
    fork = state.fork()
    if end == "reset":
        state.reset()
    else:
        manager.drop_session("s")
    with pytest.raises(ForkError, match="its origin was reset or dropped"):
        fork.session.promote()
    assert state.session.attrs == {}


def test_promote_when_the_fork_itself_began_anew_then_the_origin_is_what_it_is() -> None:
    """A branch may start a new rollout; only what its origin did since is in the way."""
    state = dreamzero()
    fork = state.fork()
    fork.reset()
    fork.call_count = 7
    grandchild = fork.fork()
    fork.session.promote()
    assert (state.call_count, state.vae_enc_feat_map) == (7, None)
    with pytest.raises(ForkError, match="since"):
        grandchild.session.promote()
    grandchild.session.discard()


def test_promote_when_a_failed_step_reset_the_origin_then_it_is_possible() -> None:
    """What was undone has not happened."""
    state = dreamzero()
    fork = state.fork()
    fork.call_count = 7
    with pytest.raises(KeyError), state.step():
        state.reset()
        raise KeyError
    fork.session.promote()
    assert state.call_count == 7


def test_fork_when_called_in_a_step_then_of_that_moment_but_promoted_only_after_it() -> None:
    """A fork may be made in one's own step; which way to go on is decided between steps."""
    state = dreamzero()
    with state.step():
        state.call_count = 5
        fork = state.fork()
        with pytest.raises(ForkError, match="it is in a step; promote between two steps"):
            fork.session.promote()
    state.call_count = 6
    assert fork.call_count == 5
    with fork.step(), pytest.raises(ForkError, match="it is in a step"):
        fork.session.promote()
    fork.session.promote()
    assert state.call_count == 5


def test_fork_when_another_thread_is_in_a_step_then_refused() -> None:
    """The middle of somebody else's step is no state to fork."""
    state = dreamzero()
    found: list[BaseException] = []

    def other() -> None:
        try:
            state.fork()
        except ForkError as error:
            found.append(error)

    with state.step():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "another thread or task is in a step of it; fork between two steps" in str(found[0])


def test_session_when_it_is_no_fork_then_neither_promoted_nor_discarded() -> None:
    """An ordinary session is ended by its manager."""
    session = dreamzero().session
    before = everything_of(session)
    with pytest.raises(ForkError, match="promote what fork"):
        session.promote()
    with pytest.raises(ForkError, match="use drop_session to end a session"):
        session.discard()
    assert_same_session(session, before)


def test_cosmos_fork_when_promoted_then_both_branches_come_together() -> None:
    """Both CFG branches and both halves of each are of one fork, never of two."""

    def encode(state: Cosmos3StateAdapter, value: float) -> None:
        for negative in (False, True):
            state.und_kv("negative" if negative else "positive").replace(
                (torch.full((1, 2, 2, 4), value), torch.full((1, 2, 2, 4), value)) for _ in range(3)
            )
            state.freqs_gen("negative" if negative else "positive").reset()
            state.freqs_gen("negative" if negative else "positive").append(
                (torch.full((1, 2), value), torch.full((1, 2), value))
            )

    def values(state: Cosmos3StateAdapter) -> set[float]:
        found = set()
        for negative in (False, True):
            kv = state.get_branch_kv(negative)
            assert kv is not None
            assert len(kv) == 3
            freqs = state.freqs_gen("negative" if negative else "positive").view()
            assert freqs is not None
            found |= {float(one.flatten()[0]) for pair in (*kv, freqs) for one in pair}
        return found

    state = Cosmos3StateAdapter("s", SessionStateManager())
    encode(state, 1.0)
    forks = [state.fork() for _ in range(3)]
    for number, fork in enumerate(forks, 2):
        encode(fork, float(number))
    assert [values(one) for one in (state, *forks)] == [{1.0}, {2.0}, {3.0}, {4.0}]
    forks[1].session.promote()
    assert values(state) == {3.0}
    for fork in (forks[0], forks[2]):
        fork.session.discard()
    assert values(state) == {3.0}
    assert state.session.nbytes == sum(
        one.numel() * one.element_size()
        for obj in state.session.objects.values()
        for one in (obj.view() or ())
    )


def test_fixed_state_when_forked_and_promoted_then_addresses_are_the_origins() -> None:
    """A fork has buffers of its own; the origin gets their content where its own ones lie."""
    session = SessionState()
    session.put("cell", FixedState[Any]().allocate(shape=(3,), dtype=torch.float32))
    cell: Any = session.get("cell")
    cell.append(torch.ones(3))
    address = cell.view().data_ptr()
    fork = session.fork()
    twin: Any = fork.get("cell")
    twin.append(torch.full((3,), 5.0))
    assert cell.view().tolist() == [1, 1, 1]
    assert twin.view().data_ptr() != address
    fork.promote()
    assert cell.view().tolist() == [5, 5, 5]
    assert cell.view().data_ptr() == address


def test_sources_when_forked_then_those_of_the_fork() -> None:
    """What an object can be rebuilt from is looked for in its own session."""
    session = SessionState()
    source, target = LatentBuffer[Any]().allocate(), EncodeOnce[Any]().allocate()
    target.recompute_source = source
    session.put("source", source)
    session.put("target", target)
    fork = session.fork()
    twin = fork.get("target")
    assert twin is not None
    assert twin.recompute_source is fork.get("source")
    source.reset()
    assert twin.recomputable
    assert not target.recomputable


def test_engine_when_it_cannot_fork_then_refused_by_name() -> None:
    """A paged pool without a fork of its own stops the fork, and says what it needs."""
    session = SessionState()
    pool = BlockPool(8)
    session.put("kv", EngineHandle[Any]().allocate(owned=pool.open()))
    with pytest.raises(ForkError, match=r"'kv': .*has no fork\(\); let the engine offer one"):
        session.fork()
    with session.step():  # nothing is left under way
        pass


def test_lost_fork_when_asked_for_by_id_then_it_is_the_origin_that_is_found() -> None:
    """A fork is in no table: its id is that of its origin."""
    manager = SessionStateManager()
    state = dreamzero(manager)
    fork = state.fork()
    assert manager.get_or_create_session("s") is state.session
    manager.drop_session("s")
    with pytest.raises(SessionStateLostError), manager.lease("s"):
        pass
    assert fork.call_count == 2
