"""Host memory as a tier, over a device that copies late: `statekit.parking.host`."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from statekit.errors import ParkError
from statekit.image.taking import take_image
from statekit.parking.host import HostTier
from tests.parking.fakes import FakeEngine, fail_after
from tests.parking.trees import assert_same


def value(fill: int, nbytes: int = 100) -> list[Any]:
    return [torch.full((nbytes,), fill, dtype=torch.uint8), None]


def tier(engine: FakeEngine, *, pinned: int = 1 << 10) -> HostTier:
    return HostTier(engine=engine, max_pinned_bytes=pinned, chunk_bytes=64)


def test_value_in_host_memory_when_parked_then_it_is_refused() -> None:
    """Without a device there is nothing to gain: the error names the tier that helps."""
    with pytest.raises(ParkError) as caught:
        HostTier().begin_park(take_image(value(1)))
    assert str(caught.value) == (
        "park (host tier): the value has no accelerator memory to free; park it in the disk tier"
    )


def test_storages_in_host_memory_when_parked_beside_others_then_they_are_held_as_they_are() -> None:
    """Only the device's memory is copied; host memory of the same value stays where it is."""
    engine = FakeEngine(serves=lambda memory: memory.numel() == 100)
    mixed = [torch.ones(100, dtype=torch.uint8), torch.arange(7)]
    parked = tier(engine).begin_park(take_image(mixed)).finish()
    assert parked.nbytes_by_device() == {"cpu": 128 + 56}
    new = parked.begin_restore().finish()
    assert new[1].data_ptr() == mixed[1].data_ptr()
    assert new[0].data_ptr() != mixed[0].data_ptr()
    assert torch.equal(new[0], mixed[0])


def test_copies_when_begun_then_nobody_waits_before_finish() -> None:
    """Both directions return at once, and a restore is joined, not waited for."""
    engine = FakeEngine()
    original = value(3)
    parking = tier(engine).begin_park(take_image(original))
    original[0].fill_(4)  # before the late copy: it is what gets parked
    parked = parking.finish()
    restoring = parked.begin_restore()
    assert not engine.copies[-1].joined
    assert restoring.finish()[0].tolist() == [4] * 100
    assert engine.copies[-1].joined


def test_pool_when_chunks_are_given_back_then_they_are_used_again() -> None:
    """Page-locked memory is made once for values that come one after the other."""
    engine = FakeEngine()
    host = tier(engine)
    for fill in range(5):
        parked = host.begin_park(take_image(value(fill))).finish()
        assert parked.begin_restore().finish()[0].tolist() == [fill] * 100
        assert host.nbytes_by_device() == {}
        parked.discard()
    assert engine.pinned_bytes == 128
    assert host.nbytes_by_device() == {"cpu": 128}
    host.trim()
    assert host.nbytes_by_device() == {}


def test_chunk_when_reused_while_a_restore_reads_it_then_the_restore_gets_its_bytes() -> None:
    """A new park comes after the restore that still reads its chunk; the host does not wait."""
    engine = FakeEngine()
    host = tier(engine)
    first = host.begin_park(take_image(value(1))).finish()
    restoring = first.begin_restore()
    first.discard()
    second = host.begin_park(take_image(value(2)))
    assert engine.pinned_bytes == 128
    parked = second.finish()
    assert restoring.finish()[0].tolist() == [1] * 100
    assert parked.begin_restore().finish()[0].tolist() == [2] * 100


def test_pool_when_full_then_pageable_memory_is_used_and_not_kept() -> None:
    """Beyond the bound values are parked in memory of their exact size."""
    engine = FakeEngine()
    host = tier(engine, pinned=128)
    first = host.begin_park(take_image(value(1))).finish()
    second = host.begin_park(take_image(value(2))).finish()
    assert engine.pinned_bytes == 128
    assert second.nbytes_by_device() == {"cpu": 100}
    assert_same(value(2), second.begin_restore().finish())
    second.discard()
    assert host.nbytes_by_device() == {}
    first.discard()
    assert host.nbytes_by_device() == {"cpu": 128}


def test_pool_when_nothing_can_be_page_locked_then_pageable_memory_is_used() -> None:
    """A device that has no page-locked memory left parks all the same, and tries again later."""
    engine = FakeEngine()
    engine.fail_pin = RuntimeError("CUDA error: out of memory")
    host = tier(engine)
    parked = host.begin_park(take_image(value(1))).finish()
    assert parked.nbytes_by_device() == {"cpu": 100}
    assert_same(value(1), parked.begin_restore().finish())
    engine.fail_pin = None
    host.begin_park(take_image(value(1))).finish()
    assert engine.pinned_bytes == 128


def test_park_when_host_memory_is_short_then_the_original_is_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An allocation that fails in the middle of a park gives back what was taken.

    The error holds on to none of it, also when somebody keeps the error.
    """
    host = tier(FakeEngine(), pinned=64)
    image = take_image(value(5, nbytes=250))
    error = RuntimeError("DefaultCPUAllocator: can't allocate memory")
    with monkeypatch.context() as patch:
        had = fail_after(patch, 3, error)
        with pytest.raises(ParkError, match=r"park \(host tier\): DefaultCPUAllocator") as caught:
            host.begin_park(image)
    gc.collect()
    assert [ref() is None for ref in had] == [False, True, True]
    assert host.nbytes_by_device() == {"cpu": 64}
    assert_same(value(5, nbytes=250), host.begin_park(image).finish().begin_restore().finish())
    assert caught.value.operation == "park"


def test_copy_when_it_cannot_begin_then_nothing_is_lost() -> None:
    """A device error as either direction begins leaves the good copy and gives memory back."""
    engine = FakeEngine()
    host = tier(engine)
    parked = host.begin_park(take_image(value(6))).finish()
    engine.fail_copy = RuntimeError("CUDA error: unspecified launch failure\nmore")
    with pytest.raises(ParkError, match=r"park .*: CUDA error: unspecified launch failure; "):
        host.begin_park(take_image(value(7)))
    with pytest.raises(ParkError, match=r"restore .*: CUDA error"):
        parked.begin_restore()
    engine.fail_copy = None
    assert host.nbytes_by_device() == {"cpu": 128}
    assert_same(value(6), parked.begin_restore().finish())


def test_copy_when_it_fails_under_way_then_it_is_undone() -> None:
    """A device error that shows at `finish` gives the host memory back."""
    engine = FakeEngine()
    host = tier(engine)
    parking = host.begin_park(take_image(value(6)))

    def fail() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    engine.copies[-1].wait = fail  # type: ignore[method-assign]
    with pytest.raises(ParkError, match="illegal memory access"):
        parking.finish()
    assert host.nbytes_by_device() == {"cpu": 128}


def test_park_when_interrupted_then_memory_is_given_back() -> None:
    """A KeyboardInterrupt while waiting goes on unchanged."""
    engine = FakeEngine()
    host = tier(engine)
    parking = host.begin_park(take_image(value(6)))
    wait = engine.copies[-1].wait

    def interrupt() -> None:
        engine.copies[-1].wait = wait  # type: ignore[method-assign]
        raise KeyboardInterrupt

    engine.copies[-1].wait = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        parking.finish()
    assert host.nbytes_by_device() == {"cpu": 128}


def test_parked_when_it_is_garbage_then_its_memory_is_given_back() -> None:
    """A parked value that nobody discards does not use up the pool."""
    host = tier(FakeEngine())
    parked: Any = host.begin_park(take_image(value(6))).finish()
    del parked
    gc.collect()
    assert host.nbytes_by_device() == {"cpu": 128}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"chunk_bytes": 48}, "a power of two, got 48"), ({"max_pinned_bytes": -1}, "negative")],
)
def test_tier_when_a_size_is_wrong_then_it_says_so(sizes: dict[str, int], message: str) -> None:
    """Sizes that cannot work are refused at once."""
    with pytest.raises(ValueError, match=message):
        HostTier(**sizes)  # type: ignore[arg-type]
