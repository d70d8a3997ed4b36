"""EngineHandle over a real little block pool that several sessions share."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from statekit.accounting import SeenStorages, device_bytes
from statekit.errors import NotAllocatedError, PayloadError
from statekit.manager import SessionStateManager
from statekit.objects import EngineHandle
from tests.block_pool import BlockPool, PoolFullError, PoolSession
from tests.equivalence.bits import assert_same_bits

BLOCK = 16 * 4 * 4  # bytes: tokens, elements, bytes of each

Handle = EngineHandle[torch.Tensor]


def opened(pool: BlockPool, **sizes: int) -> tuple[Handle, PoolSession]:
    owned = pool.open(**sizes)
    return Handle().allocate(owned=owned), owned


def chunk(blocks: int, start: float = 0) -> torch.Tensor:
    return start + torch.arange(blocks * 16 * 4, dtype=torch.float32).reshape(-1, 4)


def staged_nbytes(handle: Handle) -> dict[str, int]:
    return handle.staged_nbytes_by_device()


def test_bytes_when_two_sessions_share_a_pool_then_resident_blocks_of_each() -> None:
    """Each handle counts its own blocks, never the pool; free blocks count for nobody."""
    pool = BlockPool(64)
    (one, _), (two, _) = opened(pool), opened(pool)
    one.append(chunk(2))
    two.append(chunk(3))
    two.stage(chunk(1))
    assert (one.nbytes_by_device(), two.nbytes_by_device()) == (
        {"cpu": 2 * BLOCK},
        {"cpu": 3 * BLOCK},
    )
    assert (staged_nbytes(one), staged_nbytes(two)) == ({}, {"cpu": BLOCK})
    assert (one.staged(), two.staged()) == (None, two)
    assert len(pool.free) == 64 - 6


def test_bytes_when_window_rolls_then_sink_and_window_only() -> None:
    """Blocks that the engine rolls out of the window are no longer counted."""
    handle, owned = opened(BlockPool(8), sink=1, window=2)
    for step in range(5):
        handle.append(chunk(1, start=100 * step))
    assert handle.nbytes == 3 * BLOCK
    assert_same_bits(owned.tokens()[::16, 0], torch.tensor([0.0, 300.0, 400.0]))


def test_bytes_when_met_before_then_counted_once() -> None:
    """With one `seen`, committed and staged bytes count once each, in whatever order."""
    handle, owned = opened(BlockPool(8))
    handle.append(chunk(2))
    handle.stage(chunk(1))
    seen = SeenStorages()
    assert handle.nbytes_by_device(seen) == {"cpu": 2 * BLOCK}
    assert handle.staged_nbytes_by_device(seen) == {"cpu": BLOCK}
    assert handle.nbytes_by_device(seen) == handle.staged_nbytes_by_device(seen) == {}
    assert device_bytes([handle, handle, owned]) == {"cpu": 2 * BLOCK}
    assert device_bytes([owned, handle]) == {"cpu": 2 * BLOCK}


def test_bytes_when_in_a_manager_then_sessions_count_beside_other_state() -> None:
    """The pool's blocks and a session's own tensors add up under one device."""
    pool, manager = BlockPool(8), SessionStateManager()
    for name, blocks in (("a", 1), ("b", 2)):
        handle, owned = opened(pool)
        handle.append(chunk(blocks))
        session = manager.get_or_create_session(name)
        session.put("kv", handle)
        session.attrs["kv"] = owned  # the model's own reference to what it reads through
        session.attrs["own"] = torch.zeros(5)
    assert manager.nbytes_by_device() == {"cpu": 3 * BLOCK + 2 * 20}
    assert manager.drop_session("b")
    assert manager.nbytes_by_device() == {"cpu": BLOCK + 20}
    assert len(pool.free) == 7


def test_view_when_staged_then_engine_object_before_and_after_the_commit() -> None:
    """S2: the view is the engine's own object; through it the same tokens are read."""
    handle, owned = opened(BlockPool(8))
    handle.stage(chunk(2))
    assert handle.view() is handle.view(include_staged=False) is owned
    before = owned.tokens()
    handle.commit()
    assert handle.view() is owned
    assert_same_bits(owned.tokens(), before)
    assert staged_nbytes(handle) == {}


def test_discard_when_staged_then_blocks_return_and_committed_stay() -> None:
    """S1: the staged chunk goes back to the pool; committed blocks keep their bits."""
    pool = BlockPool(8)
    handle, owned = opened(pool)
    handle.append(chunk(1))
    handle.stage(chunk(2, start=50))
    handle.discard()
    assert_same_bits(owned.tokens(), chunk(1))
    assert (handle.nbytes, staged_nbytes(handle), len(pool.free)) == (BLOCK, {}, 7)


@pytest.mark.parametrize("let_go", ["evict", "reset"])
def test_close_when_let_go_then_all_blocks_return_and_other_session_is_untouched(
    let_go: str,
) -> None:
    """S4: eviction closes at the engine, staged chunk included, and touches nobody else."""
    pool = BlockPool(8)
    (one, owned), (two, other) = opened(pool), opened(pool)
    one.append(chunk(2))
    one.stage(chunk(1))
    two.append(chunk(3, start=7))
    assert getattr(one, let_go)() == (3 * BLOCK if let_go == "evict" else None)
    assert (one.resident, one.nbytes, staged_nbytes(one)) == (False, 0, {})
    assert (owned.closed, len(pool.free)) == (1, 5)
    assert_same_bits(other.tokens(), chunk(3, start=7))


def test_close_when_called_twice_then_harmless() -> None:
    """A closed handle frees nothing more and doesn't call the engine again."""
    handle, owned = opened(BlockPool(8))
    handle.append(chunk(2))
    assert (handle.evict(), handle.evict("any")) == (2 * BLOCK, 0)
    handle.reset()
    handle.discard()
    assert owned.closed == 1


@pytest.mark.parametrize("operation", ["stage", "append", "commit", "view"])
def test_use_when_closed_then_named_error(operation: str) -> None:
    """What needs an open handle says so after the close, and before the first allocate."""
    closed, _ = opened(BlockPool(8))
    closed.evict()
    for handle in (closed, Handle()):
        with pytest.raises(
            NotAllocatedError, match=f"EngineHandle.{operation.replace('append', 'stage')}"
        ):
            getattr(handle, operation)(*([chunk(1)] if operation in ("stage", "append") else []))


@pytest.mark.parametrize("broken", ["close", "nbytes_by_device"])
@pytest.mark.parametrize("let_go", ["evict", "reset"])
def test_close_when_engine_raises_then_handle_is_open_as_before(broken: str, let_go: str) -> None:
    """An engine that fails to close keeps its blocks, and the handle keeps counting them."""
    handle, owned = opened(BlockPool(8))
    handle.append(chunk(2))
    handle.stage(chunk(1))
    owned.broken = broken
    with pytest.raises(PoolFullError, match=f"{broken} failed"):
        getattr(handle, let_go)()
    owned.broken = ""
    assert handle.resident
    assert (handle.nbytes, staged_nbytes(handle)) == (2 * BLOCK, {"cpu": BLOCK})
    assert handle.evict() == 3 * BLOCK


def test_append_when_engine_cannot_commit_then_chunk_is_not_left_staged() -> None:
    """S3: a chunk whose commit fails goes back to the pool."""
    pool = BlockPool(8)
    handle, owned = opened(pool)
    owned.broken = "commit"
    with pytest.raises(PoolFullError):
        handle.append(chunk(2))
    assert (handle.nbytes, staged_nbytes(handle), len(pool.free)) == (0, {}, 8)


def test_append_when_others_are_staged_and_commit_fails_then_none_is_lost() -> None:
    """Chunks that were staged before an append that fails are still staged after it."""
    handle, owned = opened(BlockPool(8))
    handle.stage(chunk(1))
    owned.broken = "commit"
    with pytest.raises(PoolFullError):
        handle.commit(chunk(1))
    owned.broken = ""
    handle.commit()
    assert handle.nbytes == 2 * BLOCK


def test_stage_when_pool_is_full_then_nothing_has_changed() -> None:
    """S3: a chunk for which there is no room leaves committed and staged blocks as they were."""
    handle, owned = opened(BlockPool(3))
    handle.append(chunk(1))
    handle.stage(chunk(1, start=9))
    before = owned.tokens()
    for write in (handle.stage, handle.append, handle.commit):
        with pytest.raises(PoolFullError, match="2 blocks wanted, 1 free"):
            write(chunk(2))
    assert_same_bits(owned.tokens(), before)
    assert (handle.nbytes, staged_nbytes(handle)) == (BLOCK, {"cpu": BLOCK})


class OnlyCounts:
    """The least that an engine has to offer."""

    def __init__(self) -> None:
        self.open = True

    def nbytes_by_device(self) -> dict[str, int]:
        return {"cuda:0": 7 if self.open else 0, "cpu": 0}

    def close(self) -> None:
        self.open = False


def test_handle_when_engine_stages_nothing_then_counts_and_closes() -> None:
    """An engine without chunks is counted and closed; staging through the handle is refused."""
    handle = EngineHandle[Any]().allocate(owned=OnlyCounts())
    assert handle.nbytes_by_device() == {"cuda:0": 7}
    assert handle.staged_nbytes_by_device() == {}
    with pytest.raises(PayloadError, match="OnlyCounts, which stages no chunks; write through"):
        handle.append(chunk(1))
    handle.commit()
    handle.discard()
    assert handle.evict() == 7


def test_stage_when_none_then_refused() -> None:
    """None is no chunk."""
    handle, _ = opened(BlockPool(8))
    with pytest.raises(PayloadError, match="None; pass the chunk"):
        handle.stage(None)  # type: ignore[arg-type]


def test_allocate_when_open_already_then_former_is_closed_once_and_same_one_is_kept() -> None:
    """A handle has one owner's session at a time, and closes the one it lets go of."""
    pool = BlockPool(8)
    handle, first = opened(pool)
    handle.append(chunk(2))
    assert handle.allocate(owned=first) is handle
    assert (first.closed, handle.nbytes) == (0, 2 * BLOCK)
    second = pool.open()
    handle.allocate(owned=second)
    assert (first.closed, handle.view(), len(pool.free)) == (1, second, 8)
    with pytest.raises(TypeError, match="needs owned"):
        handle.allocate()
    assert handle.view() is second


def test_allocate_when_former_cannot_be_closed_then_still_held() -> None:
    """If letting go fails, the handle still has the old one."""
    pool = BlockPool(8)
    handle, first = opened(pool)
    first.broken = "close"
    with pytest.raises(PoolFullError):
        handle.allocate(owned=pool.open())
    assert handle.view() is first
