"""Difference: one thing that is not as it was, and whether saved bytes suffer from it."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from statekit.text import on_one_line

__all__ = ["Difference", "listed"]


_MAX_CHARS = 1_000


def _shown(text: str) -> str:
    """`text` on one line that can be printed: it may come out of a file that nobody vouches for."""
    if len(text) > _MAX_CHARS:
        text = f"{text[: _MAX_CHARS - 3]}..."
    return on_one_line(text)


@attrs.frozen
class Difference:
    """One thing that is not as it was.

    Attributes:
        rule: the id under which it was looked at, of `SNAPSHOT_RULES`.
        value: the name of the value it is about; or of the atomic group, parameter, symbol or
            constant; empty for the model as a whole.
        was: how it was; empty if it was not there, or not stated.
        now: how it is; empty if it is gone, or not stated.
        why: what follows for saved bytes.
        breaks: whether they cannot be read any more, or not rightly.

    All texts are on one line and can be printed, whatever a record holds.
    """

    rule: str
    value: str = attrs.field(converter=_shown)
    was: str = attrs.field(converter=_shown)
    now: str = attrs.field(converter=_shown)
    why: str
    breaks: bool


def listed(names: Iterable[str]) -> str:
    """The names with commas between them."""
    return ", ".join(names)
