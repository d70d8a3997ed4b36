"""Mend: stand-ins for what does not fit the language, so that the rest can be checked too.

A person who mends a file wants to see all its problems at once. What hangs on a stand-in is not
reported: it may well be right.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import attrs

from statekit_codegen.fault import Fault
from statekit_codegen.model import Path

__all__ = ["Mended", "lies_in", "mend"]

_TOP: dict[str, Any] = {"statekit": 1, "model": "m", "class": "C", "doc": ".", "values": {}}
"""What takes the place of whole entries that a schema must have."""
_ENTRY: dict[str, Any] = {
    "symbols": 1,
    "constants": 1,
    "parameters": {"type": "int", "default": 1, "doc": "."},
    "families": {"members": {"a": ""}, "doc": "."},
    "values": {"bucket": "attrs", "type": "int", "default": 0, "device": "none"},
}
"""What takes the place of one entry of a section; in other sections it is left out."""
_FIELD: dict[str, Any] = {"bucket": "attrs", "device": "none"}
"""What takes the place of one field of a value; other fields are left out."""
_ACROSS_FIELDS = (
    "CHOICE_ONE", "COERCE_FIT", "DEFAULT_FIT", "FAMILY_FIT", "FIELD_FIT", "FIELD_NEEDED",
    "KEY_CLASH", "KEY_TEMPLATE", "TYPE_FIT",
)  # fmt: skip
"""The rules that look at several fields of one value."""
_NUMBERS = ("EXPRESSION_VALUE", "RING_BOUND")
_SILENCED: dict[str, tuple[str, ...]] = {
    "symbols": _NUMBERS,
    "constants": _NUMBERS,
    "parameters": _NUMBERS,
    "families": ("FAMILY_FIT", "KEY_CLASH", "KEY_TEMPLATE"),
}
"""The rules that may find something only because of a stand-in in a section."""
_NAMES_GONE = ("EXPRESSION_NAME", "LIST_EMPTY", "REFERENCE_UNKNOWN")
"""The rules that need the names of a section, which a doubtful one has not."""


@attrs.frozen
class Mended:
    """Data that fits the language.

    Attributes:
        data: as it would be structured.
        doubtful: the places where it is not what the file says.
        partial: the values of which one field is doubtful.
        silenced: the rules whose findings can't be trusted.
    """

    data: Any
    doubtful: frozenset[Path]
    partial: frozenset[Path]
    silenced: frozenset[str]

    def trusts(self, fault: Fault) -> bool:
        """Whether `fault` is one of the file, not of a stand-in."""
        if fault.rule in self.silenced or lies_in(fault.path, self.doubtful):
            return False
        return fault.rule not in _ACROSS_FIELDS or not lies_in(fault.path, self.partial)


def mend(data: Any, faults: Iterable[Fault], doubtful: Iterable[Path]) -> Mended | None:
    """`data` with stand-ins where `faults` or doubts lie; None where nothing is left to check."""
    data = copy.deepcopy(data)
    places = set(doubtful)
    for fault in faults:
        if fault.rule == "UNKNOWN_KEY":
            _delete(data, fault.path)
        else:
            places.add(fault.path)
    if () in places:
        return None
    doubtful = {place[:3] if place[0] == "values" else place[:2] for place in places}
    silenced: set[str] = set()
    for place in sorted(doubtful, key=len):
        section = str(place[0])
        silenced.update(_SILENCED.get(section, ()))
        if len(place) == 1:
            silenced.update(_NAMES_GONE)
            _stand_in(data, section, _TOP.get(section))
        elif len(place) == 2:
            _stand_in(data.get(section), place[1], _ENTRY.get(section))
        else:
            _stand_in(data[section].get(place[1]), place[2], _FIELD.get(str(place[2])))
    partial = {place[:2] for place in doubtful if len(place) == 3}
    return Mended(data, frozenset(doubtful), frozenset(partial), frozenset(silenced))


def lies_in(path: Path, places: Iterable[Path]) -> bool:
    """Whether `path` is one of `places`, or below one."""
    return any(path[: len(place)] == place for place in places)


def _stand_in(mapping: Any, key: str | int, stand_in: Any) -> None:
    """Replace one entry, or take it out where there is no stand-in."""
    if not isinstance(mapping, dict):
        return  # it has been replaced as a whole
    mapping.pop(key, None)
    if stand_in is not None:
        mapping[key] = copy.deepcopy(stand_in)


def _delete(data: Any, path: Path) -> None:
    for part in path[:-1]:
        data = data[part]
    del data[path[-1]]
