"""The attributes of instances of somebody's classes, which hold state as containers do."""

from __future__ import annotations

import dataclasses
import enum
import functools
import random
import types
from typing import Any

import attrs
import numpy as np
import torch

__all__ = ["fields_of", "has_attribute", "has_own_equality", "set_fields"]

_NO_HOLDERS = (
    type, enum.Enum, functools.partial, types.FunctionType, types.MethodType,
    types.BuiltinFunctionType, types.ModuleType, torch.Tensor, torch.Generator, torch.dtype,
    torch.device, np.ndarray, np.generic, np.dtype, np.random.Generator, np.random.RandomState,
    random.Random,
)  # fmt: skip


def fields_of(value: Any) -> dict[str, Any] | None:
    """The attributes of an instance by name; None where it is no holder of attributes.

    Instances of a class with an equality of its own (a path, a date, an enum) are plain values,
    unless that comes from `dataclasses` or attrs.
    """
    kind = type(value)
    if kind.__module__ == "builtins" or isinstance(value, _NO_HOLDERS):
        return None
    if has_own_equality(kind) and not (dataclasses.is_dataclass(kind) or attrs.has(kind)
                             or kind is types.SimpleNamespace):  # fmt: skip
        return None
    found = dict(getattr(value, "__dict__", {}))
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            name = _mangled(name, base)
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found.setdefault(name, getattr(value, name))
    return found if found or hasattr(value, "__dict__") else None


def has_attribute(value: Any, name: str) -> bool:
    """Whether there is an attribute of this name, be it a property that fails now."""
    try:
        getattr(value, name)
    except AttributeError:
        return False
    except Exception:  # reading it is compared later, with its error
        return True
    return True


def set_fields(value: Any, fields: dict[str, Any]) -> None:
    """Give an instance these attributes and no others, past any `__setattr__` of its class."""
    for name in fields_of(value) or {}:
        if name not in fields:
            object.__delattr__(value, name)
    for name, one in fields.items():
        object.__setattr__(value, name, one)


def has_own_equality(kind: type) -> bool:
    """Whether its instances say themselves what is equal to them."""
    equality: Any = kind.__eq__
    return equality is not object.__eq__


def _mangled(name: str, owner: type) -> str:
    if name.startswith("__") and not name.endswith("__"):
        return f"_{owner.__name__.lstrip('_')}{name}"
    return name
