"""Values without memory of their own as plain data, and back: numbers, text, torch's small types.

Owns the pairs of `encode` and `decode`; what they exchange is what `json` returns unchanged. Exact
types only: a subclass would come back as its base.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from statekit.image.grammar import TORCH_DTYPES
from statekit.image.memory import NoPictureError

__all__ = [
    "decode",
    "decode_array_dtype",
    "decode_dtype",
    "decode_float",
    "decode_int",
    "encode",
    "encode_array_dtype",
    "encode_dtype",
    "encode_float",
    "encode_int",
]


def encode(obj: object) -> list[Any] | None:
    """`[kind, data...]` of a plain value; None if `obj` is no such. Raises: NoPictureError."""
    if isinstance(obj, np.generic):
        return _encode_scalar(obj)
    encoder = _ENCODERS.get(type(obj))
    return None if encoder is None else encoder(obj)


def decode(kind: str, data: list[Any]) -> Any:
    """The value that `encode` gave `[kind, *data]` for. Raises: KeyError for another kind."""
    return _DECODERS[kind](*data)


def encode_dtype(dtype: torch.dtype) -> str:
    """The name in `torch`, such as `bfloat16`."""
    return str(dtype).removeprefix("torch.")


def decode_dtype(name: str) -> torch.dtype:
    """The torch dtype of that name. Raises: ValueError."""
    dtype = getattr(torch, name, None) if name in TORCH_DTYPES else None
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"torch has no dtype {name!r}")
    return dtype


def encode_array_dtype(dtype: np.dtype[Any]) -> Any:
    """The dtype as text, or as lists for records. Raises: NoPictureError."""
    if dtype.hasobject:
        raise NoPictureError("an array of Python objects", "store a list of values")
    code = _dtype_code(dtype)
    try:
        same = decode_array_dtype(code) == dtype and dtype.metadata is None
    except (TypeError, ValueError):
        same = False
    if not same:
        raise NoPictureError(
            f"an array of dtype {dtype}", "store a tensor, or an array of a numpy dtype"
        )
    return code


def decode_array_dtype(code: Any) -> np.dtype[Any]:
    """The numpy dtype that `encode_array_dtype` gave `code` for."""
    if isinstance(code, str):
        return np.dtype(code)
    kind, *data = code
    if kind == "subarray":
        base, shape = data
        return np.dtype((decode_array_dtype(base), tuple(shape)))
    names, formats, offsets, titles, itemsize, aligned = data
    fields: Any = {
        "names": names,
        "formats": [decode_array_dtype(field) for field in formats],
        "offsets": offsets,
        "titles": titles,
        "itemsize": itemsize,
    }
    record: np.dtype[Any] = np.dtype(fields, align=aligned)
    return record


def _dtype_code(dtype: np.dtype[Any]) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return ["subarray", _dtype_code(base), list(shape)]
    if dtype.names is None:
        return dtype.str
    by_name: Any = dtype.fields
    fields = [by_name[name] for name in dtype.names]
    return [
        "record",
        list(dtype.names),
        [_dtype_code(field[0]) for field in fields],
        [field[1] for field in fields],
        [field[2] if len(field) > 2 else None for field in fields],
        dtype.itemsize,
        dtype.isalignedstruct,
    ]


def _encode_scalar(scalar: np.generic) -> list[Any]:
    dtype = scalar.dtype
    if type(scalar) is not dtype.type or isinstance(scalar, np.void):
        raise NoPictureError(f"a numpy {type(scalar).__name__}", "store an array")
    return ["scalar", encode_array_dtype(dtype), scalar.tobytes().hex()]


def _decode_scalar(code: Any, data: str) -> Any:
    array: npt.NDArray[Any] = np.frombuffer(bytearray.fromhex(data), decode_array_dtype(code))
    return array[0]


def encode_int(number: int) -> int | str:
    """The number, or hexadecimal digits of a large one."""
    return number if number.bit_length() < 64 else hex(number)  # decimal digits have a limit


def decode_int(code: int | str) -> int:
    """The number that `encode_int` gave `code` for."""
    return int(code, 16) if isinstance(code, str) else code


def encode_float(number: float) -> float | str:
    """The number, or its bits where JSON has no word for it."""
    return number if math.isfinite(number) else struct.pack("<d", number).hex()


def decode_float(code: float | str) -> float:
    """The number that `encode_float` gave `code` for."""
    return struct.unpack("<d", bytes.fromhex(code))[0] if isinstance(code, str) else code


def _encode_text(text: str) -> list[Any]:
    if text.isascii():
        return ["str", text]
    # JSON would join two lone surrogates to one character.
    return ["text", text.encode("utf-8", "surrogatepass").hex()]


_ENCODERS: dict[type, Callable[[Any], list[Any]]] = {
    type(None): lambda _: ["none"],
    bool: lambda flag: ["bool", flag],
    int: lambda number: ["int", encode_int(number)],
    float: lambda number: ["float", encode_float(number)],
    complex: lambda number: ["complex", encode_float(number.real), encode_float(number.imag)],
    str: _encode_text,
    torch.Size: lambda size: ["size", list(size)],
    torch.dtype: lambda dtype: ["dtype", encode_dtype(dtype)],
    torch.device: lambda device: ["device", str(device)],
}

_DECODERS: dict[str, Callable[..., Any]] = {
    "none": lambda: None,
    "bool": bool,
    "int": decode_int,
    "float": decode_float,
    "complex": lambda real, imag: complex(decode_float(real), decode_float(imag)),
    "str": str,
    "text": lambda data: bytes.fromhex(data).decode("utf-8", "surrogatepass"),
    "size": torch.Size,
    "dtype": decode_dtype,
    "device": torch.device,
    "scalar": _decode_scalar,
}
