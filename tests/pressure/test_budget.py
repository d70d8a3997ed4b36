"""Budgets as operators write them, and what is said about those that make no sense."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit.errors import BudgetError
from statekit.pressure import budget
from statekit.pressure.budget import Budgets, FreeBytes


def free(device: str) -> int:
    """1,000 bytes and a bit, on every device."""
    return 1001


def nobody(device: str) -> int:
    raise AssertionError(f"the free memory of {device} is not needed")


@pytest.mark.parametrize(
    ("amount", "nbytes"),
    [
        (1, 1),
        (40 * 2**30, 42949672960),
        ("123", 123),
        ("123B", 123),
        ("1 KiB", 1024),
        ("24GiB", 24 * 2**30),
        (" 200 GiB ", 200 * 2**30),
        ("1.5MiB", 3 * 2**19),
        ("0.1GiB", 107374182),
        ("2TiB", 2**41),
    ],
)
def test_parse_when_amount_is_bytes_then_exact(amount: object, nbytes: int) -> None:
    """Bytes as a number or as text with a binary unit are read exactly, without asking anybody."""
    assert Budgets.parse({"cuda:0": amount}, nobody).limits == {"cuda:0": nbytes}


@pytest.mark.parametrize(
    ("amount", "nbytes"),
    [(0.5, 500), ("0.5", 500), ("50%", 500), ("12.5 %", 125), (1.0, 1001), ("100%", 1001)],
)
def test_parse_when_amount_is_a_fraction_then_of_free_memory(amount: object, nbytes: int) -> None:
    """A float, text with a point, and a percentage are parts of what is free, rounded down."""
    assert Budgets.parse({"cpu": amount}, free).limits == {"cpu": nbytes}


def test_parse_when_absent_or_none_then_no_budget() -> None:
    """None for a device, or for all, limits nothing; the other devices keep their order."""
    assert Budgets.parse(None, nobody) == Budgets() == Budgets.parse({}, nobody)
    given = {"disk": "1B", "cpu": None, "cuda:1": 3, "cuda:0": 2}
    assert list(Budgets.parse(given, nobody).limits.items()) == [
        ("disk", 1),
        ("cuda:1", 3),
        ("cuda:0", 2),
    ]


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ("200GB", "has the unit 'GB'; write \"200GiB\" for 200 times 2**30 bytes, or "
         '"200000000000B" if 10**9 is meant'),
        ("1.5mb", "has the unit 'mb'; write \"1.5MiB\" for 1.5 times 2**20 bytes, or "
         '"1500000B" if 10**6 is meant'),
        ("8G", "has the unit 'G'; write \"8GiB\" for 8 times 2**30 bytes"),
        ("8Ki", "has the unit 'Ki'; write \"8KiB\" for 8 times 2**10 bytes"),
        ("8gib", "has the unit 'gib'; write \"8GiB\" for 8 times 2**30 bytes"),
        ("8b", "has the unit 'b'; write one of B, KiB, MiB, GiB, TiB"),
        ("8 blocks", "has the unit 'blocks'; write one of B, KiB, MiB, GiB, TiB"),
        ("", "'' is no amount; write bytes as a whole number"),
        ("-1GiB", "'-1GiB' is no amount; write bytes"),
        ("1e9", "'1e9' is no amount; write bytes"),
        ("GiB", "'GiB' is no amount; write bytes"),
        ("1_000", "'1_000' is no amount; write bytes"),
        ("\N{ARABIC-INDIC DIGIT THREE}", "is no amount; write bytes"),
        (0, "0 is less than one byte; raise it, or leave the device out"),
        (-5, "-5 is less than one byte"),
        ("0GiB", "'0GiB' is less than one byte"),
        ("0.1B", "'0.1B' is less than one byte"),
        (0.0, "0.0 is no fraction of the free memory; write more than 0 and at most 1 (100%)"),
        (1.5, "1.5 is no fraction of the free memory"),
        ("150%", "'150%' is no fraction of the free memory"),
        (-0.5, "-0.5 is no fraction of the free memory"),
        (float("nan"), "nan is no fraction of the free memory"),
        (float("inf"), "inf is no fraction of the free memory"),
        (0.0001, "0.0001 of 1001 free bytes is less than one byte; free memory on the device"),
        (True, "a bool: True; write bytes as a whole number"),
        ([1], "a list: [1]; write bytes as a whole number"),
    ],
)  # fmt: skip
def test_parse_when_amount_makes_no_sense_then_place_found_and_cure(
    amount: object, message: str
) -> None:
    """A mistaken amount names its device, what was found, and what to write instead."""
    with pytest.raises(BudgetError) as caught:
        Budgets.parse({"cpu": amount}, free)
    assert str(caught.value).startswith("budget of cpu: ")
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("device", "cure"),
    [
        ("cuda", 'name it with its index, "cuda:0"'),
        ("cpu:0", 'write "cpu"'),
        ("cuda:00", 'an accelerator with its index, "cuda:0"'),
        ("disk:1", 'write "cpu", "disk", or'),
        ("CUDA:0", 'an accelerator with its index, "cuda:0"'),
        ("cuda:0 ", 'an accelerator with its index, "cuda:0"'),
        ("", 'an accelerator with its index, "cuda:0"'),
        (0, 'an accelerator with its index, "cuda:0"'),
    ],
)
def test_parse_when_device_is_none_then_cure(device: object, cure: str) -> None:
    """A device is named as the byte counts name it, or its budget would never be looked at."""
    with pytest.raises(BudgetError) as caught:
        Budgets.parse({device: 1}, free)  # type: ignore[dict-item]
    assert str(caught.value).startswith(f"budget of {device!r}: no device; ")
    assert cure in str(caught.value)


@given(st.text(max_size=12) | st.from_regex(r"[0-9. ]{1,6}[%BKMGTi ]{0,4}", fullmatch=True))
def test_parse_when_text_is_anything_then_a_limit_or_a_budget_error(text: str) -> None:
    """No text gives anything but a positive number of bytes or the one typed error."""
    try:
        limits = Budgets.parse({"cpu": text}, free).limits
    except BudgetError:
        return
    assert limits["cpu"] >= 1


@pytest.mark.skipif(not budget._MEMINFO.exists(), reason="this system has no /proc/meminfo")
def test_free_when_cpu_then_available_memory_of_this_machine() -> None:
    """Host memory is more than nothing and less than the whole machine."""
    total = next(
        int(line.split()[1]) * 1024
        for line in budget._MEMINFO.read_text(encoding="ascii").splitlines()
        if line.startswith("MemTotal")
    )
    assert 0 < FreeBytes()("cpu") <= total


def test_free_when_cpu_then_first_source_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's estimate of available memory is used, else free pages, else an error."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable: 5 kB\n", encoding="ascii")
    monkeypatch.setattr(budget, "_MEMINFO", meminfo)
    assert Budgets.parse({"cpu": 0.5}).limits == {"cpu": 2560}
    meminfo.unlink()
    monkeypatch.setattr(budget.os, "sysconf", {"SC_AVPHYS_PAGES": 3, "SC_PAGE_SIZE": 100}.get)
    assert FreeBytes()("cpu") == 300
    monkeypatch.delattr(budget.os, "sysconf")
    with pytest.raises(BudgetError, match=r"free memory of this system cannot be read"):
        FreeBytes()("cpu")


def test_free_when_disk_then_space_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is that of the folder for parked values; without one, or if absent, an error."""
    monkeypatch.setattr(
        budget.shutil, "disk_usage", lambda folder: SimpleNamespace(free=800, folder=folder)
    )
    assert Budgets.parse({"disk": "25%"}, FreeBytes(tmp_path)).limits == {"disk": 200}
    monkeypatch.undo()
    with pytest.raises(BudgetError, match=r"no folder for parked values is set.*set the folder"):
        Budgets.parse({"disk": "25%"})
    with pytest.raises(BudgetError, match=r"free space of .*nowhere cannot be read \(No such file"):
        FreeBytes(tmp_path / "nowhere")("disk")


def test_free_when_accelerator_then_asked_with_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """An accelerator is asked through torch; the first figure is what is free."""
    asked = []

    def mem_get_info(device: str) -> tuple[int, int]:
        asked.append(device)
        return 300, 900

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", mem_get_info)
    assert Budgets.parse({"cuda:1": "50%", "cuda:0": 7}).limits == {"cuda:1": 150, "cuda:0": 7}
    assert asked == ["cuda:1"]


def test_free_when_accelerator_cannot_tell_then_write_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device that is absent, unknown or out of range is an error that says what to write."""

    def mem_get_info(device: str) -> tuple[int, int]:
        raise AssertionError("Invalid device id")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("cuda:0", "warp:0"):
        with pytest.raises(BudgetError, match=f"{device}: this machine has no such.*in bytes"):
            FreeBytes()(device)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", mem_get_info)
    with pytest.raises(BudgetError, match=r"cannot be read \(Invalid device id\); write"):
        FreeBytes()("cuda:9")


def test_budget_when_imported_then_torch_is_not() -> None:
    """Reading budgets in bytes loads no torch."""
    code = (
        "import sys; from statekit.pressure.budget import Budgets; "
        "Budgets.parse({'cpu': '1GiB', 'disk': 3}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
