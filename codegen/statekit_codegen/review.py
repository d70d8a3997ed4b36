"""Review: the figures and facts that a reviewer of a schema looks at, as data.

Owns what is shown and every figure, computed with `statekit.declared`. Not here: layout
(`review_text`, `review_formats`).

    V1  `nbytes` counts one item of a buffer without a bound; `growth` says what comes on top.
    V2  A total leaves out what nobody can compute, and `unknown` names it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from statekit.declared import DeclaredBytes, ValueBytes, by_device, members
from statekit.errors import ExpressionError, GenerateError
from statekit.expressions import Expression
from statekit.spec import Bucket, ModelSpec, ValueSpec
from statekit_codegen.language import Value
from statekit_codegen.model import Model
from statekit_codegen.session import chosen_numbers, declared_session

__all__ = ["Bound", "Growth", "ResetRow", "Review", "Row", "Total", "review"]


@attrs.frozen
class Bound:
    """What a buffer keeps at most: `limit` of `unit`, which the schema writes as `text`.

    The first `sink` of them stay for good; None for a buffer that keeps none so.
    """

    limit: int
    unit: str
    text: str
    sink: int | None = None


@attrs.frozen
class Growth:
    """Bytes that come on top every so many steps."""

    nbytes: int
    every_steps: int


@attrs.frozen
class Row:
    """One value.

    Attributes:
        spec: what the schema says, as data.
        words: what it says in words.
        nbytes: bytes in one session, in the steady state; None where nobody can compute them.
        first_nbytes: the same after the first step.
        pending_nbytes: bytes beside these while a step runs.
        members: how many times the value exists in one session.
        bound: what a buffer keeps at most; None for other values and where there is no bound.
        growth: of a buffer without a bound.
        cleared_by: the resets that clear it.
    """

    spec: ValueSpec
    words: Value
    nbytes: int | None
    first_nbytes: int | None
    pending_nbytes: int
    members: int
    bound: Bound | None
    growth: Growth | None
    cleared_by: tuple[str, ...]

    @property
    def why(self) -> str:
        """The recorded reason; empty where there is none."""
        return " ".join(((self.words.decision and self.words.decision.why) or "").split())


@attrs.frozen
class Total:
    """Declared bytes of one session on one device, by V1 and V2."""

    device: str
    nbytes: int
    pending_nbytes: int
    growth: tuple[Growth, ...]


@attrs.frozen
class ResetRow:
    """One reset: when it happens, what it clears and keeps."""

    name: str
    doc: str
    clears: tuple[str, ...]
    keeps: tuple[str, ...]


@attrs.frozen
class Review:
    """One model.

    Attributes:
        model: the model under review.
        sessions: how many sessions the second column of figures is for.
        numbers: symbols, constants and parameters as used here.
        overridden: names of the numbers that are not the schema's own.
        rows: the values, in the schema's order.
        totals: by device, and for all devices under the name `all`, where there are several.
        unknown: values whose bytes nobody can compute.
        resets: in the schema's order.
    """

    model: Model
    sessions: int
    numbers: Mapping[str, int]
    overridden: tuple[str, ...]
    rows: tuple[Row, ...]
    totals: tuple[Total, ...]
    unknown: tuple[str, ...]
    resets: tuple[ResetRow, ...]

    def bucket(self, name: Bucket) -> tuple[Row, ...]:
        """The rows of one bucket."""
        return tuple(row for row in self.rows if row.spec.bucket == name)


def review(model: Model, overrides: Mapping[str, int], sessions: int) -> Review:
    """The review of `model`, with `overrides` in place of the schema's own numbers.

    Names in `overrides` that the model does not have are left alone.

    Raises:
        GenerateError: a parameter is out of its bounds, or a size has no value under the numbers.
    """
    spec = model.spec
    known = spec.environment()
    used = chosen_numbers(spec, model.file, overrides)
    held = declared_session(spec, model.file, used, None)
    rows = tuple(_row(model, one, used) for one in held)
    return Review(
        model=model,
        sessions=sessions,
        numbers=spec.environment(used),
        overridden=tuple(name for name in known if name in used and used[name] != known[name]),
        rows=rows,
        totals=_totals(held, rows),
        unknown=tuple(row.spec.name for row in rows if row.nbytes is None),
        resets=tuple(
            ResetRow(
                name=name,
                doc=model.schema.resets[name].doc or "",
                clears=cleared,
                keeps=tuple(value.name for value in spec if value.name not in cleared),
            )
            for name, cleared in spec.resets.items()
        ),
    )


def _row(model: Model, held: ValueBytes, used: Mapping[str, int]) -> Row:
    spec, value, declared = model.spec, held.value, held.declared
    try:  # of a value whose bytes nobody can compute, nobody has looked at these yet
        count = members(spec, value, spec.environment(used))
        bound = _bound(spec, value, used)
    except ExpressionError as error:
        raise GenerateError(f"{model.file}: {value.name}", error.found, error.todo) from error
    return Row(
        spec=value,
        words=model.schema.values[value.name],
        nbytes=None if declared is None else declared.steady,
        first_nbytes=None if declared is None else declared.first,
        pending_nbytes=held.pending_nbytes,
        members=count,
        bound=bound,
        growth=_growth(declared),
        cleared_by=spec.cleared_by(value.name),
    )


def _bound(spec: ModelSpec, value: ValueSpec, used: Mapping[str, int]) -> Bound | None:
    ring = value.ring
    text = None if ring is None else ring.bound or ring.nbytes
    if ring is None or text is None:
        return None
    numbers = spec.environment(used)
    limit = Expression.parse(text).evaluate(numbers)
    if ring.nbytes is not None:
        return Bound(limit, "bytes", text)
    sink = None if ring.sink is None else Expression.parse(ring.sink).evaluate(numbers)
    unit = "item" if ring.axis is None else "frame"
    return Bound(limit, unit if limit == 1 else f"{unit}s", text, sink)


def _growth(declared: DeclaredBytes | None) -> Growth | None:
    if declared is None or not declared.growth:
        return None
    return Growth(declared.growth, declared.every_steps)


def _totals(held: tuple[ValueBytes, ...], rows: tuple[Row, ...]) -> tuple[Total, ...]:
    """By device, by V1 and V2."""
    nbytes = by_device(held, lambda one: None if one.declared is None else one.declared.steady)
    pending = by_device(held, lambda one: one.pending_nbytes)
    totals = [
        Total(device, nbytes.get(device, 0), pending[device], _growths(rows, device))
        for device in pending
    ]
    if len(totals) < 2:
        return tuple(totals)
    everything = Total("all", sum(nbytes.values()), sum(pending.values()), _growths(rows, None))
    return (*totals, everything)


def _growths(rows: tuple[Row, ...], device: str | None) -> tuple[Growth, ...]:
    """The growth on one device, or on all of them, one figure for each number of steps."""
    growth: dict[int, int] = {}
    for row in rows:
        if row.growth is not None and device in (None, row.spec.device):
            every = row.growth.every_steps
            growth[every] = growth.get(every, 0) + row.growth.nbytes
    return tuple(Growth(nbytes, every) for every, nbytes in sorted(growth.items()))
