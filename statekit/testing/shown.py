"""Values in a few words, for reports: what kind, and so much of it as fits."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import torch

__all__ = ["a_kind", "shown"]

_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 4
_SHORT.maxstring = _SHORT.maxother = 40


def a_kind(value: Any) -> str:
    """What `value` is: `None`, `a list`, `a torch.Tensor`."""
    if value is None:
        return "None"
    kind = type(value)
    name = kind.__qualname__
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic, torch.Generator)):
        name = f"{kind.__module__.partition('.')[0]}.{name}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def shown(value: Any) -> str:
    """`value` on one line, cut where it is long; tensors and arrays by their form."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"numpy {value.dtype} {value.shape}"
    if isinstance(value, (list, tuple)) and len(value) <= 4:
        inner = ", ".join(shown(part) for part in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, (list, tuple, dict)):
        return f"{a_kind(value)} of {len(value)}"
    return " ".join(_SHORT.repr(value).split())
