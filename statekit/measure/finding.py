"""Finding: one thing that a run says against a declaration; and the rules that find it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

__all__ = ["RULES", "Finding", "Kind", "mib"]

Kind = Literal["wrong", "note"]
"""What a run contradicts is wrong; what it only makes doubtful is a note."""

RULES: Mapping[str, tuple[Kind, str]] = {
    "MEASURED_BOUND": ("wrong", "A ring holds more than its bound."),
    "MEASURED_DEVICE": ("wrong", "A value lies on another device than declared."),
    "MEASURED_DTYPE": ("wrong", "A value has another element type than declared."),
    "MEASURED_SHAPE": ("wrong", "A value has another shape than declared."),
    "MEASURED_PINNED": ("wrong", "A value holds more memory than anything shows of it."),
    "MEASURED_GROWTH": ("wrong", "A value grows, or grows faster, against its declaration."),
    "MEASURED_BELOW": ("wrong", "A value is declared with less than it holds."),
    "MEASURED_UNDECLARED": ("wrong", "A session holds a value that no schema speaks of."),
    "MEASURED_ABOVE": ("note", "A value is declared with far more than it holds."),
    "MEASURED_UNWRITTEN": ("note", "A value is declared and never held anything."),
}
"""Every rule, with its kind and what it finds."""


@attrs.frozen
class Finding:
    """One finding.

    Attributes:
        rule: its id, one of `RULES`.
        model, value: what it is about; no model where no schema speaks of the value.
        file, line: where the schema describes the value; line 0: it does not.
        found: what was measured, beside what is declared.
        todo: what to write instead.
        measured_nbytes, declared_nbytes: the figures, where there are such.
        session: the session in which it shows most; sessions: in how many it shows.
        key: the key of the value that says otherwise; empty where it is none.
    """

    rule: str
    model: str
    value: str
    file: str
    line: int
    found: str
    todo: str
    measured_nbytes: int | None = None
    declared_nbytes: int | None = None
    session: str = ""
    sessions: int = 1
    key: str = ""

    @property
    def kind(self) -> Kind:
        """Whether the declaration is wrong, or only doubtful."""
        return RULES[self.rule][0]

    @property
    def weight(self) -> int:
        """How much it is about, to tell of the worst of several alike."""
        return (self.measured_nbytes or 0) - (self.declared_nbytes or 0)

    @property
    def place(self) -> str:
        """The schema's file and line."""
        return f"{self.file or 'no schema'}:{self.line}" if self.line else self.file or "no schema"

    def __str__(self) -> str:
        return f"{self.place}: {self.rule} at {self.value}: {self.found}; {self.todo}"


def mib(nbytes: int) -> str:
    """Bytes for a person, exactly: `3.867 MiB`, or in bytes where they are few."""
    return f"{nbytes:,} B" if nbytes < 2**17 else f"{nbytes / 2**20:,.3f} MiB"
