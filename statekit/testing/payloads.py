"""Payloads: a value of the type, dtype and shape that a schema declares, from a number.

Owns what a test stores where a schema says `list[torch.Tensor | None]` and `[1, 16, H / 8]`. One
number gives one payload, on every machine; its bits are any bits, those of a NaN among them.

    P1  A shape is the declared one with the schema's symbols as small as its expressions allow.
    P2  Of what has no shape (a list of tensors), the tensors are a few elements each.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np
import torch

from statekit.checking.type_text import TypeText
from statekit.errors import ExpressionError
from statekit.expressions import Expression
from statekit.spec import ModelSpec, ValueSpec

__all__ = ["NoPayloadError", "Payloads", "small_numbers"]

_MOST_ELEMENTS = 1 << 16
_NONE_IN = 5  # where None is allowed, every fifth number gives it
_CANDIDATES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)


class NoPayloadError(ValueError):
    """A value is of a class that only its owner can make."""


def small_numbers(spec: ModelSpec) -> dict[str, int]:
    """Numbers for the symbols of a schema, as small as all of its sizes allow."""
    sizes = [Expression.parse(text) for text in _sizes_of(spec)]
    numbers = spec.environment()
    for symbol, declared in spec.symbols.items():
        for candidate in (*_CANDIDATES, declared):
            if candidate <= declared and _all_positive(sizes, {**numbers, symbol: candidate}):
                numbers[symbol] = candidate
                break
    return numbers


def _sizes_of(spec: ModelSpec) -> Iterator[str]:
    for value in spec:
        if value.size is not None:
            yield from value.size.shape or ()
            yield from filter(None, (value.size.elements, value.size.first))
        if value.index is not None:
            yield from value.index.shape
    yield from (family.count for family in spec.families.values() if family.count is not None)


def _all_positive(sizes: list[Expression], numbers: Mapping[str, int]) -> bool:
    try:
        return all(size.evaluate(numbers) > 0 for size in sizes)
    except ExpressionError:
        return False


@attrs.frozen
class _Form:
    """What tensors and arrays of a value are like."""

    dtype: str
    shape: tuple[int, ...] | None


class Payloads:
    """Makes payloads for the values of one schema.

    Args:
        spec: the schema.
        parameters: the numbers with which the adapter is built, where they are not the defaults.
    """

    def __init__(self, spec: ModelSpec, parameters: Mapping[str, int] | None = None) -> None:
        self.spec = spec
        self.numbers = {**small_numbers(spec), **(parameters or {})}
        self.declared = spec.environment(dict(parameters or {}))

    def number(self, text: str) -> int:
        """A bound, with the schema's own numbers."""
        return Expression.parse(text).evaluate(self.declared)

    def make(self, value: ValueSpec, seed: int, *, extent: int | None = None) -> Any:
        """A payload for a value: the whole of it, or one item of a buffer.

        Args:
            extent: of a ring along an axis, how many frames the item has.

        Raises:
            NoPayloadError: the value's type is somebody's own class.
        """
        shape = self._shape(value)
        axis = None if value.ring is None else value.ring.axis
        if extent is not None and axis is not None:
            extents = list(shape or [1] * axis + [1, 2])
            extents[axis] = extent
            shape = tuple(extents)
        dice = random.Random(seed)
        kinds = [one for one in TypeText.parse(value.type).alternatives if one.head != "None"]
        optional = len(kinds) < len(TypeText.parse(value.type).alternatives)
        if not kinds or (optional and value.object is None and seed % _NONE_IN == _NONE_IN - 1):
            return None  # an object has no word for None
        payload = self._made(value, dice.choice(kinds), _Form(_dtype(value), shape), dice)
        if value.object == "RetrievalStore" and value.index is not None:
            key = _Form(value.index.dtype, tuple(map(self._small, value.index.shape)))
            return _tensor(key, dice), payload
        return payload

    def _shape(self, value: ValueSpec) -> tuple[int, ...] | None:
        size = value.size
        if value.object == "FixedState" and (size is None or size.shape is None):
            return (4,)  # its buffers have one shape
        if size is None:
            return None
        if size.shape is not None:
            shape = tuple(map(self._small, size.shape))
            if _count(shape) > _MOST_ELEMENTS:
                shape = tuple(min(extent, 8) for extent in shape)
            return shape
        if size.elements is not None and value.type.removesuffix(" | None") in _ONE_ARRAY:
            return (min(self._small(size.elements), 64),)
        return None

    def _small(self, text: str) -> int:
        return Expression.parse(text).evaluate(self.numbers)

    def _made(self, value: ValueSpec, kind: TypeText, form: _Form, dice: random.Random) -> Any:
        def part(inner: TypeText) -> Any:
            return self._made(value, inner, form, dice)

        def some(*kinds: TypeText) -> list[Any]:
            return [tuple(map(part, kinds)) for _ in range(dice.randint(0, 3))]

        if kind.head == "|":
            return part(dice.choice(kind.arguments))
        inner = kind.arguments
        if kind.head == "tuple" and inner and not kind.variadic:
            return tuple(map(part, inner))
        if kind.head in _CONTAINERS and inner:
            parts = some(*inner)
            if kind.head != "dict":
                parts = [one for (one,) in parts]
            if value.object == "FixedState" and kind.head == "dict":  # the same parts each time
                parts = [(name, part(inner[1])) for name in ("a", "b")]
            return _CONTAINERS[kind.head](parts)
        if kind.head in _CONTAINERS:
            return _CONTAINERS[kind.head]()
        if kind.head not in _LEAVES:
            raise NoPayloadError(
                f"value {value.name!r}: nobody but you can make a {value.type}; pass "
                f"strategies={{{value.name!r}: ...}}"
            )
        return _LEAVES[kind.head](form, dice)


def _dtype(value: ValueSpec) -> str:
    return value.dtype or "float32"


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _shape_for(form: _Form, dice: random.Random) -> tuple[int, ...]:
    return (dice.randint(1, 4),) if form.shape is None else form.shape


def _bytes_of(nbytes: int, dice: random.Random) -> torch.Tensor:
    return torch.frombuffer(bytearray(dice.randbytes(nbytes) or b"\0"), dtype=torch.uint8)[:nbytes]


def _tensor(form: _Form, dice: random.Random) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, form.dtype)
    shape = _shape_for(form, dice)
    bits = _bytes_of(_count(shape) * dtype.itemsize, dice)
    if dtype is torch.bool:
        return (bits % 2).bool().reshape(shape)
    return bits.view(dtype).reshape(shape)


def _array(form: _Form, dice: random.Random) -> Any:
    dtype = np.dtype(form.dtype)
    shape = _shape_for(form, dice)
    bits = np.frombuffer(dice.randbytes(_count(shape) * dtype.itemsize), np.uint8).copy()
    if dtype == np.bool_:
        return (bits % 2).astype(np.bool_).reshape(shape)
    return bits.view(dtype).reshape(shape)


_ONE_ARRAY = ("torch.Tensor", "np.ndarray")
_CONTAINERS: dict[str, Callable[..., Any]] = {
    "list": list, "dict": dict, "set": set, "deque": deque, "tuple": tuple,
}  # fmt: skip
_LEAVES: dict[str, Callable[[_Form, random.Random], Any]] = {
    "None": lambda form, dice: None,
    "bool": lambda form, dice: dice.random() < 0.5,
    "int": lambda form, dice: dice.choice((0, 1, 2, 7, -1, 2**40)),
    "float": lambda form, dice: dice.choice((0.0, -0.0, 1.5, float("inf"), float("nan"))),
    "str": lambda form, dice: dice.choice(("", "a", "ü", "a longer text")),
    "bytes": lambda form, dice: dice.randbytes(dice.randint(0, 8)),
    "torch.Tensor": _tensor,
    "np.ndarray": _array,
    "torch.Generator": lambda form, dice: torch.Generator().manual_seed(dice.randint(0, 99)),
}
