"""Report: what is told of a run, model by model, in every form.

Owns the choice of figures: of several sessions, each value is told of with the session in which it
held most. Not here: how that looks (`text`, `document`, `picture`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from statekit.declared import declared_bytes
from statekit.errors import ExpressionError
from statekit.measure.finding import Finding
from statekit.measure.findings import findings, specs_of
from statekit.measure.numbers import Numbers, numbers_of
from statekit.measure.recording import MeasuredSession, MeasuredValue, Recording, Together
from statekit.spec import ModelSpec, ValueSpec
from statekit_codegen.model import Positions

__all__ = ["ModelReport", "Number", "Report", "Row", "report_of"]


@attrs.frozen
class Number:
    """A number that declared figures were computed with.

    Attributes:
        source: `given`, `the schema`, `the run`, or the value whose shape says it.
        schema: what the schema itself says.
    """

    name: str
    number: int
    source: str
    schema: int | None


@attrs.frozen
class Row:
    """One value.

    Attributes:
        spec: what the schema says; None where it says nothing.
        measured: of the session in which it held most; None where it was never held.
        session: that session.
        declared_nbytes: at the step of its peak; None where nobody can compute it.
        rules: of the findings about it.
    """

    name: str
    spec: ValueSpec | None
    measured: MeasuredValue | None
    session: MeasuredSession | None
    declared_nbytes: int | None
    rules: tuple[str, ...]

    @property
    def device(self) -> str:
        """Where it lay, most bytes first; what the schema says where it held nothing."""
        held = {} if self.measured is None else self.measured.peak_by_device
        if held:
            return ", ".join(sorted(held, key=lambda device: -held[device]))
        return "" if self.spec is None else self.spec.device


@attrs.frozen
class ModelReport:
    """One model, or the sessions that no schema speaks for: then `model` is empty.

    Attributes:
        spec: what it was compared with.
        sessions: as recorded; `fullest` is the one that held most.
        rows: the schema's values in its order, then those that it does not speak of.
        numbers: those of the fullest session.
        same_numbers: whether all sessions have them.
        together: the most that its sessions held at once.
    """

    model: str
    spec: ModelSpec
    sessions: tuple[MeasuredSession, ...]
    fullest: MeasuredSession
    rows: tuple[Row, ...]
    numbers: tuple[Number, ...]
    same_numbers: bool
    findings: tuple[Finding, ...]
    together: Together | None = None

    @property
    def counted(self) -> dict[str, int]:
        """Steps by kind, over all sessions."""
        total: dict[str, int] = {}
        for session in self.sessions:
            for kind, count in session.counted.items():
                total[kind] = total.get(kind, 0) + count
        return total


@attrs.frozen
class Report:
    """All of a run."""

    recording: Recording
    models: tuple[ModelReport, ...]
    findings: tuple[Finding, ...]

    @property
    def wrong(self) -> int:
        """How many findings say that a declaration is wrong."""
        return sum(finding.kind == "wrong" for finding in self.findings)


def report_of(
    recording: Recording,
    specs: Iterable[ModelSpec] = (),
    given: Mapping[str, int] | None = None,
    places: Mapping[str, Positions] | None = None,
) -> Report:
    """The report on `recording`; `specs` and `given` as `statekit.measure.findings` has them.

    Args:
        places: where each node of a model's schema lies, for lines more exact than a value's.
    """
    known = specs_of(recording, specs)
    found = tuple(_placed(one, places or {}) for one in findings(recording, known.values(), given))
    models = [
        attrs.evolve(
            _model(known[model], recording.of(model), found, given),
            together=recording.together.get(model),
        )
        for model in known
        if recording.of(model)
    ]
    alone = tuple(one for one in recording.sessions if not one.models)
    if alone:
        models.append(_model(ModelSpec(""), alone, found, given))
    return Report(recording, tuple(models), found)


def _placed(finding: Finding, places: Mapping[str, Positions]) -> Finding:
    """The finding at the line of the key that it speaks of."""
    positions = places.get(finding.model)
    if positions is None or not finding.line:
        return finding
    path = ("values", finding.value, *([finding.key] if finding.key else []))
    return attrs.evolve(finding, line=positions.place(*path)[0])


def _model(
    spec: ModelSpec,
    sessions: tuple[MeasuredSession, ...],
    found: Sequence[Finding],
    given: Mapping[str, int] | None,
) -> ModelReport:
    mine = tuple(finding for finding in found if finding.model == spec.model)
    numbers = {id(one): numbers_of(spec, one, given) for one in sessions}
    fullest = max(sessions, key=lambda one: one.peak_nbytes)
    rules: dict[str, list[str]] = {}
    for finding in mine:
        rules.setdefault(finding.value, []).append(finding.rule)
    rows = []
    for value in spec:
        session, measured = _most(sessions, spec.model, value.name)
        chosen = numbers[id(session or fullest)]
        step = 0 if measured is None else measured.peak_step
        declared = _declared(spec, value, chosen, step)
        mark = tuple(rules.get(value.name, ()))
        rows.append(Row(value.name, value, measured, session, declared, mark))
    named = {value.name for value in spec}
    others = {
        (one.model, one.name): None
        for session in sessions
        for one in session.values
        if one.written and (one.model not in session.models or one.model == spec.model)
        and not (one.model == spec.model and one.name in named and spec.model)
    }  # fmt: skip
    for model, name in others:
        session, measured = _most(sessions, model, name)
        rows.append(Row(name, None, measured, session, None, tuple(rules.get(name, ()))))
    own = spec.environment()
    used = numbers[id(fullest)]
    return ModelReport(
        model=spec.model,
        spec=spec,
        sessions=sessions,
        fullest=fullest,
        rows=tuple(rows),
        numbers=tuple(
            Number(name, number, used.sources[name], own.get(name))
            for name, number in used.values.items()
        ),
        same_numbers=all(one.values == used.values for one in numbers.values()),
        findings=mine,
    )


def _most(
    sessions: Iterable[MeasuredSession], model: str, name: str
) -> tuple[MeasuredSession | None, MeasuredValue | None]:
    """The session in which a value held most, and the value there."""
    best: tuple[MeasuredSession | None, MeasuredValue | None] = (None, None)
    for session in sessions:
        value = session.value(model, name)
        if value is not None and (best[1] is None or value.peak_nbytes > best[1].peak_nbytes):
            best = (session, value)
    return best


def _declared(spec: ModelSpec, value: ValueSpec, numbers: Numbers, step: int) -> int | None:
    try:
        declared = declared_bytes(spec, value, numbers.values)
    except ExpressionError:
        return None
    if declared is None:
        return None
    return declared.at_step(step) if declared.growth else declared.most
