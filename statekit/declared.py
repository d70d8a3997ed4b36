"""Declared bytes: what a `ModelSpec` says that a session holds, computed exactly.

Owns the arithmetic from shapes, dtypes, bounds and growth to bytes. Never looks at a tensor;
what is really held is `statekit.accounting`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from statekit.errors import ExpressionError
from statekit.expressions import Expression
from statekit.spec import ModelSpec, ValueSpec

__all__ = ["DTYPE_NBYTES", "DeclaredBytes", "declared_bytes", "members", "session_bytes"]

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


@attrs.frozen
class DeclaredBytes:
    """Bytes of one value in one session.

    `first` holds after the first step, `steady` from the second on. What is unbounded gains
    `growth` more bytes every `every_steps` steps (`steady` is then one item). `pending` exists
    beside it only while a step runs.
    """

    first: int
    steady: int
    growth: int = 0
    every_steps: int = 1
    pending: int = 0

    def at_step(self, step: int) -> int:
        """Bytes after `step` steps, the first one being step 1."""
        if step <= 1:
            return self.first
        return self.steady + self.growth * ((step - 1) // self.every_steps)


def members(model: ModelSpec, value: ValueSpec, values: Mapping[str, int]) -> int:
    """How many times `value` exists in one session: the product over its families."""
    count = 1
    for name in value.families:
        family = model.families[name]
        if family.count is None:
            count *= len(family.members)
        else:
            count *= _positive(family.count, values)
    return count


def declared_bytes(
    model: ModelSpec, value: ValueSpec, overrides: Mapping[str, int] | None = None
) -> DeclaredBytes | None:
    """Bytes of `value` in one session, or None where the schema does not say enough.

    Args:
        overrides: numbers for symbols, constants or parameters in place of the schema's own.

    Raises:
        ExpressionError: an expression of the schema has no value under these numbers, or one
            below 1.
    """
    if value.device == "none":
        return DeclaredBytes(first=0, steady=0)
    size = value.size
    if size is None or value.dtype is None:
        return None
    values = model.environment(overrides)

    def evaluate(text: str) -> int:
        return _positive(text, values)

    scale = DTYPE_NBYTES[value.dtype] * members(model, value, values)
    extents = [evaluate(extent) for extent in size.shape or (size.elements or "1",)]
    item = math.prod(extents)
    first = item if size.first is None else evaluate(size.first)
    ring = value.ring
    full, growth, every_steps = item, 0, 1
    if ring is not None and ring.bound is None:
        growth, every_steps = evaluate(ring.growth.items) * item, ring.growth.every_steps
    elif ring is not None and ring.bound is not None:
        bound = evaluate(ring.bound)
        full = bound * item if ring.axis is None else item // extents[ring.axis] * bound
        first = min(first, full)
    pending = 0
    if value.pending is not None:
        pending = evaluate(value.pending.elements) if value.pending.elements else full
    return DeclaredBytes(first * scale, full * scale, growth * scale, every_steps, pending * scale)


def session_bytes(
    model: ModelSpec, overrides: Mapping[str, int] | None = None, *, step: int | None = None
) -> dict[str, int]:
    """Declared bytes of one session by device; unbounded values as of `step`, else one item.

    Values whose bytes nobody can compute are left out; `statekit vet` names them.
    """
    totals: dict[str, int] = {}
    for value in model:
        declared = declared_bytes(model, value, overrides)
        if declared is not None and value.device != "none":
            nbytes = declared.steady if step is None else declared.at_step(step)
            totals[value.device] = totals.get(value.device, 0) + nbytes
    return totals


def _positive(text: str, values: Mapping[str, int]) -> int:
    number = Expression.parse(text).evaluate(values)
    if number < 1:
        raise ExpressionError(text, f"the result is {number}", "sizes are 1 or more")
    return number
