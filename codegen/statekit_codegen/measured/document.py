"""Document: the report on a run for a program."""

from __future__ import annotations

import json
from typing import Any

import attrs

from statekit.measure.finding import Finding
from statekit_codegen.measured.report import ModelReport, Report, Row

__all__ = ["JSON_SCHEMA", "to_json"]

JSON_SCHEMA = "statekit.measure/1"


def to_json(report: Report) -> str:
    """The report as JSON; all bytes are whole numbers."""
    recording = report.recording
    return json.dumps(
        {
            "schema": JSON_SCHEMA,
            "hardware": recording.hardware,
            "date": recording.date,
            "managers": recording.managers,
            "sessions_left_out": recording.left_out,
            "troubles": list(recording.troubles),
            "models": [_model(model) for model in report.models],
            "findings": [_finding(finding) for finding in report.findings],
        },
        indent=2,
    )


def _model(model: ModelReport) -> dict[str, Any]:
    return {
        "model": model.model,
        "file": model.spec.schema,
        "steps": model.counted,
        "together": None if model.together is None else attrs.asdict(model.together),
        "numbers": [attrs.asdict(number) for number in model.numbers],
        "values": [_row(row) for row in model.rows],
        "sessions": [
            {
                "session": session.session_id,
                "process": session.process,
                "steps": session.counted,
                "peak_nbytes": session.peak_nbytes,
                "peak_step": session.peak_step,
                "peak_nbytes_by_device": dict(session.peak_by_device),
                "at_steps": list(session.steps),
                "nbytes": {device: list(points) for device, points in session.nbytes.items()},
                "values": {
                    value.name: {device: list(points) for device, points in value.nbytes.items()}
                    for value in session.values
                    if value.peak_nbytes
                },
            }
            for session in model.sessions
        ],
    }


def _row(row: Row) -> dict[str, Any]:
    spec, measured = row.spec, row.measured
    found: dict[str, Any] = {
        "value": row.name,
        "line": 0 if spec is None else spec.line,
        "device": None if spec is None else spec.device,
        "declared_nbytes": row.declared_nbytes,
        "findings": list(row.rules),
    }
    if measured is not None and row.session is not None:
        pinned = measured.pinned
        found |= {
            "session": row.session.session_id,
            "first_nbytes": measured.first_nbytes,
            "last_nbytes": measured.last_nbytes,
            "peak_nbytes": measured.peak_nbytes,
            "peak_step": measured.peak_step,
            "peak_nbytes_by_device": dict(measured.peak_by_device),
            "held_from": measured.held_from,
            "held_to": measured.held_to,
            "growth_nbytes_per_step": measured.growth,
            "grows": measured.grows,
            "dtypes": list(measured.dtypes),
            "shapes": [list(shape) for shape in measured.shapes],
            "pinned_nbytes": 0 if pinned is None else pinned.nbytes,
        }
    return found


def _finding(finding: Finding) -> dict[str, Any]:
    return {"kind": finding.kind, **attrs.asdict(finding)}
