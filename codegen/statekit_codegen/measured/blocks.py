"""Blocks: the `measured` blocks that a run gives, and those that it does not, with the reason.

Owns the choice. A block belongs beside a schema's own numbers, since that is what `statekit vet`
holds it to, so a figure is written

    K1  only where it was measured with the numbers that the schema has itself,
    K2  and only where it agrees with what is declared: else the declaration is mended first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs

from statekit.declared import DeclaredBytes, declared_bytes, measurable
from statekit.expressions import Expression
from statekit.spec import Measured, ModelSpec, ValueSpec
from statekit_codegen.measured.report import ModelReport, Report, Row
from statekit_codegen.review_words import one_line
from statekit_codegen.units import format_nbytes

__all__ = ["Blocks", "blocks_of"]


@attrs.frozen
class Blocks:
    """What is to be written for one model.

    Attributes:
        entries: by value; a value is here only if there is something to write.
        kept_out: values of which nothing is written, and why.
    """

    model: str
    entries: dict[str, list[Measured]]
    kept_out: dict[str, str]


def blocks_of(report: Report, hardware: str | None) -> list[Blocks]:
    """The blocks for each model of `report`; `hardware` in place of what was detected."""
    place = one_line(hardware or report.recording.hardware)
    found = []
    for model in report.models:
        blocks = Blocks(model.model, {}, {})
        for row in model.rows:
            _choose(model, row, place, report.recording.date, blocks)
        if model.model:
            found.append(blocks)
    return found


def _choose(model: ModelReport, row: Row, hardware: str, date: str, blocks: Blocks) -> None:
    value, measured, session = row.spec, row.measured, row.session
    if value is None or value.device == "none" or measured is None or not measured.peak_nbytes:
        return
    others = sorted(_other_numbers(model, row))
    if others:
        blocks.kept_out[row.name] = f"measured with {', '.join(others)}, not the schema's"
        return
    declared = declared_bytes(model.spec, value)
    if declared is None or session is None:
        blocks.kept_out[row.name] = "the schema declares no figure"
        return
    steady = _agreed(value, declared, measured.peak_nbytes, "steady")
    if not steady:
        figures = f"{format_nbytes(measured.peak_nbytes)}, {format_nbytes(declared.most)} declared"
        blocks.kept_out[row.name] = figures
        return
    entries = []
    first = measured.first_nbytes
    differs = declared.first != declared.steady and not declared.growth
    if differs and first and _agreed(value, declared, first, "first"):
        entries.append(Measured(first, hardware, date, "first"))
    entries.append(Measured(measured.peak_nbytes, hardware, date))
    blocks.entries[row.name] = entries


def _agreed(
    value: ValueSpec, declared: DeclaredBytes, nbytes: int, at: Literal["first", "steady"]
) -> bool:
    """Whether a measured figure is what `statekit vet` expects."""
    expected = measurable(value, declared, at)
    if value.sharding is not None and value.sharding.over is not None:
        return expected % nbytes == 0
    if at == "steady" and declared.growth and nbytes > expected:
        return (nbytes - expected) % declared.growth == 0
    return nbytes == expected


def _other_numbers(model: ModelReport, row: Row) -> Iterator[str]:
    """Numbers of the value's size that are not the schema's own, in the session of its peak."""
    assert row.spec is not None
    own = model.spec.environment()
    used = {number.name: number.number for number in model.numbers}
    for name in {name for text in _texts(model.spec, row.spec) for name in _names(text)}:
        if used.get(name) != own.get(name):
            yield f"{name}={used.get(name)}"


def _texts(spec: ModelSpec, value: ValueSpec) -> Iterator[str]:
    size, ring = value.size, value.ring
    if size is not None:
        yield from size.shape or ()
        yield from filter(None, (size.elements, size.first))
    if ring is not None:
        yield from filter(None, (ring.bound, ring.nbytes))
    if value.index is not None:
        yield from value.index.shape
    for family in value.families:
        yield spec.families[family].count or "1"


def _names(text: str) -> frozenset[str]:
    return Expression.parse(text).names
