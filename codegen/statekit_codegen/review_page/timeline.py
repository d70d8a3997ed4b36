"""The timeline: what of a session lives from when to when.

Owns the moments that are shown and what each value is at each of them. A schema does not say when
a model first assigns a value: here every value is there from the first step on.

    T1  The first three steps come first: seed, steady, growth. Then each reset, the one that clears
        least first, with a step behind it, in which what was cleared begins anew.
        Of more than `MOST_RESETS` resets those that clear most are drawn.
    T2  Bytes of a growing buffer are those of so many steps since it was last cleared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from statekit.declared import DeclaredBytes, declared_bytes
from statekit_codegen.review import ResetRow, Review, Row
from statekit_codegen.units import format_nbytes

__all__ = ["MOST_RESETS", "Lane", "Moment", "Spell", "lanes", "moments"]

_HEIGHT = 24
"""Units of the highest bar."""

_LEAST = 4
"""Of a value that holds no memory, or very little at first."""

_STEPS = 3

MOST_RESETS = 8
"""How many resets are drawn; the list below the picture has all."""


@attrs.frozen
class Moment:
    """One column: a step, or a reset."""

    kind: Literal["step", "reset"]
    label: str
    note: str


@attrs.frozen
class Spell:
    """What a value is at one moment.

    Attributes:
        kind: `lives` through a step; a reset has it `kept` or `cleared`.
        starts: whether it begins in this step.
        left: height of its bar at the start of the moment.
        right: height at the end.
        pending: whether a copy of it exists while the step runs.
        figure: bytes, where they are others than in the moment before; else empty.
        words: all of it, for those who don't see the bar.
    """

    kind: Literal["lives", "kept", "cleared"]
    starts: bool
    left: int
    right: int
    pending: bool
    figure: str
    words: str


@attrs.frozen
class Lane:
    """One value over time."""

    name: str
    bucket: str
    known: bool
    spells: tuple[Spell, ...]


def moments(review: Review) -> tuple[Moment, ...]:
    """The columns, by T1."""
    notes = ("seed", "steady", "growth" if any(row.growth for row in review.rows) else "steady")
    found = [Moment("step", f"step {number + 1}", note) for number, note in enumerate(notes)]
    step = _STEPS
    ordered = _resets(review)
    for reset in ordered:
        found.append(Moment("reset", reset.name, "reset"))
        if reset is not ordered[-1]:
            step += 1
            found.append(Moment("step", f"step {step}", ""))
    return tuple(found)


def lanes(review: Review) -> tuple[Lane, ...]:
    """What each value is at each moment, in the schema's order."""
    columns = moments(review)
    clears = {reset.name: frozenset(reset.clears) for reset in _resets(review)}
    return tuple(_lane(review, row, columns, clears) for row in review.rows)


def _resets(review: Review) -> list[ResetRow]:
    return sorted(review.resets, key=lambda reset: len(reset.clears))[-MOST_RESETS:]


def _lane(
    review: Review, row: Row, columns: tuple[Moment, ...], clears: Mapping[str, frozenset[str]]
) -> Lane:
    spec, overrides = review.model.spec, review.numbers
    declared = declared_bytes(spec, row.spec, overrides)
    count = sum(moment.kind == "step" for moment in columns)
    most = 1 if declared is None else max(1, declared.at_step(1), declared.at_step(count))
    spells: list[Spell] = []
    age, height, nbytes = 0, 0, -1
    for moment in columns:
        if moment.kind == "reset":
            cleared = row.spec.name in clears[moment.label]
            kind: Literal["kept", "cleared"] = "cleared" if cleared else "kept"
            words = f"cleared by reset {moment.label}" if cleared else "kept"
            spells.append(Spell(kind, False, height, height, False, "", words))
            if cleared:
                age, nbytes = 0, -1
            continue
        age += 1
        held = _held(declared, age)
        left = height if age > 1 else _height(held, most)
        height = _height(held, most)
        figure = "" if held == nbytes or not held else format_nbytes(held)
        spells.append(
            Spell(
                kind="lives",
                starts=age == 1,
                left=left,
                right=height,
                pending=row.pending_nbytes > 0,
                figure=figure,
                words=_words(row, declared, held, age),
            )
        )
        nbytes = held
    return Lane(row.spec.name, row.spec.bucket, declared is not None, tuple(spells))


def _held(declared: DeclaredBytes | None, age: int) -> int:
    return 0 if declared is None else declared.at_step(age)


def _height(nbytes: int, most: int) -> int:
    return max(_LEAST, nbytes * _HEIGHT // most) if nbytes else _LEAST


def _words(row: Row, declared: DeclaredBytes | None, held: int, age: int) -> str:
    what = "unknown bytes" if declared is None else format_nbytes(held)
    start = "begins, " if age == 1 else ""
    copy = ""
    if row.pending_nbytes:
        copy = f", and {format_nbytes(row.pending_nbytes)} beside it while the step runs"
    return f"{start}{what}{copy}"
