"""A change as JSON for programs, and as annotations of GitHub.

The document is an interface: fields are added, none is renamed or removed without a new `schema`
id. Sizes are whole bytes, in fields whose names say `nbytes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs

from statekit_codegen.annotation import annotation
from statekit_codegen.review import Row
from statekit_codegen.review_change.comparison import (
    ModelChange,
    TotalChange,
    ValueChange,
    unexplained,
)
from statekit_codegen.review_change.words import (
    UNEXPLAINED,
    cut,
    effect,
    kind_words,
    row_words,
    said,
)

__all__ = ["FIELDS", "JSON_SCHEMA", "to_annotations", "to_json"]

JSON_SCHEMA = "statekit.review-change/1"
_MAX_CHARS = 200
"""Of one side of an edit in an annotation."""

FIELDS: Mapping[str, Mapping[str, str]] = {
    "document": {
        "schema": f"`{JSON_SCHEMA}`; another id if a field is renamed or removed",
        "against": "the name of the other side",
        "sessions": "the number that `sessions_nbytes` of a total is for",
        "unexplained": "values that moved without a changed reason, as `model.value`",
        "models": "list of models: those of today, then those that are gone",
    },
    "model": {
        "model": "its name",
        "file": "the schema today, relative to the project; of a model that is gone, what it was",
        "change": "`added`, `removed`, `changed` or `same`",
        "edits": "list of edits beside the values: numbers, resets, groups, words",
        "values": "list of values that changed: moved, added, removed, changed ones",
        "totals": "list of totals: by device, and `all` where there are several devices",
        "unknown": "values whose bytes nobody can compute; totals leave them out",
    },
    "value": {
        "name": "its name",
        "change": "`moved`, `added`, `removed` or `changed`",
        "was_bucket": "the bucket on the other side; null of one that is new",
        "now_bucket": "the bucket today; null of one that is gone",
        "was_nbytes": "bytes in one session on the other side; null where unknown or new",
        "now_nbytes": "the same today; null where unknown or gone",
        "difference_nbytes": "bytes that come with the change; null where nobody can compute them",
        "unexplained": "whether it moved without a changed reason",
        "edits": "list of edits; empty of a value that is new or gone",
        "line": "where it is, or was, in the schema today, from 1",
        "column": "the same",
    },
    "edit": {
        "name": "what is said otherwise, such as `device`",
        "was": "what was said; empty where nothing was",
        "now": "what is said; empty where nothing is",
        "line": "where that is seen in the schema today, from 1",
        "column": "the same",
    },
    "total": {
        "device": "the device, or `all`",
        "was": "`nbytes`, `sessions_nbytes`, `pending_nbytes` and `growth` on the other side",
        "now": "the same today",
        "difference_nbytes": "bytes that one session has more today",
        "sessions_difference_nbytes": "bytes that so many sessions have more",
    },
}
"""Every field of the document with its meaning; `docs/cli.md` shows them."""


def to_json(changes: Sequence[ModelChange], against: str, sessions: int) -> str:
    """The changes as one JSON document."""
    document = {
        "schema": JSON_SCHEMA,
        "against": against,
        "sessions": sessions,
        "unexplained": list(unexplained(changes)),
        "models": [_model(change, sessions) for change in changes],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _model(change: ModelChange, sessions: int) -> dict[str, Any]:
    return {
        "model": change.model,
        "file": change.file,
        "change": change.kind,
        "edits": [attrs.asdict(edit) for edit in change.edits],
        "values": [_value(value) for value in change.values],
        "totals": [_total(total, sessions) for total in change.totals],
        "unknown": list(change.unknown),
    }


def _value(value: ValueChange) -> dict[str, Any]:
    was, now = value.was, value.now
    return {
        "name": value.name,
        "change": value.kind,
        "was_bucket": None if was is None else was.spec.bucket,
        "now_bucket": None if now is None else now.spec.bucket,
        "was_nbytes": None if was is None else was.nbytes,
        "now_nbytes": None if now is None else now.nbytes,
        "difference_nbytes": value.difference_nbytes,
        "unexplained": value.unexplained,
        "edits": [attrs.asdict(edit) for edit in value.edits],
        "line": value.line,
        "column": value.column,
    }


def _total(total: TotalChange, sessions: int) -> dict[str, Any]:
    def side(nbytes: int, pending: int, growth: Sequence[Any]) -> dict[str, Any]:
        return {
            "nbytes": nbytes,
            "sessions_nbytes": nbytes * sessions,
            "pending_nbytes": pending,
            "growth": [attrs.asdict(one) for one in growth],
        }

    return {
        "device": total.device,
        "was": side(total.was.nbytes, total.was.pending_nbytes, total.was.growth),
        "now": side(total.now.nbytes, total.now.pending_nbytes, total.now.growth),
        "difference_nbytes": total.difference_nbytes,
        "sessions_difference_nbytes": total.difference_nbytes * sessions,
    }


def to_annotations(changes: Sequence[ModelChange]) -> Iterator[str]:
    """One annotation for each value that changed, and one for what else did of a model."""
    for change in changes:
        if change.kind in ("added", "removed"):
            values = f"{len(change.values)} value{'' if len(change.values) == 1 else 's'}"
            message = f"{values}; {effect(change)}"
            title = f"model {change.model} {change.kind}"
            yield annotation("notice", change.file, 1, 1, title, message)
            continue
        for value in change.values:
            level: Literal["error", "notice"] = "error" if value.unexplained else "notice"
            title = f"{value.name}: {kind_words(value)}"
            place = (change.file, value.line, value.column)
            yield annotation(level, *place, title, _message(value))
        if change.edits:
            first = change.edits[0]
            message = "; ".join(f"{e.name}: {_side(e.was)} -> {_side(e.now)}" for e in change.edits)
            place = (change.file, first.line, first.column)
            yield annotation("notice", *place, f"model {change.model}: changed", message)


def _message(value: ValueChange) -> str:
    parts = [UNEXPLAINED] if value.unexplained else []
    parts += [f"{edit.name}: {_side(edit.was)} -> {_side(edit.now)}" for edit in value.edits]
    row: Row | None = value.now or value.was
    if not value.edits and row is not None:
        parts += [row_words(row), cut(row.why, _MAX_CHARS) or "no decision is recorded"]
    return "; ".join(parts)


def _side(text: str) -> str:
    return cut(said(text), _MAX_CHARS)
