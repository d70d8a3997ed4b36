"""Sizes: the numbers behind the sizes and bounds of two specs, for one session or for all.

Owns which numbers are tried. A session was built with certain parameters; where it is not known
with which, those at the ends of their ranges are tried beside the defaults.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from statekit.errors import ExpressionError
from statekit.expressions import Expression
from statekit.spec import ModelSpec, Ring, Size, ValueSpec

__all__ = [
    "Numbers",
    "SizePair",
    "count_text",
    "evaluated",
    "given_numbers",
    "ring_bound",
    "ring_sink",
    "ring_text",
    "ring_unit",
    "same_size",
]

Numbers = tuple[Mapping[str, int], Mapping[str, int]]
"""What the expressions of the old side may name, and those of the new side."""


def given_numbers(
    old: ModelSpec, new: ModelSpec, parameters: Mapping[str, int] | None
) -> tuple[Numbers, ...]:
    """The numbers of both sides: of the session built with `parameters`, or of any session."""
    if parameters is not None:
        return (_numbers(old, new, parameters),)
    found = [_numbers(old, new, {})]
    for name, one in old.parameters.items():
        least = 1 if one.minimum is None else one.minimum
        most = one.default + 1 if one.maximum is None else one.maximum
        found += [_numbers(old, new, {name: number}) for number in (least, most)]
    return tuple(found)


def _numbers(old: ModelSpec, new: ModelSpec, given: Mapping[str, int]) -> Numbers:
    # A session goes on with the numbers that it began with, whatever the schema says now.
    before, today = old.environment(given), new.environment()
    kept = {name: before[name] for name in (*old.parameters, *given) if name in today}
    return before, {**today, **kept}


def evaluated(text: str, numbers: Mapping[str, int]) -> int | str:
    """The value of an expression; the expression itself where it has none."""
    try:
        return Expression.parse(text).evaluate(numbers)
    except ExpressionError:
        return text


def count_text(text: str, value: int | str) -> str:
    """A number, with the expression that it is the value of."""
    return text if text == str(value) else f"{value} ({text})"


def ring_bound(ring: Ring, numbers: Mapping[str, int]) -> int | str | None:
    """The bound of a ring, in items, frames or bytes; None where it has none."""
    text = ring.bound if ring.nbytes is None else ring.nbytes
    return None if text is None else evaluated(text, numbers)


def ring_sink(ring: Ring, numbers: Mapping[str, int]) -> int | str:
    """How many of the first frames of a ring stay for good."""
    return 0 if ring.sink is None else evaluated(ring.sink, numbers)


def ring_unit(ring: Ring) -> str:
    """What the bound of a ring counts."""
    if ring.nbytes is not None:
        return "bytes"
    return "items" if ring.axis is None else f"frames along axis {ring.axis}"


def ring_text(ring: Ring, numbers: Mapping[str, int]) -> str:
    """What a ring keeps, in words."""
    text, bound = ring.bound or ring.nbytes, ring_bound(ring, numbers)
    if text is None or bound is None:
        return "no bound"
    kept = f"{count_text(text, bound)} {ring_unit(ring)}"
    if ring.sink is None:
        return kept
    return f"{kept}, {count_text(ring.sink, ring_sink(ring, numbers))} of them the first"


@attrs.frozen
class SizePair:
    """The sizes of both sides in words, and whether what has the one is read as the other."""

    was: str
    now: str
    fits: bool


def same_size(
    old: ValueSpec, new: ValueSpec, was: Mapping[str, int], now: Mapping[str, int]
) -> SizePair:
    """The sizes of `old` under the numbers `was`, and of `new` under `now`."""
    return SizePair(_size_text(old, was), _size_text(new, now), _fits(old, new, was, now))


def _fits(old: ValueSpec, new: ValueSpec, was: Mapping[str, int], now: Mapping[str, int]) -> bool:
    if old.size is None or new.size is None:
        return True  # one of the two is not stated
    if old.size.shape is None or new.size.shape is None:
        return _counts(old.size, was) <= _counts(new.size, now)
    before, after = _extents(old.size, was), _extents(new.size, now)
    return len(before) == len(after) and all(
        one == other
        for axis, (one, other) in enumerate(zip(before, after, strict=True))
        if axis != _free_axis(old, new)
    )


def _free_axis(old: ValueSpec, new: ValueSpec) -> int | None:
    """The axis along which pieces of a buffer may have any number of frames."""
    axes = {one.ring.axis if one.ring is not None else None for one in (old, new)}
    return axes.pop() if len(axes) == 1 else None


def _extents(size: Size, numbers: Mapping[str, int]) -> tuple[int | str, ...]:
    return tuple(evaluated(extent, numbers) for extent in size.shape or ())


def _counts(size: Size, numbers: Mapping[str, int]) -> frozenset[int | str]:
    """The numbers of elements that a value can have: after the first step, and later."""
    if size.shape is None:
        texts = (size.elements, size.first)
        return frozenset(evaluated(text, numbers) for text in texts if text is not None)
    extents = _extents(size, numbers)
    whole = [extent for extent in extents if isinstance(extent, int)]
    return frozenset([math.prod(whole) if len(whole) == len(extents) else str(extents)])


def _size_text(value: ValueSpec, numbers: Mapping[str, int]) -> str:
    size = value.size
    if size is None:
        return ""
    if size.shape is not None:
        return f"[{', '.join(map(str, _extents(size, numbers)))}]"
    steady = f"{evaluated(size.elements or '', numbers)} elements"
    first = "" if size.first is None else f", {evaluated(size.first, numbers)} after the first step"
    return steady + first
