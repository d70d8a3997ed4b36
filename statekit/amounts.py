"""Amounts: how much of one value there is, out of its shape, its bound and its growth.

Owns the arithmetic for one member of a value that lies whole on one rank; families and ranks are
`statekit.declared`. Figures are in elements, of `unit_nbytes` bytes each; those of a
RetrievalStore, whose entries are keys and values, are in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import attrs

from statekit.spec import Ring, Size, ValueSpec

__all__ = ["DTYPE_NBYTES", "Amounts", "amounts_of"]

DTYPE_NBYTES: Mapping[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "uint16": 2,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "uint32": 4,
    "int32": 4,
    "float32": 4,
    "uint64": 8,
    "int64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of one element, by the names that torch and numpy share."""

Evaluate = Callable[[str], int]
"""The value of a size expression, 1 or more."""


@attrs.frozen
class Amounts:
    """How much of a value there is.

    Attributes:
        first: after the first step.
        full: from the second step on; of what is unbounded what it has after the first, to which
            `growth` is added every `every_steps` steps.
        growth: of what is unbounded.
        pending: the second copy that a step needs.
        unit_nbytes: bytes of one of what is counted.
        extents: the shape of one item; empty where nobody knows one.
        frame: how much of it lies at one place of the ring's axis.
    """

    first: int
    full: int
    growth: int = 0
    every_steps: int = 1
    pending: int = 0
    unit_nbytes: int = 1
    extents: tuple[int, ...] = ()
    frame: int = 1


def amounts_of(value: ValueSpec, evaluate: Evaluate) -> Amounts | None:
    """The amounts of one member of `value`; None where the schema does not say enough.

    Raises: what `evaluate` raises.
    """
    if value.object == "RetrievalStore":
        return _entries(value, evaluate)
    size = value.size
    if size is None or value.dtype is None:
        return None
    extents = tuple(evaluate(extent) for extent in size.shape or ())
    tensors = 2 if value.object == "WindowedKV" and value.type.startswith("tuple") else 1
    item = math.prod(extents) * tensors if extents else evaluate(size.elements or "1")
    ring, frame = value.ring, item
    full, growth, every_steps = item, 0, 1
    if ring is not None and ring.bound is None:
        growth, every_steps = evaluate(ring.growth.items) * item, ring.growth.every_steps
        full = evaluate(ring.growth.first) * item
    elif ring is not None and ring.bound is not None:
        if ring.axis is not None and extents:
            frame = item // extents[ring.axis]
        full = frame * evaluate(ring.bound)
    # Nobody says how many frames a window without a shape gets at once: as many as it keeps.
    unsaid = value.object == "WindowedKV" and not extents
    at_first = full if unsaid or (ring is not None and ring.bound is None) else item
    first = at_first if size.first is None else evaluate(size.first)
    if ring is not None and ring.bounded:
        first = min(first, full)
    return Amounts(
        first,
        full,
        growth,
        every_steps,
        _pending(value, full, evaluate),
        DTYPE_NBYTES[value.dtype],
        extents,
        frame,
    )


def _pending(value: ValueSpec, full: int, evaluate: Evaluate) -> int:
    if value.pending is None:
        return 0
    return evaluate(value.pending.elements) if value.pending.elements else full


def _entries(value: ValueSpec, evaluate: Evaluate) -> Amounts | None:
    """In bytes: of entries that are a key and a value each, in the form that they are kept in."""
    ring = value.ring or Ring()
    cap = None if ring.nbytes is None else evaluate(ring.nbytes)
    kept_as = value.dtype if value.codec is None else value.codec.cast
    size, index = value.size, value.index
    if size is None or kept_as is None or index is None:
        return None if cap is None else Amounts(cap, cap)
    unit = DTYPE_NBYTES[kept_as]
    key = math.prod(evaluate(extent) for extent in index.shape) * DTYPE_NBYTES[index.dtype]
    entry = _elements(size, evaluate) * unit + key
    growth, every_steps, first = 0, 1, entry
    if cap is not None:
        full = cap // entry * entry  # whole entries
    elif ring.bound is not None:
        full = entry * evaluate(ring.bound)
    else:
        full = first = entry * evaluate(ring.growth.first)
        growth, every_steps = entry * evaluate(ring.growth.items), ring.growth.every_steps
    if size.first is not None:
        first = evaluate(size.first) * unit + key
    pending = full if value.pending is not None else 0
    if value.pending is not None and value.pending.elements is not None:
        pending = evaluate(value.pending.elements) * unit
    return Amounts(min(first, full), full, growth, every_steps, pending)


def _elements(size: Size, evaluate: Evaluate) -> int:
    if size.shape is not None:
        return math.prod(evaluate(extent) for extent in size.shape)
    return evaluate(size.elements or "1")
