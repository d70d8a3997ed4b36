"""What a review of a change says in words: short phrases that all its layouts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from statekit_codegen.review import Row, Total
from statekit_codegen.review_change.comparison import (
    ModelChange,
    TotalChange,
    ValueChange,
    ValueKind,
    unexplained,
)
from statekit_codegen.review_words import (
    bound_words,
    bytes_words,
    device_words,
    growth_words,
    object_words,
)
from statekit_codegen.units import format_nbytes

__all__ = [
    "KINDS",
    "SAME",
    "UNEXPLAINED",
    "counts",
    "cut",
    "effect",
    "kind_words",
    "on_top",
    "outcome",
    "row_words",
    "said",
    "signed",
]

SAME = "No decision changed."
UNEXPLAINED = "moved, but its reason is still the one for the other bucket"

KINDS: Mapping[ValueKind, str] = {
    "moved": "Moved between buckets",
    "added": "Added",
    "removed": "Removed",
    "changed": "Changed",
}


def signed(nbytes: int | None) -> str:
    """A difference of bytes with its sign."""
    if nbytes is None:
        return "unknown"
    if nbytes == 0:
        return "no change"
    return f"{'+' if nbytes > 0 else '-'}{format_nbytes(abs(nbytes))}"


def kind_words(value: ValueChange) -> str:
    """What became of a value, in a few words."""
    if value.kind == "moved":
        assert value.was is not None
        assert value.now is not None
        return f"{value.was.spec.bucket} -> {value.now.spec.bucket}"
    return value.kind


def row_words(row: Row) -> str:
    """What a value is, or was, in one line."""
    parts = (row.spec.bucket, object_words(row), row.spec.type, device_words(row), bound_words(row))
    return ", ".join(filter(None, (*parts, bytes_words(row.nbytes))))


def said(text: str) -> str:
    """What a facet says, or that it says nothing."""
    return text or "none"


def cut(text: str, chars: int) -> str:
    """`text`, and where it is longer, its beginning with the number of characters left out."""
    left = len(text) - chars
    return text if left <= 0 else f"{text[:chars].rstrip()} ... ({left} more characters)"


def counts(changes: Sequence[ModelChange]) -> str:
    """How many values became what: `1 value moved, 2 changed`."""
    words: list[str] = []
    for kind in KINDS:
        number = sum(len(change.of_kind(kind)) for change in changes)
        if number:
            what = "" if words else " value" if number == 1 else " values"
            words.append(f"{number}{what} {kind}")
    others = sum(len(change.edits) for change in changes)
    if others:
        words.append(f"{others} other edit{'' if others == 1 else 's'}")
    return ", ".join(words)


def outcome(changes: Sequence[ModelChange], against: str) -> list[str]:
    """What all of it comes to, and what has to be explained."""
    changed = [change for change in changes if change.kind != "same"]
    models = f"{len(changes)} model{'' if len(changes) == 1 else 's'}"
    if not changed:
        return [f"{SAME} {models} against {against}."]
    lines = [f"{len(changed)} of {models} changed against {against}: {counts(changes)}."]
    if not counts(changes):
        lines = [f"{len(changed)} of {models} changed against {against}."]
    for name in unexplained(changes):
        lines.append(f"{name} {UNEXPLAINED}: say in decision.why what is true now.")
    return lines


def effect(change: ModelChange) -> str:
    """What the change does to the bytes of a session on all its devices."""
    if not change.totals:
        return "bytes a session: none"
    return f"bytes a session: {signed(change.totals[-1].difference_nbytes)}"


def on_top(total: TotalChange) -> list[tuple[str, str, str]]:
    """What comes on top of a total, where that changed: name, before, today."""
    found = []
    if total.was.pending_nbytes != total.now.pending_nbytes:
        was, now = total.was.pending_nbytes, total.now.pending_nbytes
        found.append(("while a step runs", _plus(was), _plus(now)))
    if total.was.growth != total.now.growth:
        found.append(("growth", _growth(total.was), _growth(total.now)))
    return found


def _plus(nbytes: int) -> str:
    return f"+{format_nbytes(nbytes)}" if nbytes else "none"


def _growth(total: Total) -> str:
    return "; ".join(growth_words(growth) for growth in total.growth) or "none"
