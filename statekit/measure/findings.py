"""Findings: what a recording says against what the schemas declare.

Owns the comparison, session by session, and that a finding which shows in many sessions is told
once, for the session in which it shows most. One cause has one finding: bytes that a wrong shape,
a pinned view or a growth explains are not told a second time.

    F1  What is declared is that of the session's own numbers: see `statekit.measure.numbers`.
    F2  Bytes are compared between two steps; a pending copy is allowed for.
    F3  A note never contradicts a declaration: the run may just not have come so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from statekit.measure import against
from statekit.measure.comparison import Comparison
from statekit.measure.finding import Finding, mib
from statekit.measure.numbers import numbers_of
from statekit.measure.recording import MeasuredSession, Recording
from statekit.spec import ModelSpec

__all__ = ["findings", "specs_of"]


def findings(
    recording: Recording,
    specs: Iterable[ModelSpec] = (),
    numbers: Mapping[str, int] | None = None,
) -> list[Finding]:
    """All that `recording` says, by model and in the order of the schema, the worst first.

    Args:
        specs: to compare with, in place of the recorded ones of the same models.
        numbers: for symbols, constants or parameters, in place of what the run shows.
    """
    found: dict[tuple[str, str, str], Finding] = {}
    for spec in specs_of(recording, specs).values():
        sessions = recording.of(spec.model)
        for session in sessions:
            for finding in _of_session(spec, session, numbers):
                _keep(found, finding)
        if sessions:
            for finding in _unwritten(spec, sessions):
                _keep(found, finding)
    for session in recording.sessions:
        for finding in _undeclared(session, specs_of(recording, specs)):
            _keep(found, finding)
    order = {"wrong": 0, "note": 1}
    return sorted(found.values(), key=lambda one: (one.model, order[one.kind], one.file, one.line))


def specs_of(recording: Recording, specs: Iterable[ModelSpec] = ()) -> dict[str, ModelSpec]:
    """The schemas by model: the recorded ones, with `specs` in place of those that they replace."""
    found = dict(recording.specs)
    found.update({spec.model: spec for spec in specs if spec.model in found})
    return found


def _keep(found: dict[tuple[str, str, str], Finding], finding: Finding) -> None:
    key = (finding.rule, finding.model, finding.value)
    known = found.get(key)
    if known is None:
        found[key] = finding
        return
    worse = finding if finding.weight > known.weight else known
    found[key] = attrs.evolve(worse, sessions=known.sessions + finding.sessions)


def _of_session(
    spec: ModelSpec, session: MeasuredSession, given: Mapping[str, int] | None
) -> Iterator[Finding]:
    numbers = numbers_of(spec, session, given)
    device = against.model_device(spec, session)
    for value in spec:
        measured = session.value(spec.model, value.name)
        if measured is not None:
            yield from against.compare(Comparison(spec, value, measured, session, numbers, device))


def _unwritten(spec: ModelSpec, sessions: Iterable[MeasuredSession]) -> Iterator[Finding]:
    """Values that no session ever held."""
    steps = sum(session.step_count for session in sessions)
    for value in spec:
        seen = [session.value(spec.model, value.name) for session in sessions]
        if not any(one is not None and one.written for one in seen):
            yield Finding(
                "MEASURED_UNWRITTEN",
                spec.model,
                value.name,
                spec.schema,
                value.line,
                f"it held nothing after any of {steps:,} steps",
                "run what writes it, or take it out of the schema",
            )


def _undeclared(session: MeasuredSession, specs: Mapping[str, ModelSpec]) -> Iterator[Finding]:
    """Values that no schema speaks of, or not the one that is compared with."""
    models = [specs[model] for model in session.models if model in specs]
    known = {(spec.model, value.name) for spec in models for value in spec}
    for one in session.values:
        if (one.model, one.name) in known or not one.written:
            continue
        spec = specs.get(one.model) or (models[0] if models else None)
        file = "" if spec is None else spec.schema
        todo = f"describe it under `values` of {file}" if file else "write a schema for the model"
        yield Finding(
            "MEASURED_UNDECLARED",
            "" if spec is None else spec.model,
            one.name,
            file,
            0,
            f"a value of {one.bucket}, {mib(one.peak_nbytes)} at most, that no schema speaks of",
            f"{todo}, or keep it elsewhere",
            measured_nbytes=one.peak_nbytes,
            session=session.session_id,
        )
