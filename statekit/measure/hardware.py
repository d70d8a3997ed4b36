"""Hardware: what a recording ran on, in the words of a `measured` block, and today's date."""

from __future__ import annotations

import datetime
import platform
import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

__all__ = ["hardware", "today"]

_LONGEST = 80


def hardware(devices: Collection[str]) -> str:
    """The accelerators among `devices`, or the processor where there is none."""
    names = sorted({_accelerator(device) for device in devices if device not in ("cpu", "disk")})
    text = ", ".join(names) or f"CPU, {_processor()}"
    return re.sub(r"\s+", " ", text)[:_LONGEST].strip()


def today() -> str:
    """The date here, as YYYY-MM-DD."""
    return datetime.date.today().isoformat()


@lru_cache
def _accelerator(device: str) -> str:
    if device.partition(":")[0] == "cuda":
        import torch

        try:
            return torch.cuda.get_device_name(torch.device(device))
        except (RuntimeError, AssertionError):  # it was there when the bytes were counted
            return device
    return device


@lru_cache
def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(\S.*)$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()
