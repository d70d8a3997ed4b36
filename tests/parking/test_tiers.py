"""What holds for every tier: two phases, one good copy, the same bits."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from statekit.accounting import SeenStorages, device_bytes
from statekit.errors import ParkError
from statekit.image.taking import take_image
from statekit.parking.disk import DiskTier
from statekit.parking.host import HostTier
from tests.parking.fakes import FakeEngine, fail_after
from tests.parking.trees import assert_same, trees


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskTier]:
    tier = DiskTier(tmp_path_factory.mktemp("parked"))
    yield tier
    tier.close()


@pytest.fixture(scope="module", params=["host", "disk"])
def tier(request: pytest.FixtureRequest, disk: DiskTier) -> Any:
    if request.param == "disk":
        return disk
    return HostTier(engine=FakeEngine(), max_pinned_bytes=256, chunk_bytes=64)


VALUE = [torch.arange(20_000, dtype=torch.bfloat16).reshape(100, 200).T, None, (1, "x")]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=trees())
def test_tree_when_parked_and_restored_then_it_is_the_same(tier: Any, tree: Any) -> None:
    """Every tree comes back bit for bit from every tier, twice, and the original stays."""
    image = take_image(tree)
    if not image.storages:
        return
    parked = tier.begin_park(image).finish()
    first = parked.begin_restore().finish()
    assert_same(tree, first)
    second = parked.begin_restore().finish()
    parked.discard()
    assert_same(tree, second)
    assert_same(first, second)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=trees())
def test_tree_when_moved_from_host_to_disk_then_it_is_the_same(disk: DiskTier, tree: Any) -> None:
    """A value parked in the host's memory in small chunks is moved to disk without being built."""
    image = take_image(tree)
    if not image.storages:
        return
    host = HostTier(engine=FakeEngine(), max_pinned_bytes=128, chunk_bytes=64)
    parked = host.begin_park(image).finish()
    moved = parked.move_to(disk)
    with pytest.raises(ParkError, match="discarded before"):
        parked.begin_restore()
    assert_same(tree, moved.begin_restore().finish())
    moved.discard()


def test_value_on_disk_when_larger_than_a_part_then_it_is_the_same(disk: DiskTier) -> None:
    """Storages above the part size, and moved ones cut by chunks, keep their bytes and checksum."""
    value = [torch.randint(0, 255, (n,), dtype=torch.uint8) for n in (5 << 20, 3, (2 << 20) + 1)]
    direct = disk.begin_park(take_image(value)).finish()
    host = HostTier(engine=FakeEngine(), chunk_bytes=1 << 20)
    moved = host.begin_park(take_image(value)).finish().move_to(disk)
    assert moved._checksum == direct._checksum
    assert_same(value, direct.begin_restore().finish())
    assert_same(value, moved.begin_restore().finish())


def test_park_when_aborted_then_nothing_is_left_and_it_cannot_finish(tier: Any) -> None:
    """After an abort the parking is over; a second abort does nothing."""
    parking = tier.begin_park(take_image(VALUE))
    parking.abort()
    parking.abort()
    with pytest.raises(ParkError, match=r"park .* it was aborted before; begin anew"):
        parking.finish()


def test_park_when_finished_then_it_cannot_finish_again(tier: Any) -> None:
    """A parking gives one parked value; a late abort does not harm it."""
    parking = tier.begin_park(take_image(VALUE))
    parked = parking.finish()
    parking.abort()
    with pytest.raises(ParkError, match=r"it was finished before"):
        parking.finish()
    assert_same(VALUE, parked.begin_restore().finish())


def test_restore_when_aborted_then_the_parked_copy_is_good(tier: Any) -> None:
    """A restore that was given up can be begun again."""
    parked = tier.begin_park(take_image(VALUE)).finish()
    parked.begin_restore().abort()
    assert_same(VALUE, parked.begin_restore().finish())


def test_parked_when_discarded_then_it_cannot_be_restored(tier: Any) -> None:
    """A discarded copy is gone, and holds nothing; discarding it again is fine."""
    parked = tier.begin_park(take_image(VALUE)).finish()
    parked.discard()
    parked.discard()
    assert parked.nbytes_by_device() == {}
    with pytest.raises(ParkError, match=r"restore .* it was discarded before"):
        parked.begin_restore()


def test_parked_when_discarded_during_a_restore_then_the_restore_goes_on(tier: Any) -> None:
    """What has begun to come back comes back."""
    parked = tier.begin_park(take_image(VALUE)).finish()
    restoring = parked.begin_restore()
    parked.discard()
    assert_same(VALUE, restoring.finish())


@pytest.mark.parametrize("error", [RuntimeError("can't allocate memory"), MemoryError()])
def test_restore_when_memory_is_short_then_the_parked_copy_is_good(
    tier: Any, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An allocation that fails in the middle of a restore is a ParkError; nothing is lost."""
    value = [torch.full((50,), n) for n in range(4)]
    parked = tier.begin_park(take_image(value)).finish()
    for allowed in range(4):
        with monkeypatch.context() as patch:
            had = fail_after(patch, allowed, error)
            with pytest.raises(ParkError) as caught:
                parked.begin_restore().finish()
        gc.collect()
        assert [ref() for ref in had] == [None] * allowed, "the error keeps memory"
        assert (caught.value.tier, caught.value.operation) == (tier.name, "restore")
        assert caught.value.found == (str(error) or "MemoryError")
        assert caught.value.todo == "free memory, or lower the budgets, and try again"
    assert_same(value, parked.begin_restore().finish())


def test_parked_when_counted_then_each_byte_once(tier: Any) -> None:
    """Parked bytes are counted under their tier, and once over all that hold the parked value."""
    parked = tier.begin_park(take_image(VALUE)).finish()
    device = {"host": "cpu", "disk": "disk"}[tier.name]
    counted = parked.nbytes_by_device()
    assert counted == {device: {"host": 40_000, "disk": 40_000 + 4096}[tier.name]}
    seen = SeenStorages()
    assert parked.nbytes_by_device(seen) == counted
    assert parked.nbytes_by_device(seen) == {}
    assert device_bytes([parked, {"again": parked}]) == counted


def test_parked_when_memory_is_kept_live_then_that_is_counted_for_it_too(tier: Any) -> None:
    """What a parked value shares with something that stays is still held by it."""
    held = torch.zeros(1000)
    seen = SeenStorages()
    device_bytes(held, seen)
    parked = tier.begin_park(take_image([held, torch.zeros(3)], keep=seen.meets)).finish()
    assert parked.nbytes_by_device(seen).get("cpu", 0) < 100
    assert parked.nbytes_by_device()["cpu"] >= 4000
    assert parked.begin_restore().finish()[0] is held


def test_error_when_pickled_then_it_says_the_same() -> None:
    """The error crosses processes."""
    error = ParkError("disk", "park", "No space left on device", "free disk space")
    assert str(error) == "park (disk tier): No space left on device; free disk space"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
