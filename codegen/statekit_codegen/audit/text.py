"""Text: an audit as lines for a person, a document for a program, annotations for a review."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from statekit_codegen.annotation import annotation
from statekit_codegen.audit.difference import Difference, Report
from statekit_codegen.scaffold.words import series

__all__ = ["JSON_SCHEMA", "as_annotations", "as_json", "as_text"]

JSON_SCHEMA = "statekit.audit/1"


def as_text(report: Report, name: str, model: str) -> Iterator[str]:
    """One line for each difference, those to know below, a summary at the end."""
    for difference in report.differences:
        yield str(difference)
    for note in report.notes:
        yield f"note: {note}"
    yield _summary(report, name, model)


def as_json(report: Report, name: str, model: str) -> str:
    """The same as one JSON document."""
    return json.dumps(
        {
            "schema": JSON_SCHEMA,
            "class": name,
            "model": model,
            "compared": {"values": report.values, "resets": report.resets},
            "ignored": list(report.ignored),
            "differences": [_record(one) for one in report.differences],
            "notes": [_record(one) for one in report.notes],
        },
        indent=2,
    )


def as_annotations(report: Report) -> Iterator[str]:
    """Workflow commands of GitHub, beside the lines of the class."""
    for one in report.differences:
        yield _annotation("error", one)
    for one in report.notes:
        yield _annotation("notice", one)


def _annotation(level: Any, one: Difference) -> str:
    where = "" if one.schema == one.place else f" ({one.schema})"
    message = f"{one.name}: {one.found}; {one.todo}{where}"
    return annotation(level, one.place.file, one.place.line, one.place.column, one.rule, message)


def _record(one: Difference) -> dict[str, object]:
    return {
        "rule": one.rule,
        "name": one.name,
        "file": one.place.file,
        "line": one.place.line,
        "column": one.place.column,
        "schema_file": one.schema.file,
        "schema_line": one.schema.line,
        "schema_column": one.schema.column,
        "found": one.found,
        "todo": one.todo,
    }


def _summary(report: Report, name: str, model: str) -> str:
    compared = [_count(report.values, "value"), _count(report.resets, "reset")]
    text = f"{name} and {model}: {series(compared)} compared"
    if report.ignored:
        text += f", {series(report.ignored)} ignored"
    found = len(report.differences)
    return f"{text}; {_count(found, 'difference') if found else 'no differences'}"


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"
