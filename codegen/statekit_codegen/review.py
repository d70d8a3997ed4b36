"""Review: the figures and facts that a reviewer of a schema looks at, as data.

Owns what is shown and every figure, computed with `statekit.declared`. Not here: layout
(`review_text`, `review_formats`).

    V1  `nbytes` counts one item of a buffer without a bound; `growth` says what comes on top.
    V2  A total leaves out what nobody can compute, and `unknown` names it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from statekit.declared import DeclaredBytes, declared_bytes, members
from statekit.errors import ExpressionError, GenerateError
from statekit.expressions import Expression
from statekit.spec import Bucket, ModelSpec, ValueSpec
from statekit_codegen.language import Value
from statekit_codegen.model import Model

__all__ = ["Bound", "Growth", "ResetRow", "Review", "Row", "Total", "review"]


@attrs.frozen
class Bound:
    """What a buffer keeps at most: `limit` of `unit`, which the schema writes as `text`."""

    limit: int
    unit: str
    text: str


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
    used = {name: number for name, number in overrides.items() if name in known}
    _check_parameters(model, used)
    rows = tuple(_row(model, value, used) for value in spec)
    return Review(
        model=model,
        sessions=sessions,
        numbers=spec.environment(used),
        overridden=tuple(name for name in known if name in used and used[name] != known[name]),
        rows=rows,
        totals=_totals(rows),
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


def _check_parameters(model: Model, used: Mapping[str, int]) -> None:
    for name, parameter in model.spec.parameters.items():
        number = used.get(name, parameter.default)
        least, most = parameter.minimum, parameter.maximum
        if (least is not None and number < least) or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"at most {most}"
            if least is not None and most is not None:
                bounds = f"from {least} to {most}"
            raise GenerateError(
                f"{model.file}: {name}", f"{number} is out of bounds", f"use {bounds}"
            )


def _row(model: Model, value: ValueSpec, used: Mapping[str, int]) -> Row:
    spec = model.spec
    try:
        declared = declared_bytes(spec, value, used)
        count = members(spec, value, spec.environment(used))
        bound = _bound(spec, value, used)
    except ExpressionError as error:
        raise GenerateError(f"{model.file}: {value.name}", error.found, error.todo) from error
    return Row(
        spec=value,
        words=model.schema.values[value.name],
        nbytes=None if declared is None else declared.steady,
        first_nbytes=None if declared is None else declared.first,
        pending_nbytes=0 if declared is None else declared.pending,
        members=count,
        bound=bound,
        growth=_growth(declared),
        cleared_by=spec.cleared_by(value.name),
    )


def _bound(spec: ModelSpec, value: ValueSpec, used: Mapping[str, int]) -> Bound | None:
    ring = value.ring
    if ring is None or ring.bound is None:
        return None
    limit = Expression.parse(ring.bound).evaluate(spec.environment(used))
    unit = "item" if ring.axis is None else "frame"
    return Bound(limit, unit if limit == 1 else f"{unit}s", ring.bound)


def _growth(declared: DeclaredBytes | None) -> Growth | None:
    if declared is None or not declared.growth:
        return None
    return Growth(declared.growth, declared.every_steps)


def _totals(rows: tuple[Row, ...]) -> tuple[Total, ...]:
    devices = dict.fromkeys(row.spec.device for row in rows if row.spec.device != "none")
    totals = [
        _total(device, tuple(row for row in rows if row.spec.device == device))
        for device in devices
    ]
    return (*totals, _total("all", rows)) if len(totals) > 1 else tuple(totals)


def _total(device: str, rows: tuple[Row, ...]) -> Total:
    growth: dict[int, int] = {}
    for row in rows:
        if row.growth is not None:
            every = row.growth.every_steps
            growth[every] = growth.get(every, 0) + row.growth.nbytes
    return Total(
        device=device,
        nbytes=sum(row.nbytes or 0 for row in rows),
        pending_nbytes=sum(row.pending_nbytes for row in rows),
        growth=tuple(Growth(nbytes, every) for every, nbytes in sorted(growth.items())),
    )
