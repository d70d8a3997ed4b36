"""Declared bytes: what a `ModelSpec` says that a session holds, computed exactly.

Owns the arithmetic of families, sharding and lifetimes over what one member has
(`statekit.amounts`). Never looks at a tensor; what is really held is `statekit.accounting`.

    D1  All figures are whole bytes, and those of one rank: of a value that is cut over a group,
        the largest part that any rank of the group has.
    D2  A value whose bytes nobody can compute is there all the same, with no figure.
    D3  What lives for a request only is counted as a second copy is: while a step runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import attrs

from statekit.amounts import DTYPE_NBYTES, Amounts, amounts_of
from statekit.errors import ExpressionError
from statekit.expressions import Expression
from statekit.spec import ModelSpec, Sharding, ValueSpec

__all__ = [
    "DTYPE_NBYTES",
    "ONE_RANK",
    "DeclaredBytes",
    "Ranks",
    "ValueBytes",
    "by_device",
    "declared_bytes",
    "measurable",
    "members",
    "session_at_step",
]


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

    @property
    def most(self) -> int:
        """The most that it has, with one item of what is unbounded; between two steps."""
        return max(self.first, self.steady)

    def at_step(self, step: int) -> int:
        """Bytes after `step` steps, the first one being step 1."""
        if step <= 1:
            return self.first
        return self.steady + self.growth * ((step - 1) // self.every_steps)


@attrs.frozen
class Ranks:
    """The ranks that a model runs on, and the one of them that figures are for.

    Attributes:
        groups: size of each parallel group (tp, sp, cfg, pp); one that is absent has 1.
        rank: the rank, counted from 0 over all groups.
    """

    groups: Mapping[str, int] = attrs.field(factory=dict)
    rank: int = 0

    @property
    def count(self) -> int:
        """How many ranks there are."""
        return math.prod(self.groups.values())

    def parts(self, sharding: Sharding | None) -> int:
        """Into how many parts a value is cut."""
        if sharding is None or sharding.over is None:
            return 1
        return self.groups.get(sharding.over, 1)

    def holds(self, sharding: Sharding | None) -> bool:
        """Whether the rank has any of a value; where there is only one rank, it has all."""
        kept = None if sharding is None else sharding.rank
        return kept is None or self.count == 1 or kept == self.rank


ONE_RANK = Ranks()
"""A model that runs on one rank, which holds everything whole."""


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
    model: ModelSpec,
    value: ValueSpec,
    overrides: Mapping[str, int] | None = None,
    ranks: Ranks = ONE_RANK,
) -> DeclaredBytes | None:
    """Bytes of `value` in one session on one rank, or None where the schema does not say enough.

    What is cut along a dimension is divided by the size of its group, rounded up to whole slices
    of that dimension where there is a shape. What is spread over a group without a dimension has
    its members dealt out; without families each rank has one of its own, whole.

    Args:
        overrides: numbers for symbols, constants or parameters in place of the schema's own.
        ranks: how many ranks share the session.

    Raises:
        ExpressionError: an expression of the schema has no value under these numbers, or one
            below 1; or a sink leaves no room in its window.
    """
    if value.device == "none":
        return DeclaredBytes(first=0, steady=0)
    values = model.environment(overrides)
    amounts = amounts_of(value, lambda text: _positive(text, values))
    _require_window(value, values)
    if amounts is None:
        return None
    if not ranks.holds(value.sharding):
        return DeclaredBytes(first=0, steady=0, every_steps=amounts.every_steps)
    count, part = _share(value, amounts, members(model, value, values), ranks)
    scale = amounts.unit_nbytes * count
    first, full = part(amounts.first) * scale, part(amounts.full) * scale
    if value.lifetime == "request":
        return DeclaredBytes(first=0, steady=0, pending=max(first, full))
    return DeclaredBytes(
        first,
        full,
        part(amounts.growth) * scale,
        amounts.every_steps,
        part(amounts.pending) * scale,
    )


def measurable(
    value: ValueSpec, declared: DeclaredBytes, at: Literal["first", "steady"] = "steady"
) -> int:
    """The bytes that a measurement of `value` finds where the schema is right; by D3 too."""
    if value.lifetime == "request":
        return declared.pending
    return declared.first if at == "first" else declared.steady


def _share(
    value: ValueSpec, amounts: Amounts, count: int, ranks: Ranks
) -> tuple[int, Callable[[int], int]]:
    """How many members the rank holds, and how much of an amount of each of them."""
    parts = ranks.parts(value.sharding)
    if parts == 1 or value.sharding is None:
        return count, lambda amount: amount
    dim, extents = value.sharding.dim, amounts.extents
    if dim is None:
        return -(-count // parts) if value.families else count, lambda amount: amount
    if value.ring is not None and value.ring.nbytes is not None:  # each rank has such a budget
        return count, lambda amount: amount
    if dim >= len(extents):
        return count, lambda amount: -(-amount // parts)
    if value.ring is not None and value.ring.axis == dim:  # the frames themselves are dealt out
        frame = amounts.frame
        return count, lambda amount: -(-amount // frame // parts) * frame
    largest = -(-extents[dim] // parts)
    return count, lambda amount: -(-amount * largest // extents[dim])


@attrs.frozen
class ValueBytes:
    """One value of a session at one moment.

    Attributes:
        value: what the schema says about it.
        device: where it lies, with the real device in place of `model` where that was given.
        declared: all its figures; None where nobody can compute them.
        nbytes: its bytes at that moment; None likewise.
    """

    value: ValueSpec
    device: str
    declared: DeclaredBytes | None
    nbytes: int | None

    @property
    def pending_nbytes(self) -> int:
        """Bytes beside these while a step runs."""
        return 0 if self.declared is None else self.declared.pending


def session_at_step(
    model: ModelSpec,
    step: int | None,
    overrides: Mapping[str, int] | None = None,
    *,
    model_device: str = "model",
    ranks: Ranks = ONE_RANK,
) -> tuple[ValueBytes, ...]:
    """Every value of one session after `step` steps, in the schema's order, between two steps.

    With None for a step, the most that a session is declared to hold, with one item of what is
    unbounded: that is what it is admitted with.

    Args:
        overrides: numbers in place of the schema's own.
        model_device: what stands for the device `model`.
        ranks: how many ranks share the session.

    Raises:
        ExpressionError: a size has no value under these numbers.
    """
    found = []
    for value in model:
        declared = declared_bytes(model, value, overrides, ranks)
        device = model_device if value.device == "model" else value.device
        nbytes = None
        if declared is not None:
            nbytes = declared.most if step is None else declared.at_step(step)
        found.append(ValueBytes(value, device, declared, nbytes))
    return tuple(found)


def by_device(
    values: Iterable[ValueBytes], figure: Callable[[ValueBytes], int | None] | None = None
) -> dict[str, int]:
    """The sum of the values' bytes by device, in the order in which devices first occur.

    Values without a figure are left out (`statekit vet` names them), and so are those that hold no
    memory.

    Args:
        figure: what is summed up, in place of `nbytes`.
    """
    totals: dict[str, int] = {}
    for one in values:
        nbytes = one.nbytes if figure is None else figure(one)
        if nbytes is not None and one.device != "none":
            totals[one.device] = totals.get(one.device, 0) + nbytes
    return totals


def _require_window(value: ValueSpec, values: Mapping[str, int]) -> None:
    """Refuse what a WindowedKV would refuse when it is made."""
    ring = value.ring
    if ring is None or ring.sink is None or ring.bound is None:
        return
    sink, bound = (Expression.parse(text).evaluate(values) for text in (ring.sink, ring.bound))
    if sink >= bound:
        found = f"a sink of {sink} in a bound of {bound}"
        raise ExpressionError(ring.sink, found, "the bound counts the sink, and must be above it")


def _positive(text: str, values: Mapping[str, int]) -> int:
    number = Expression.parse(text).evaluate(values)
    if number < 1:
        raise ExpressionError(text, f"the result is {number}", "sizes are 1 or more")
    return number
