"""The closed sets that the data of a recipe is written in: names of dtypes, devices, generators.

Owns tables and the reading of a numpy dtype's code; what they are used for stands elsewhere
(`statekit.image.check`, `plain`, `views`, `generators`). Needs neither torch nor numpy, so that a
tool can look into a snapshot without them.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

__all__ = [
    "ARRAY_SCALAR",
    "BIT_GENERATORS",
    "DEVICE",
    "TENSOR_DTYPES",
    "TORCH_DTYPES",
    "Field",
    "array_itemsize",
]

TENSOR_DTYPES: dict[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "uint64": 8,
    "int64": 8,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "bits8": 1,
    "bits16": 2,
    "bits1x8": 1,
    "bits2x4": 1,
    "bits4x2": 1,
    **{f"{sign}int{bits}": 1 for sign in ("", "u") for bits in range(1, 8)},
}
"""Dtypes that a tensor's elements can have, and their bytes."""

TORCH_DTYPES = frozenset([*TENSOR_DTYPES, "qint8", "quint8", "qint32", "quint4x2", "quint2x4"])
"""Dtypes that can be a value of their own."""

DEVICE = re.compile(r"[a-z]{1,20}(:(0|[1-9][0-9]{0,2}))?", re.ASCII)

_NUMBER = r"[<>](?:f(?:2|4|8|12|16)|c(?:8|16|24|32)|[iu](?:2|4|8))|\|[iu]1|\|b1"
_TIME = r"[<>][mM]8(?:\[[1-9]?[0-9]{0,8}(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
_TEXT = r"\|S(?P<bytes>[0-9]{1,10})|[<>]U(?P<characters>[0-9]{1,9})"
ARRAY_SCALAR = re.compile(f"{_NUMBER}|{_TIME}|{_TEXT}", re.ASCII)
"""Codes of array dtypes whose elements can be values of their own."""

_VOID = re.compile(r"\|V(?P<bytes>[0-9]{1,10})", re.ASCII)
_SIZE = re.compile(r"[fciubmM](?P<bytes>[0-9]+)", re.ASCII)
_MAX_ITEMSIZE = 2**31 - 1
_MAX_DEPTH = 16
_MAX_DIMS = 64


def array_itemsize(code: Any, depth: int = 0) -> int | None:
    """The bytes of an element of the dtype that `code` stands for; None if it is no such code."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(code, str):
        return _scalar_itemsize(code)
    if not isinstance(code, list) or not code:
        return None
    if code[0] == "subarray" and len(code) == 3:
        return _subarray_itemsize(code[1], code[2], depth)
    if code[0] == "record" and len(code) == 7:
        return _record_itemsize(code, depth)
    return None


def _scalar_itemsize(code: str) -> int | None:
    found = ARRAY_SCALAR.fullmatch(code) or _VOID.fullmatch(code)
    if found is None:
        return None
    groups = found.groupdict()
    if groups.get("characters") is not None:
        size = 4 * int(groups["characters"])
    elif groups.get("bytes") is not None:
        size = int(groups["bytes"])
    else:
        number = _SIZE.search(code)
        assert number is not None
        size = int(number["bytes"])
    return size if size <= _MAX_ITEMSIZE else None


def _subarray_itemsize(base: Any, shape: Any, depth: int) -> int | None:
    size = array_itemsize(base, depth + 1)
    if size is None or not isinstance(shape, list) or len(shape) > _MAX_DIMS:
        return None
    for length in shape:
        if type(length) is not int or not 0 <= length <= _MAX_ITEMSIZE:
            return None
        size *= length
        if size > _MAX_ITEMSIZE:
            return None
    return size


def _record_itemsize(code: list[Any], depth: int) -> int | None:
    _, names, formats, offsets, titles, itemsize, aligned = code
    if type(itemsize) is not int or not 0 <= itemsize <= _MAX_ITEMSIZE or type(aligned) is not bool:
        return None
    lists = (names, formats, offsets, titles)
    if not all(isinstance(each, list) and len(each) == len(names) for each in lists):
        return None
    texts = [*names, *(title for title in titles if title is not None)]
    if not all(isinstance(text, str) for text in texts) or len(set(texts)) != len(texts):
        return None
    for field, offset in zip(formats, offsets, strict=True):
        size = array_itemsize(field, depth + 1)
        if size is None or type(offset) is not int or not 0 <= offset <= itemsize - size:
            return None
    return itemsize


@attrs.frozen
class Field:
    """A part of a bit generator's state: where it is, how many numbers, how large they can be."""

    path: str
    largest: int
    count: int | None = None  # None: a number alone


_U32 = 2**32 - 1
_U64 = 2**64 - 1
_U128 = 2**128 - 1
_HALF = (Field("has_uint32", 1), Field("uinteger", _U32))

BIT_GENERATORS: dict[str, tuple[Field, ...]] = {
    "PCG64": (Field("state.state", _U128), Field("state.inc", _U128), *_HALF),
    "PCG64DXSM": (Field("state.state", _U128), Field("state.inc", _U128), *_HALF),
    # numpy reads at these positions without looking whether they lie in the buffer.
    "MT19937": (Field("state.key", _U32, 624), Field("state.pos", 624)),
    "Philox": (
        Field("state.counter", _U64, 4),
        Field("state.key", _U64, 2),
        Field("buffer", _U64, 4),
        Field("buffer_pos", 4),
        *_HALF,
    ),
    "SFC64": (Field("state.state", _U64, 4), *_HALF),
}
"""The bit generators of numpy, and the state of each."""
