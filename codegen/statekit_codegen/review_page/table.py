"""The table of decisions: a row for each value, with what changed of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from statekit_codegen.review import Review, Row
from statekit_codegen.review_change.comparison import Edit, ModelChange, ValueChange
from statekit_codegen.review_change.words import UNEXPLAINED, said
from statekit_codegen.review_words import (
    bound_words,
    bytes_words,
    device_words,
    facts,
    growth_words,
    object_words,
    one_line,
    sessions_words,
)

__all__ = ["Cell", "Column", "TableRow", "columns", "rows"]

_COLUMN_OF: Mapping[str, str] = {
    "bucket": "bucket",
    "object": "object",
    "type": "object",
    "dtype": "object",
    "size": "object",
    "keys": "object",
    "kept as": "object",
    "family": "object",
    "members": "object",
    "device": "device",
    "bytes": "session",
    "bytes after the first step": "session",
    "bytes while a step runs": "session",
    "bound": "bound",
    "grows by": "bound",
    "bytes on top": "bound",
    "cleared by": "cleared",
    "operations": "operations",
    "doc": "value",
}
"""Where an edit is shown; what is not here stands beside the reason."""

_LAST = "~"
"""Sorts behind every name and figure: what is unknown or empty."""


@attrs.frozen
class Column:
    """One column: `name` is its key in the script, `label` what is read above it."""

    name: str
    label: str
    figure: bool = False


@attrs.frozen
class Cell:
    """What stands in one cell.

    Attributes:
        column: the column.
        text: the main words.
        more: smaller words below them.
        sort: what the script sorts by.
        was: what the cell said on the other side, by the name of the edit.
    """

    column: Column
    text: str
    more: tuple[str, ...] = ()
    sort: str = ""
    was: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class TableRow:
    """One value: its cells, what became of it (empty if nothing did), and what to explain."""

    anchor: str
    name: str
    bucket: str
    device: str
    change: str
    warning: str
    cells: tuple[Cell, ...]


def columns(review: Review) -> tuple[Column, ...]:
    """The columns; the figures of several sessions are left out where there is only one."""
    found = [
        Column("value", "value"),
        Column("bucket", "bucket"),
        Column("object", "object, type"),
        Column("device", "device"),
        Column("session", "a session", figure=True),
        Column("sessions", sessions_words(review), figure=True),
        Column("bound", "bound"),
        Column("cleared", "cleared by"),
        Column("operations", "operations"),
        Column("why", "why"),
    ]
    return tuple(one for one in found if one.name != "sessions" or review.sessions > 1)


def rows(review: Review, change: ModelChange | None) -> tuple[TableRow, ...]:
    """A row for each value of today, in the schema's order."""
    changes = {} if change is None else {value.name: value for value in change.values}
    new = change is not None and change.kind == "added"
    found = []
    for row in review.rows:
        value = changes.get(row.spec.name)
        found.append(
            TableRow(
                anchor=f"{review.model.spec.model}-{row.spec.name}",
                name=row.spec.name,
                bucket=row.spec.bucket,
                device=device_words(row),
                change="" if value is None or new else value.kind,
                warning=UNEXPLAINED if value is not None and value.unexplained else "",
                cells=tuple(_cells(review, row, value)),
            )
        )
    return tuple(found)


def _cells(review: Review, row: Row, value: ValueChange | None) -> Iterator[Cell]:
    edits = () if value is None else value.edits
    for column in columns(review):
        text, more, sort = _said(review, row, column)
        yield Cell(column, text, tuple(filter(None, more)), sort, tuple(_was(edits, column)))


def _was(edits: tuple[Edit, ...], column: Column) -> Iterator[tuple[str, str]]:
    for edit in edits:
        if _COLUMN_OF.get(edit.name, "why") == column.name:
            yield edit.name, said(edit.was)


def _said(review: Review, row: Row, column: Column) -> tuple[str, tuple[str, ...], str]:
    """The words of one cell, the smaller ones below them, and what it is sorted by."""
    spec = row.spec
    name = column.name
    if name in ("session", "sessions"):
        number = 1 if name == "session" else review.sessions
        nbytes = None if row.nbytes is None else row.nbytes * number
        return bytes_words(nbytes), (), _LAST if nbytes is None else str(nbytes)
    if name == "object":
        size = spec.dtype or ""
        return object_words(row) or "carried", (spec.type, size), object_words(row) or _LAST
    if name == "bound":
        growth = "" if row.growth is None else growth_words(row.growth)
        return bound_words(row), (growth,), bound_words(row)
    texts = {
        "value": (spec.name, one_line(row.words.doc or "")),
        "bucket": (spec.bucket, ""),
        "device": (device_words(row), ""),
        "cleared": (", ".join(row.cleared_by) or "nothing", ""),
        "operations": (", ".join(spec.operations) or "none", ""),
        "why": (row.why or "no decision is recorded", facts(review, row)),
    }
    text, more = texts[name]
    empty = {"cleared": not row.cleared_by, "operations": not spec.operations}.get(name, False)
    return text, (more,), _LAST if empty else text.lower()
