"""Fault: one thing that is wrong at a path of a schema, before it has a line and a column."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

import attrs

from statekit.errors import Problem
from statekit_codegen.model import Path, Positions
from statekit_codegen.scalars import shown

__all__ = ["Fault", "closest", "listed", "within"]

# A hostile file has thousands of long names: to compare and list them all takes minutes.
_MAX_CHARS = 64
_MAX_WORDS = 100
_MAX_LISTED = 30


@attrs.frozen
class Fault:
    """What `rule` finds at `path`: what was found, and what to do."""

    path: Path
    rule: str
    found: str
    todo: str

    def at(self, positions: Positions) -> Problem:
        """The same with its place in the file."""
        return positions.problem(self.path, self.rule, self.found, self.todo)


def closest(word: str, words: Iterable[str]) -> str:
    """`did you mean ...? ` where one of `words` is close to `word`, else nothing."""
    if len(word) > _MAX_CHARS:
        return ""
    candidates = [known for known in islice(words, _MAX_WORDS) if len(known) <= _MAX_CHARS]
    found = difflib.get_close_matches(word, candidates, n=1)
    return f"did you mean {found[0]}? " if found else ""


def listed(words: Collection[str]) -> str:
    """`words` as a message lists them, not all if there are very many; `none` without any."""
    first = [w if len(w) <= _MAX_CHARS else shown(w) for w in islice(words, _MAX_LISTED)]
    return ", ".join([*first, "..."] if len(words) > _MAX_LISTED else first) or "none"


def within(text: str | int, found: str) -> str:
    """`found`, with the text that it was found in where it does not show that itself."""
    return found if shown(text) in found else f"{shown(text)}: {found}"
