"""What a report on a run says in words: short phrases that its forms share."""

from __future__ import annotations

from collections.abc import Iterator

from statekit.measure.numbers import GIVEN, SCHEMA
from statekit.measure.recording import Recording
from statekit_codegen.measured.report import ModelReport, Number, Report, Row
from statekit_codegen.review_words import one_line
from statekit_codegen.units import format_nbytes

__all__ = [
    "declared_words",
    "growth_words",
    "number_words",
    "recording_words",
    "remark",
    "sessions_words",
    "verdict",
]

_KINDS = {
    "step": ("step()", "an outermost step()"),
    "lease": ("lease", "a lease"),
    "look-up": ("look-up", "a look-up of the session by an adapter"),
}


def sessions_words(model: ModelReport) -> str:
    """How much there was to measure, and what counts as a step."""
    count = len(model.sessions)
    sessions = "1 session" if count == 1 else f"{count:,} sessions"
    total = sum(model.counted.values())
    steps = "1 step" if total == 1 else f"{total:,} steps"
    kinds = [_KINDS[kind][1] for kind in model.counted]
    most = format_nbytes(model.fullest.peak_nbytes)
    crowd = model.together
    at_once = ""
    if crowd is not None and crowd.sessions > 1:
        at_once = f", {format_nbytes(crowd.nbytes)} in {crowd.sessions:,} at once"
    return (
        f"{sessions}, {steps} (each {' or '.join(kinds)}); {most} at most in one session{at_once}."
    )


def number_words(model: ModelReport) -> str:
    """The numbers that declared figures were computed with, and where they come from."""
    if not model.numbers:
        return ""
    by_source: dict[str, list[str]] = {}
    for number in model.numbers:
        by_source.setdefault(number.source, []).append(_number(number))
    parts = [f"{', '.join(names)} ({_source(source)})" for source, names in by_source.items()]
    whose = "" if model.same_numbers else "; other sessions have others"
    return f"Declared with {'; '.join(parts)}{whose}."


def _number(number: Number) -> str:
    return f"{number.name}={number.number}"


def _source(source: str) -> str:
    if source in (GIVEN, SCHEMA):
        return source
    return "as built" if source == "the run" else f"by {source}"


def declared_words(row: Row) -> str:
    """What the schema declares for the step of the peak."""
    if row.spec is None:
        return "nothing"
    if row.spec.device == "none":
        return "no memory"
    return "unknown" if row.declared_nbytes is None else format_nbytes(row.declared_nbytes)


def growth_words(row: Row) -> str:
    """How fast it grew, where it did all the time."""
    measured = row.measured
    if measured is None or not measured.grows:
        return ""
    return f"+{format_nbytes(round(measured.growth))}"


def remark(row: Row) -> str:
    """The life of a value, where it did not hold bytes from the first step to the last."""
    measured, session = row.measured, row.session
    if measured is None or session is None or measured.held_from is None:
        return ""
    last = session.step_count
    found = []
    if (measured.held_from, measured.held_to) != (1, last):
        found.append(f"held from step {measured.held_from:,} to {measured.held_to:,} of {last:,}")
    if measured.last_nbytes != measured.peak_nbytes:
        left = format_nbytes(measured.last_nbytes)
        found.append(f"most after step {measured.peak_step:,}, {left} after the last")
    return f"{row.name}: {'; '.join(found)}." if found else ""


def recording_words(recording: Recording) -> Iterator[str]:
    """Where it was measured, and what is not told."""
    managers = "1 manager" if recording.managers == 1 else f"{recording.managers} managers"
    yield f"{managers}; {one_line(recording.hardware)}; {recording.date}."
    if recording.left_out:
        yield f"{recording.left_out:,} more sessions, in none of which a value held more."
    for trouble in recording.troubles:
        yield f"Not everything was measured: {one_line(trouble)}"


def verdict(report: Report) -> str:
    """What came out, in a line."""
    notes = len(report.findings) - report.wrong
    also = "" if not notes else ", 1 note" if notes == 1 else f", {notes} notes"
    if not report.wrong:
        return f"Nothing contradicts the declarations{also}."
    count = "1 declaration is" if report.wrong == 1 else f"{report.wrong} declarations are"
    return f"{count} wrong{also}."
