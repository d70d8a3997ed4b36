"""The memory of numpy arrays and of Python's buffers: handlers for `statekit.walk.walk`.

Owns what must be known about views: which object a view hands on, and the range that it spans
where the owner is of no known kind.

Thread rule: as `statekit.accounting`. A buffer that can be resized is not exported (an export would
make another thread's resize fail), save memory maps and ctypes objects, for the time of one look.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from statekit.walk.walk import Walk

__all__ = [
    "look_into_array",
    "look_into_array_array",
    "look_into_bytearray",
    "look_into_bytes",
    "look_into_bytes_io",
    "look_into_bytes_io_buffer",
    "look_into_exporter",
    "look_into_memoryview",
    "look_into_record",
]

_base_of: Callable[[Any], Any] = np.ndarray.__dict__["base"].__get__  # a subclass may redefine it

_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)
_bytes_address = _address_of(("PyBytes_AsString", ctypes.pythonapi))
_bytearray_address = _address_of(("PyByteArray_AsString", ctypes.pythonapi))


def look_into_array(arr: Any, walk: Walk) -> None:
    """An owner: its memory, and the objects in it. A view: its owner."""
    plain = arr
    if type(arr) is not np.ndarray:
        plain = np.asarray(arr)  # without what the subclass overrides
        walk.hand_on_references(arr)  # a mask, say
    base = _base_of(arr)
    if base is None:
        _add_span(plain, arr, walk)
        if plain.dtype.hasobject:
            walk.todo += _elements(plain)
    else:
        walk.todo.append(base)
        if not walk.knows_memory_of(type(base)):
            _add_span(plain, arr, walk)


def look_into_record(record: Any, walk: Walk) -> None:
    """A scalar of a structured array: a view of the array, or memory of its own."""
    if record.base is not None:
        walk.todo.append(record.base)
        return
    look_into_exporter(record, walk)
    if record.dtype.hasobject:
        walk.todo.append(record.item())


def look_into_bytes(data: bytes, walk: Walk) -> None:
    """The buffer; a subclass may have attributes."""
    walk.add("cpu", _bytes_address(data), len(data), data)
    walk.hand_on_references(data)


def look_into_bytearray(data: bytearray, walk: Walk) -> None:
    """The buffer at its present size; a subclass may have attributes."""
    walk.add("cpu", _bytearray_address(data), len(data), data)
    walk.hand_on_references(data)


def look_into_array_array(data: array.array[Any], walk: Walk) -> None:
    """The buffer at its present size; a subclass may have attributes."""
    start, length = data.buffer_info()
    walk.add("cpu", start, length * data.itemsize, data)
    walk.hand_on_references(data)


def look_into_memoryview(view: memoryview, walk: Walk) -> None:
    """The whole object that is viewed."""
    try:
        owner = view.obj
    except ValueError:  # released
        return
    walk.todo.append(owner)
    if not walk.knows_memory_of(type(owner)):
        look_into_exporter(owner, walk)


def look_into_exporter(owner: Any, walk: Walk) -> None:
    """A memory map (its mapped length), a ctypes object, whatever else shows a buffer."""
    with contextlib.suppress(BufferError, TypeError, ValueError):  # closed, or shows none
        flat = np.frombuffer(owner, np.uint8)
        walk.add("cpu", flat.ctypes.data, flat.nbytes, owner)
    walk.hand_on_references(owner)


def look_into_bytes_io(stream: io.BytesIO, walk: Walk) -> None:
    """The bytes behind the stream, which may be shared with others."""
    with contextlib.suppress(ValueError):  # closed
        walk.todo.append(io.BytesIO.getvalue(stream))  # the buffer itself, no copy
    walk.hand_on_references(stream)


def look_into_bytes_io_buffer(buffer: object, walk: Walk) -> None:
    """What `getbuffer()` views: hands on its stream (an export could copy the shared bytes)."""
    walk.hand_on_references(buffer)


def _add_span(plain: Any, owner: object, walk: Walk) -> None:
    if not plain.size:
        return
    start = end = plain.ctypes.data
    for length, stride in zip(plain.shape, plain.strides, strict=True):
        if stride < 0:
            start += (length - 1) * stride
        else:
            end += (length - 1) * stride
    walk.add("cpu", start, end + plain.itemsize - start, owner)


def _elements(plain: Any) -> list[Any]:
    """The objects in an array of objects, or of records that have such fields."""
    found: list[Any] = []
    parts = [plain]
    while parts:
        part = parts.pop()
        if part.dtype.names is None:
            found += part.reshape(-1).tolist()
        else:
            parts += [part[name] for name in part.dtype.names if part.dtype[name].hasobject]
    return found
