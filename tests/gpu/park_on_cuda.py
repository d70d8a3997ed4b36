"""Park a DreamZero-shaped value on a CUDA device, and measure: `make test-gpu`.

Prints a table and ends with 1 if a check failed. Without CUDA it says so and ends with 0. Takes
about a minute, 3 GiB of device memory and 4 GiB of the host's.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from statekit.accounting import device_bytes
from statekit.errors import ParkError
from statekit.image.taking import take_image
from statekit.parking.disk import DiskTier
from statekit.parking.host import HostTier

NBYTES = 1404 * 352 * 640 * 2  # of vae_enc_feat_map, bfloat16
TENSORS = 24
MIB = 1 << 20
ROUNDS = 7
LEAST_RATIO = 0.8

failures: list[str] = []


def row(name: str, figure: str, good: bool | None = None) -> None:
    """One line of the table; `good` is None where there is nothing to check."""
    verdict = "" if good is None else ("ok" if good else "FAILED")
    print(f"{name:<58}{figure:>24}  {verdict}", flush=True)
    if good is False:
        failures.append(name)


def make_value() -> list[torch.Tensor | None]:
    """24 tensors of unequal sizes and 2 None, as the encoder's cache has them."""
    weights = [1 + index % 5 for index in range(TENSORS)]
    sizes = [NBYTES // 2 * weight // sum(weights) for weight in weights]
    sizes[-1] += NBYTES // 2 - sum(sizes)
    value: list[torch.Tensor | None] = [
        torch.randn(size, device="cuda").to(torch.bfloat16) for size in sizes
    ]
    value.insert(7, None)
    value.append(None)
    return value


def same(new: list[Any], wanted: list[torch.Tensor | None]) -> bool:
    """Equal bits; NaN or not, so compared as integers."""
    if len(new) != len(wanted):
        return False
    pairs = zip(new, wanted, strict=True)
    return all(
        a is b if b is None else torch.equal(a.cpu().view(torch.int16), b.view(torch.int16))
        for a, b in pairs
    )


def to_host(value: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    return [None if tensor is None else tensor.cpu() for tensor in value]


def best(run: Callable[[], Any]) -> float:
    """Seconds of the quickest of several runs, each from an idle device to an idle device."""
    quickest = float("inf")
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        run()
        torch.cuda.synchronize()
        quickest = min(quickest, time.perf_counter() - begun)
    return quickest


def rate(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms, {NBYTES / seconds / 1e9:.1f} GB/s"


def check_bits_and_bytes(host: HostTier) -> None:
    """Park, free, scribble over the freed memory, restore, compare; bytes as the allocator has."""
    before = torch.cuda.memory_allocated()
    value = make_value()
    wanted = to_host(value)
    allocated = torch.cuda.memory_allocated() - before
    counted = device_bytes(value)["cuda:0"]
    image = take_image(value)
    slack = MIB * TENSORS  # the allocator does not split what would leave less
    row("bytes: counted by statekit", f"{counted}", counted == NBYTES == image.nbytes)
    row("bytes: torch.cuda.memory_allocated()", f"{allocated}", 0 <= allocated - counted < slack)

    begun = time.perf_counter()
    parking = host.begin_park(image)
    row(
        "cold begin_park (makes page-locked memory)",
        f"{(time.perf_counter() - begun) * 1e3:.1f} ms",
    )
    parked = parking.finish()
    del image, parking, value
    left = torch.cuda.memory_allocated() - before
    row("bytes left on the device when parked", f"{left}", left == 0)
    held = parked.nbytes_by_device()
    row("bytes in host memory", f"{held}", set(held) == {"cpu"} and held["cpu"] - NBYTES < 8 * MIB)

    scribble = [torch.full((NBYTES // 8,), -1, dtype=torch.int64, device="cuda") for _ in range(2)]
    del scribble
    restored = parked.begin_restore().finish()
    parked.discard()
    row("restored bits", "equal" if same(restored, wanted) else "DIFFERENT", same(restored, wanted))
    now = torch.cuda.memory_allocated() - before
    row("bytes back on the device", f"{now}", abs(now - allocated) < slack)


def check_views(host: HostTier) -> None:
    """Strides, offsets, sharing, lazy bits and 8-bit floats survive the device's round trip."""
    base = torch.randn(64, 64, device="cuda")
    value = [
        base.T[3:, ::2],
        base,
        torch.randn(9, dtype=torch.complex64, device="cuda").conj(),
        torch.randn(33, device="cuda").to(torch.float8_e4m3fn),
        torch.empty(0, 3, device="cuda"),
        torch.nn.Parameter(torch.ones(5, device="cuda")),
    ]
    new = host.begin_park(take_image(value)).finish().begin_restore().finish()
    equal = all(
        a.dtype == b.dtype
        and a.stride() == b.stride()
        and a.device == b.device
        and a.is_conj() == b.is_conj()
        and type(a) is type(b)
        and torch.equal(
            a.detach().float() if a.dtype == torch.float8_e4m3fn else a.detach(),
            b.detach().float() if b.dtype == torch.float8_e4m3fn else b.detach(),
        )
        for a, b in zip(value, new, strict=True)
    )
    row("views, lazy bits, fp8, parameters", "equal" if equal else "DIFFERENT", equal)
    new[1].zero_()
    row("views share memory again", "", bool((new[0] == 0).all()))


def check_rates(host: HostTier) -> None:
    """Both directions against the bare copy of the same tensors to pinned memory of their own."""
    value = make_value()
    tensors = [tensor for tensor in value if tensor is not None]
    pinned = [torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors]

    def out() -> None:
        for buffer, tensor in zip(pinned, tensors, strict=True):
            buffer.copy_(tensor, non_blocking=True)

    def back() -> None:
        for buffer, tensor in zip(pinned, tensors, strict=True):
            tensor.copy_(buffer, non_blocking=True)

    def allocate_and_back() -> None:
        for buffer in pinned:
            torch.empty_like(buffer, device="cuda").copy_(buffer, non_blocking=True)

    def park() -> None:
        host.begin_park(take_image(value)).finish().discard()

    bare_out, bare_back, bare_new = best(out), best(back), best(allocate_and_back)
    pinned.clear()
    parking = best(park)
    parked = host.begin_park(take_image(value)).finish()
    restoring = best(lambda: parked.begin_restore().finish())
    row("bare copy to pinned memory", rate(bare_out))
    row("park", rate(parking))
    row(
        "park, share of the bare bandwidth",
        f"{bare_out / parking:.2f}",
        bare_out / parking >= LEAST_RATIO,
    )
    row("bare copy from pinned memory", rate(bare_back))
    row("bare copy into new tensors", rate(bare_new))
    row("restore", rate(restoring))
    share = bare_back / restoring
    row("restore, share of the bare bandwidth", f"{share:.2f}", share >= LEAST_RATIO)

    torch.cuda.synchronize()
    begun = time.perf_counter()
    again = host.begin_park(take_image(value))
    returned = time.perf_counter() - begun
    again.abort()
    row("warm begin_park returns after", f"{returned * 1e3:.2f} ms", returned < parking)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    restored = parked.begin_restore().finish()
    returned = time.perf_counter() - begun
    torch.cuda.synchronize()
    row("restore returns to the host after", f"{returned * 1e3:.2f} ms", returned < restoring)
    row("restored bits", "", same(restored, to_host(value)))
    parked.discard()


def check_overlap(host: HostTier) -> None:
    """Work given to the model's stream after the beginning runs beside the copies."""
    value = make_value()
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    b = torch.empty_like(a)
    parked = host.begin_park(take_image(value)).finish()

    def work(count: int) -> None:
        for _ in range(count):
            torch.mm(a, a, out=b)

    work(3)
    copy_alone = best(lambda: host.begin_park(take_image(value)).finish().discard())
    count = max(1, round(100 * copy_alone / best(lambda: work(100))))
    work_alone = best(lambda: work(count))

    def park_beside() -> None:
        parking = host.begin_park(take_image(value))
        work(count)
        parking.finish().discard()

    def restore_beside() -> None:
        restoring = parked.begin_restore()
        work(count)
        restoring.finish()

    restore_alone = best(lambda: parked.begin_restore().finish())
    for name, alone, both in (
        ("park", copy_alone, best(park_beside)),
        ("restore", restore_alone, best(restore_beside)),
    ):
        hidden = (alone + work_alone - both) / min(alone, work_alone)
        row(f"{name} beside compute: share that is hidden", f"{hidden:.2f}", hidden > 0.5)
    parked.discard()


def check_races(host: HostTier) -> None:
    """Values replaced, parked, aborted, restored on changing streams while memory churns."""
    streams = [torch.cuda.current_stream(), *(torch.cuda.Stream() for _ in range(2))]  # type: ignore[no-untyped-call]
    good = True
    waiting: list[tuple[int, Any]] = []
    for number in range(60):
        stream = streams[number % 3]
        with torch.cuda.stream(stream):
            value = [torch.full((1 << 20,), number, device="cuda") for _ in range(3)]
            value[0].add_(1).sub_(1)  # still running when the copy is asked for
            parking = host.begin_park(take_image(value))
            if number % 7 == 3:
                parking.abort()
                del value, parking
                torch.full((3 << 20,), -1, device="cuda")
                continue
            parked = parking.finish()
            del value, parking
            torch.full((3 << 20,), -1, device="cuda")
        waiting.append((number, parked))
        if len(waiting) > 2:
            wanted, parked = waiting.pop(0)
            if wanted % 5 == 0:
                parked.begin_restore().abort()
            with torch.cuda.stream(streams[(number + 1) % 3]):
                restoring = parked.begin_restore()
                parked.discard()  # the next park takes these chunks while they are read
                with torch.cuda.stream(streams[(number + 2) % 3]):
                    new = restoring.finish()
                    good &= all(bool((tensor == wanted).all()) for tensor in new)
    row("60 rounds over three streams", "equal" if good else "DIFFERENT", good)


def check_shortage(host: HostTier) -> None:
    """A device without room refuses the restore and keeps the parked copy."""
    value = make_value()
    wanted = to_host(value)
    parked = host.begin_park(take_image(value)).finish()
    del value
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(200 * MIB / total)
    refused = ""
    try:
        parked.begin_restore().finish()
    except ParkError as error:
        refused = str(error)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    row(
        "restore without room",
        refused[:22] or "no error",
        refused.startswith("restore (host tier)"),
    )
    row("bits after a refused restore", "", same(parked.begin_restore().finish(), wanted))
    parked.discard()


def check_disk(host: HostTier) -> None:
    """Device to host to disk and back, and device to disk without the host tier."""
    value = make_value()
    wanted = to_host(value)
    with tempfile.TemporaryDirectory() as folder:
        disk = DiskTier(folder)
        moved = host.begin_park(take_image(value)).finish().move_to(disk)
        row("host to disk and back", "", same(moved.begin_restore().finish(), wanted))
        direct = disk.begin_park(take_image(value)).finish()
        new = direct.begin_restore().finish()
        row("device to disk and back", "", same(new, wanted) and new[0].is_cuda)
        disk.close()


def check_small_pool() -> None:
    """Beyond its bound the pool parks in pageable memory, with the same bits."""
    host = HostTier(max_pinned_bytes=64 * MIB)
    value = make_value()
    wanted = to_host(value)
    parked = host.begin_park(take_image(value)).finish()
    row("mostly pageable memory", "", same(parked.begin_restore().finish(), wanted))
    parked.discard()
    pinned = host.nbytes_by_device()
    row("pinned bytes kept by a pool of 64 MiB", f"{pinned}", pinned == {"cpu": 64 * MIB})


def main() -> int:
    if not torch.cuda.is_available():
        print("park_on_cuda: no CUDA device here, nothing was checked")
        return 0
    torch.cuda.set_device(0)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}, {NBYTES} bytes a value\n")
    begun = time.perf_counter()
    host = HostTier()
    for check in (check_bits_and_bytes, check_views, check_rates, check_overlap, check_races):
        check(host)
    for check in (check_shortage, check_disk):
        check(host)
    host.trim()
    row("pinned bytes kept after trim", f"{host.nbytes_by_device()}", host.nbytes_by_device() == {})
    check_small_pool()
    print(f"\n{time.perf_counter() - begun:.0f} s, {len(failures)} checks failed {failures or ''}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
