"""What an object refers to, and which handler knows the memory that it holds.

Owns one count under way (`Walk`) and the choice of a handler per class. A handler reports memory
with `Walk.add` and hands on what the object refers to; it never recurses, and it never decides
what is new (`SeenStorages` does). The handlers are in `statekit.walk.torch_memory` and
`statekit.walk.buffers`.

    W1  References are read by `gc.get_referents`: one step of C code, so no other thread gets in
        between ("changed size during iteration" cannot happen), and no property, `__getattr__` or
        overridden `__iter__` runs. It sees slots, instance dictionaries, and built-in containers
        with their keys, and it does not see weak references.
    W2  A view hands on its owner and adds nothing itself; only where the owner is of no known kind
        does it add the range that it spans.
    W3  Methods are looked up on the class: an instance may answer to any name.

Thread rule: as `statekit.accounting`.
"""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import io
import logging
import mmap
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._subclasses import FakeTensor

from statekit.walk.buffers import (
    look_into_array,
    look_into_array_array,
    look_into_bytearray,
    look_into_bytes,
    look_into_bytes_io,
    look_into_bytes_io_buffer,
    look_into_exporter,
    look_into_memoryview,
    look_into_record,
)
from statekit.walk.torch_memory import (
    look_into_storage,
    look_into_tensor,
    look_into_tensor_subclass,
)

if TYPE_CHECKING:
    from statekit.accounting import SeenStorages

__all__ = ["HANDLERS", "Handler", "Walk"]


class Walk:
    """One count under way: what is left to look at, and the bytes found so far."""

    __slots__ = ("seen", "todo", "total")

    def __init__(self, seen: SeenStorages, value: object) -> None:
        self.seen = seen
        self.todo: list[Any] = [value]
        self.total: dict[str, int] = {}

    def add(self, device: str, start: int, nbytes: int, owner: object) -> None:
        """Count the part of a range of memory that is new; `owner` keeps it allocated."""
        new = self.seen.cover(device, start, nbytes, owner)
        if new:
            self.total[device] = self.total.get(device, 0) + new

    def add_new(self, device: str, nbytes: int) -> None:
        """Count bytes that are known to be new."""
        if nbytes:
            self.total[device] = self.total.get(device, 0) + nbytes

    def hand_on_references(self, obj: object) -> None:
        """Look later at everything that `obj` refers to."""
        self.todo += gc.get_referents(obj)

    def handler_of(self, cls: type) -> Handler | None:
        """Return what looks into instances of `cls`; None: there is nothing to look into."""
        handlers = self.seen._handlers
        try:
            return handlers[cls]
        except KeyError:
            handler = handlers[cls] = _choose(cls)
            return handler

    def knows_memory_of(self, cls: type) -> bool:
        """Whether the handler of `cls` adds all the memory that an instance owns."""
        return self.handler_of(cls) in _KNOWS_MEMORY


Handler = Callable[[Any, Walk], None]


def _choose(cls: type) -> Handler | None:
    if issubclass(cls, np.void):
        return look_into_record  # the one numpy scalar that can be a view
    if issubclass(cls, _HOLDS_NOTHING):
        return None
    for base in cls.__mro__:
        if "nbytes_by_device" in vars(base):
            method = vars(base)["nbytes_by_device"]
            if callable(method):
                return _ask if _takes_seen(method) else None
            break
    for base, handler in _BY_BASE:
        if issubclass(cls, base):
            return handler
    return _look_into_object


def _takes_seen(method: Callable[..., Any]) -> bool:
    code = getattr(method, "__code__", None)  # None: not written in Python
    return code is None or bool(code.co_flags & 0x04) or code.co_argcount >= 2  # 0x04: *args


def _ask(obj: Any, walk: Walk) -> None:
    for device, nbytes in type(obj).nbytes_by_device(obj, walk.seen).items():
        walk.add_new(device, nbytes)


def _look_into_object(obj: object, walk: Walk) -> None:
    walk.todo += gc.get_referents(obj)


_HOLDS_NOTHING = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    types.CodeType,
    types.FrameType,
    types.TracebackType,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    type(functools.lru_cache(len)),
    weakref.ReferenceType,
    weakref.ProxyType,
    weakref.CallableProxyType,
    logging.Logger,  # refers to every logger and handler of the process
    np.generic,
    FakeTensor,  # refers to the whole state of its tracing mode
)

_BY_BASE: tuple[tuple[type, Handler], ...] = (
    (torch.Tensor, look_into_tensor_subclass),
    (torch.UntypedStorage, look_into_storage),
    (np.ndarray, look_into_array),
    (bytes, look_into_bytes),
    (bytearray, look_into_bytearray),
    (memoryview, look_into_memoryview),
    (array.array, look_into_array_array),
    (mmap.mmap, look_into_exporter),
    (ctypes.Array, look_into_exporter),
    (ctypes.Structure, look_into_exporter),
    (ctypes.Union, look_into_exporter),
    (io.BytesIO, look_into_bytes_io),
    (type(io.BytesIO().getbuffer().obj), look_into_bytes_io_buffer),
)

_KNOWS_MEMORY = frozenset(handler for _, handler in _BY_BASE) | {look_into_record, look_into_tensor}

HANDLERS: dict[type, Handler | None] = {
    **dict.fromkeys(
        (types.NoneType, bool, int, float, complex, str, range, type, torch.dtype, torch.device)
    ),
    **dict.fromkeys((list, tuple, dict, set, frozenset), _look_into_object),
    torch.Tensor: look_into_tensor,
    np.ndarray: look_into_array,
}
"""Where every count starts; the handlers of other classes are chosen once per count."""
