"""DraftReset: the resets of a draft, one for each set of values that some method clears."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from statekit_codegen.reading.facts import Clearing, HandRolled
from statekit_codegen.reading.names import snake
from statekit_codegen.scaffold.words import series

__all__ = ["DraftReset", "draft_resets", "reset_word"]

_PREFIX = re.compile(r"_*(re_?set|clear)_*")


@attrs.frozen
class DraftReset:
    """One reset of the schema, and the ways to call the class that clear the same.

    Attributes:
        values: what it clears, by the names of the schema.
        everything: whether that is all values.
    """

    name: str
    clearings: tuple[Clearing, ...]
    values: tuple[str, ...]
    everything: bool

    @property
    def doc(self) -> str:
        """What the methods say about it, nothing where they do not."""
        return next((clearing.doc for clearing in self.clearings if clearing.doc), "")

    @property
    def evidence(self) -> str:
        """The calls and their lines."""
        ways = [f"{clearing.label} in line {clearing.site.line}" for clearing in self.clearings]
        return series(ways)


def draft_resets(state: HandRolled, names: Mapping[str, str]) -> list[DraftReset]:
    """The resets of a class, in the order of the source; `names` are the values of the draft."""
    groups: dict[frozenset[str], list[Clearing]] = {}
    for clearing in state.clearings:
        cleared = frozenset(names[name] for name in clearing.cleared if name in names)
        if cleared:
            groups.setdefault(cleared, []).append(clearing)
    every = frozenset(names.values())
    taken: set[str] = set()
    found = []
    for cleared, clearings in groups.items():
        name = _name(clearings, cleared == every, taken | _members(every))
        taken.add(name)
        values = tuple(value for value in names.values() if value in cleared)
        found.append(DraftReset(name, tuple(clearings), values, cleared == every))
    return found


def reset_word(method: str) -> str:
    """What a method's name says beyond that it resets: `window` of `reset_window`."""
    return _PREFIX.sub("", method, count=1).strip("_")


def _members(values: Iterable[str]) -> set[str]:
    """The names whose reset would have the name of a value."""
    return {value.removeprefix("reset_") for value in values if value.startswith("reset_")}


def _steered(choice: tuple[str, Any]) -> str:
    """What an argument says: `full` of `full=True`, `no_full` of `full=False`."""
    name, value = choice
    if isinstance(value, bool):
        return name if value else f"no_{name}"
    return f"{name}_{value}"


def _name(clearings: Iterable[Clearing], everything: bool, taken: set[str]) -> str:
    plain = [clearing for clearing in clearings if clearing.usual]
    words = [reset_word(clearing.method) for clearing in plain]
    candidates = [word for word in words if word]
    if not everything:
        candidates += [
            "_".join([reset_word(clearing.method), *map(_steered, clearing.choice)])
            for clearing in clearings
            if not clearing.usual
        ]
    first = "session" if everything else "state"
    ordered = [first, *candidates] if everything or not candidates else [*candidates, first]
    for candidate in [snake(one) for one in ordered]:
        if candidate not in taken:
            return candidate
    return f"{snake(ordered[0])}_{len(taken) + 1}"
