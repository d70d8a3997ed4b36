"""The check of plain values and random generators in a recipe from elsewhere.

Owns one function a kind, each given what follows the kind in a node; see `statekit.image.check`.
Needs neither torch nor numpy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from statekit.image.check_views import check_device
from statekit.image.fault import is_count, require
from statekit.image.grammar import (
    ARRAY_SCALAR,
    BIT_GENERATORS,
    DEVICE,
    TORCH_DTYPES,
    array_itemsize,
)

__all__ = ["LEAVES", "check_over"]

_DIGITS = re.compile(r"[0-9a-f]*", re.ASCII)
_LARGE = re.compile(r"-?0x[1-9a-f][0-9a-f]*", re.ASCII)
_WORDS = 625  # of Python's generator: 624 of its state, and the place
_MAX_STATE = 1 << 16  # of torch's generators, in digits
_MAX_POOL = 1 << 10


def _nothing(data: list[Any]) -> None:
    require(not data, "too much")


def _flag(data: list[Any]) -> None:
    require(len(data) == 1 and type(data[0]) is bool, "no truth value")


def _whole(data: list[Any]) -> None:
    require(len(data) == 1 and _is_whole(data[0]), "no whole number")


def _is_whole(code: Any) -> bool:
    if isinstance(code, str):
        return _LARGE.fullmatch(code) is not None
    return type(code) is int and code.bit_length() < 64


def _real(data: list[Any]) -> None:
    require(len(data) == 1 and _is_real(data[0]), "no number")


def _is_real(code: Any) -> bool:
    if isinstance(code, str):
        return len(code) == 16 and _is_hex(code)
    return type(code) is float and math.isfinite(code)


def _complex(data: list[Any]) -> None:
    require(len(data) == 2 and all(map(_is_real, data)), "no two numbers")


def _ascii(data: list[Any]) -> None:
    require(len(data) == 1 and isinstance(data[0], str) and data[0].isascii(), "no ASCII text")


def _text(data: list[Any]) -> None:
    require(len(data) == 1 and _is_hex(data[0]), "no digits")
    try:
        bytes.fromhex(data[0]).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        require(False, "no text")


def _is_hex(code: Any) -> bool:
    return isinstance(code, str) and len(code) % 2 == 0 and _DIGITS.fullmatch(code) is not None


def _size(data: list[Any]) -> None:
    good = len(data) == 1 and isinstance(data[0], list)
    require(good and all(type(n) is int and n.bit_length() < 64 for n in data[0]), "no size")


def _dtype(data: list[Any]) -> None:
    good = len(data) == 1 and isinstance(data[0], str) and data[0] in TORCH_DTYPES
    require(good, "no dtype of torch")


def _device(data: list[Any]) -> None:
    good = len(data) == 1 and isinstance(data[0], str) and DEVICE.fullmatch(data[0]) is not None
    require(good, "no device")


def _scalar(data: list[Any]) -> None:
    good = len(data) == 2 and isinstance(data[0], str) and ARRAY_SCALAR.fullmatch(data[0])
    require(bool(good) and _is_hex(data[1]), "no dtype and digits")
    require(array_itemsize(data[0]) == len(data[1]) // 2, "too few or too many digits")


def _torch_generator(data: list[Any]) -> None:
    require(len(data) == 2, "no device and state")
    check_device(data[0])
    require(_is_hex(data[1]) and 0 < len(data[1]) <= _MAX_STATE, "no state")


def _random(data: list[Any]) -> None:
    require(len(data) == 2 and _are_words(data[0], _WORDS, 2**32 - 1), "no state")
    require(data[0][-1] < _WORDS, "no place in the state")
    require(data[1] is None or _is_real(data[1]), "no number")


def _are_words(words: Any, count: int, largest: int) -> bool:
    return (
        isinstance(words, list)
        and len(words) == count
        and all(type(word) is int and 0 <= word <= largest for word in words)
    )


def _seed_sequence(data: list[Any]) -> None:
    require(len(data) == 4, "no seed")
    entropy, spawn_key, pool_size, children = data
    for words in (entropy, spawn_key):
        good = isinstance(words, list) and all(map(_is_whole, words))
        require(good and not any(_is_negative(word) for word in words), "no seed")
    require(bool(entropy), "no seed")
    require(is_count(pool_size) and 4 <= pool_size <= _MAX_POOL, "no pool")
    require(is_count(children) and children < 2**32, "no count of children")


def _is_negative(code: int | str) -> bool:
    return code.startswith("-") if isinstance(code, str) else code < 0


LEAVES: dict[str, Callable[[list[Any]], None]] = {
    "none": _nothing,
    "bool": _flag,
    "int": _whole,
    "float": _real,
    "complex": _complex,
    "str": _ascii,
    "text": _text,
    "size": _size,
    "dtype": _dtype,
    "device": _device,
    "scalar": _scalar,
    "torch_generator": _torch_generator,
    "random": _random,
    "seed_sequence": _seed_sequence,
}
"""The check of each kind that refers to no other node and has no memory."""


def check_over(kind: str, data: list[Any], held: str) -> None:
    """Require a generator over another object, of kind `held`. Raises: BadRecipeError."""
    if kind == "generator":
        require(not data and held == "bit_generator", "no bit generator")
    elif kind == "random_state":
        require(len(data) == 2 and held == "bit_generator", "no bit generator")
        require(type(data[0]) is int and data[0] in (0, 1) and _is_real(data[1]), "no gaussian")
    else:
        _check_bits(data, held)


def _check_bits(data: list[Any], held: str) -> None:
    require(len(data) == 2 and isinstance(data[0], str), "no name and state")
    name, fields = data
    require(name in BIT_GENERATORS and isinstance(fields, dict), "no bit generator of numpy")
    require(held == "seed_sequence" or (held == "none" and name == "MT19937"), "no seed")
    wanted = BIT_GENERATORS[name]
    require(sorted(fields) == sorted(field.path for field in wanted), "no state of its kind")
    for field in wanted:
        code = fields[field.path]
        if field.count is not None:
            require(_are_words(code, field.count, field.largest), "no state of its kind")
        else:
            require(_is_whole(code) and not _is_negative(code), "no state of its kind")
            number = int(code, 16) if isinstance(code, str) else code
            require(number <= field.largest, "no state of its kind")
