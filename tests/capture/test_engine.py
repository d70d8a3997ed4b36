"""Steps over storage that an engine owns: what cannot be undone happens at the end."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from statekit.errors import StepError
from statekit.objects import EngineHandle
from statekit.session import SessionState
from tests.block_pool import BlockPool, PoolFullError, PoolSession


class ForkingSession(PoolSession):
    """A pool's session that can be forked by copying its blocks."""

    def fork(self) -> ForkingSession:
        other = ForkingSession(self.pool, self.sink, self.window)
        for block in self.committed:
            other.stage(self.pool.storage[block].clone())
        other.commit()
        return other


def served(pool: BlockPool, *, forking: bool = False) -> tuple[SessionState, Any, PoolSession]:
    """A session with a handle on one committed block."""
    session = SessionState()
    owned = ForkingSession(pool, 1, 3) if forking else pool.open()
    handle: Any = EngineHandle[Any]().allocate(owned=owned)
    session.put("kv", handle)
    handle.append(chunk(1))
    return session, handle, owned


def chunk(value: float) -> torch.Tensor:
    return torch.full((16, 4), value)


def test_step_when_it_fails_then_chunks_are_given_back_and_committed_ones_stay() -> None:
    """Chunks that the body staged and committed are gone from the engine; free blocks as before."""
    pool = BlockPool(8)
    session, handle, owned = served(pool)
    free = len(pool.free)
    with pytest.raises(KeyError), session.step():
        handle.append(chunk(2))
        handle.stage(chunk(3))
        handle.commit()
        assert len(owned.staged) == 2  # nothing that could not be undone
        assert owned.tokens()[-1, 0] == 3  # and read all the same
        raise KeyError
    assert (len(owned.committed), owned.staged, len(pool.free)) == (1, [], free)
    assert owned.tokens().unique().tolist() == [1]


def test_step_when_it_succeeds_then_the_engine_commits_once() -> None:
    """Chunks that were appended or only staged are committed at the end."""
    pool = BlockPool(8)
    session, handle, owned = served(pool)
    with session.step():
        handle.append(chunk(2))
        handle.stage(chunk(3))
    assert (len(owned.committed), owned.staged) == (3, [])


def test_step_when_the_handle_is_closed_in_it_then_closed_at_its_end_or_not_at_all() -> None:
    """A reset within a step closes nothing before the step has succeeded."""
    pool = BlockPool(8)
    session, handle, owned = served(pool)
    with pytest.raises(KeyError), session.step():
        session.reset()
        assert not handle.resident
        assert handle.nbytes == pool.block_nbytes  # the engine holds it still
        handle.allocate(owned=pool.open())
        handle.append(chunk(5))
        raise KeyError
    assert handle.view() is owned
    assert owned.closed == 0
    assert len(pool.free) == 7
    with session.step():
        session.reset()
        handle.allocate(owned=pool.open())
        handle.append(chunk(5))
    assert owned.closed == 1
    assert handle.view().tokens().unique().tolist() == [5]
    assert len(pool.free) == 7


def test_step_when_the_engine_cannot_commit_then_all_of_it_is_undone() -> None:
    """An engine that is full at the end fails the step: objects and values are as before it."""
    pool = BlockPool(8)
    session, handle, owned = served(pool)
    with pytest.raises(PoolFullError, match="commit failed"), session.step():
        handle.append(chunk(2))
        session.attrs["x"] = 1
        owned.broken = "commit"
    owned.broken = ""
    assert session.attrs == {}
    assert (len(owned.committed), owned.staged) == (1, [])
    assert session.open_step is None
    with session.step():
        handle.append(chunk(3))
    assert len(owned.committed) == 2


def test_step_when_a_chunk_is_staged_before_it_then_refused() -> None:
    """An engine discards all that is staged, so what came before the step would be lost with it."""
    pool = BlockPool(8)
    session, handle, owned = served(pool)
    handle.stage(chunk(2))
    with pytest.raises(StepError, match="'kv': a chunk is staged; commit it or discard it before"):
        session.step().__enter__()
    assert len(owned.staged) == 1
    handle.commit()
    with session.step():
        handle.append(chunk(3))
        with pytest.raises(StepError, match="a chunk is staged"), session.step():
            pass
    assert len(owned.committed) == 3


def test_steps_when_nested_then_the_engine_commits_with_the_outer_one() -> None:
    """An inner step that succeeds can still be undone by the outer one."""
    pool = BlockPool(8)
    session, handle, owned = served(pool)
    with pytest.raises(KeyError), session.step():
        with session.step():
            handle.append(chunk(2))
        assert len(owned.committed) == 1
        raise KeyError
    assert (len(owned.committed), owned.staged) == (1, [])
    with session.step():
        with pytest.raises(KeyError), session.step():
            session.reset()
            raise KeyError
        assert handle.view() is owned
        with session.step():
            handle.append(chunk(4))
    assert owned.tokens()[-1, 0] == 4
    assert (len(owned.committed), owned.staged, owned.closed) == (2, [], 0)


def test_fork_when_the_engine_can_then_blocks_of_its_own_and_the_loser_is_closed() -> None:
    """Promotion closes what the origin held; discarding closes what the fork held."""
    pool = BlockPool(8)
    session, handle, owned = served(pool, forking=True)
    one, two = session.fork(), session.fork()
    kept: Any = one.get("kv")
    taken = kept.view()
    kept.append(chunk(5))
    assert len(pool.free) == 4
    one.promote()
    assert handle.view() is taken
    assert owned.closed == 1
    assert taken.tokens()[-1, 0] == 5
    two.discard()
    assert len(pool.free) == 6
    handle.append(chunk(6))
    assert len(taken.committed) == 3
