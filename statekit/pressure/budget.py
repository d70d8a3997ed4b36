"""Budgets: how many bytes may be held on each device, as an operator writes it.

Owns the notation and the question how much memory is free. Not here: who holds what
(`statekit.accounting`), what is given up when a budget is exceeded (`statekit.pressure.planner`).

Devices are named as the byte counts name them: `cpu`, `disk`, or `cuda:0` with its index.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path

import attrs

from statekit.errors import BudgetError

__all__ = ["Budgets", "FreeBytes"]

_MEMINFO = Path("/proc/meminfo")
_DEVICE = re.compile(r"cpu|disk|(?!cpu|disk)[a-z]+:(?:0|[1-9][0-9]*)")
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+|%)?")
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_IN_BYTES = "write the budget in bytes"
_NOTATION = 'write bytes as a whole number, "24GiB", a fraction such as 0.5, or "50%"'


@attrs.frozen
class FreeBytes:
    """How many bytes are free on a device now, for budgets that are a fraction of it.

    Attributes:
        folder: where parked values are written; without it nobody knows which disk is meant.
    """

    folder: Path | None = None

    def __call__(self, device: str) -> int:
        """Free bytes of `cpu`, `disk` or an accelerator.

        Raises:
            BudgetError: this machine cannot say.
        """
        if device == "cpu":
            return _available_memory()
        if device == "disk":
            return self._free_disk()
        return _free_on_accelerator(device)

    def _free_disk(self) -> int:
        if self.folder is None:
            found = "no folder for parked values is set, so there is no disk to ask"
            raise BudgetError("disk", found, f"set the folder, or {_IN_BYTES}")
        try:
            return shutil.disk_usage(self.folder).free
        except OSError as error:
            found = f"the free space of {self.folder} cannot be read ({error.strerror})"
            raise BudgetError("disk", found, f"make the folder, or {_IN_BYTES}") from error


@attrs.frozen
class Budgets:
    """The most bytes that may be held, by device; a device that is absent has no budget."""

    limits: Mapping[str, int] = attrs.field(factory=dict)

    @classmethod
    def parse(
        cls, given: Mapping[str, object] | None, free: Callable[[str], int] | None = None
    ) -> Budgets:
        """Read budgets as an operator writes them, such as `{"cuda:0": "40GiB", "cpu": 0.5}`.

        A whole number is bytes; so is text with a unit (B, KiB, MiB, GiB, TiB) or without. A
        float, text with a point and no unit, and a percentage are fractions of the memory that is
        free when this is called. None is no budget.

        Args:
            given: budgets by device; None is no budget at all.
            free: free bytes of a device; asked for fractions alone. None asks this machine, which
                knows no folder for "disk".

        Raises:
            BudgetError: a device or an amount is no such, or less than one byte.
        """
        ask = FreeBytes() if free is None else free
        limits: dict[str, int] = {}
        for device, amount in (given or {}).items():
            if not isinstance(device, str) or not _DEVICE.fullmatch(device):
                raise BudgetError(repr(device), "no device", _device_cure(device))
            if amount is not None:
                limits[device] = _nbytes(device, amount, ask)
        return cls(limits)


def _device_cure(device: object) -> str:
    if isinstance(device, str) and re.fullmatch(r"[a-z]+", device):
        return f'name it with its index, "{device}:0"'
    if isinstance(device, str) and device.startswith("cpu"):
        return 'write "cpu"'
    return 'write "cpu", "disk", or an accelerator with its index, "cuda:0"'


def _nbytes(device: str, amount: object, free: Callable[[str], int]) -> int:
    """The amount in bytes."""
    if isinstance(amount, int) and not isinstance(amount, bool):
        nbytes = amount
    elif isinstance(amount, float):
        return _fraction(device, amount, amount, free)
    elif isinstance(amount, str):
        match = _AMOUNT.fullmatch(amount.strip())
        if match is None:
            raise BudgetError(device, f"{amount!r} is no amount", _NOTATION)
        number, unit = match.groups()
        if unit == "%":
            return _fraction(device, amount, float(Decimal(number) / 100), free)
        if unit is None and "." in number:
            return _fraction(device, amount, float(number), free)
        if unit is not None and unit not in _UNITS:
            raise BudgetError(device, f"{amount!r} has the unit {unit!r}", _unit_cure(number, unit))
        nbytes = int(Decimal(number) * _UNITS[unit or "B"])
    else:
        raise BudgetError(device, f"a {type(amount).__name__}: {amount!r}", _NOTATION)
    if nbytes < 1:
        found = f"{amount!r} is less than one byte"
        raise BudgetError(device, found, "raise it, or leave the device out to have no budget")
    return nbytes


def _unit_cure(number: str, unit: str) -> str:
    """The unit that was meant; a decimal one is spelt out, because many write it for the binary."""
    for power, prefix in enumerate("KMGT", start=1):
        if unit.upper() in (prefix, f"{prefix}B", f"{prefix}I", f"{prefix}IB"):
            cure = f'write "{number}{prefix}iB" for {number} times 2**{10 * power} bytes'
            if unit.upper() == f"{prefix}B":
                cure += f', or "{int(Decimal(number) * 1000**power)}B" if 10**{3 * power} is meant'
            return cure
    return f"write one of {', '.join(_UNITS)}"


def _fraction(device: str, amount: object, part: float, free: Callable[[str], int]) -> int:
    if not 0 < part <= 1:  # also what is no number
        found = f"{amount!r} is no fraction of the free memory"
        raise BudgetError(device, found, "write more than 0 and at most 1 (100%), or whole bytes")
    there = free(device)
    nbytes = math.floor(part * there)
    if nbytes < 1:
        found = f"{amount!r} of {there} free bytes is less than one byte"
        raise BudgetError(device, found, f"free memory on the device, or {_IN_BYTES}")
    return nbytes


def _free_on_accelerator(device: str) -> int:
    import torch  # here, so that budgets in bytes can be read without it

    backend = getattr(torch, device.partition(":")[0], None)
    if backend is None or not hasattr(backend, "mem_get_info") or not backend.is_available():
        found = "this machine has no such device whose free memory can be asked"
        raise BudgetError(device, found, _IN_BYTES)
    try:
        return int(backend.mem_get_info(device)[0])
    except (RuntimeError, AssertionError, ValueError) as error:
        raise BudgetError(device, f"its free memory cannot be read ({error})", _IN_BYTES) from error


def _available_memory() -> int:
    """Host memory that can be had without swapping, as far as the system says."""
    try:
        if _MEMINFO.exists():
            for line in _MEMINFO.read_text(encoding="ascii").splitlines():
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 2**10
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError) as error:  # names that a system does not know
        found = f"the free memory of this system cannot be read ({error})"
        raise BudgetError("cpu", found, _IN_BYTES) from error
