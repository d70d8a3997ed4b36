"""Limits: what a JSON Schema says of the language beyond the classes of `language`.

Owns the narrower form of single keys, the names that a mapping's entries may have, and what keys
of one mapping mean for each other. Each limit restates a check (`check_names`, `check_keys`,
`check_values`, `check_sizes`) and takes its figures and words from there.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from typing import Any

import attrs

from statekit.declared import DTYPE_NBYTES
from statekit.expressions import MAX_VALUE
from statekit_codegen import json_schema_patterns as patterns
from statekit_codegen import language
from statekit_codegen.check_keys import KEY_CHARACTERS, MAX_KEY_CHARS, TEXT
from statekit_codegen.check_kinds import FLOATING
from statekit_codegen.check_names import (
    CAPS,
    CONSTANTS_OF_PYTHON,
    MAX_NAME_CHARS,
    NAME_FORMS,
    PLAIN,
    SNAKE,
    reserved_at,
)
from statekit_codegen.check_values import DEVICE, DEVICES
from statekit_codegen.json_schema_conditions import (
    FAMILY,
    RESET,
    RING,
    SHARDING,
    TOLERANCE,
    VALUE,
)
from statekit_codegen.model import Path

__all__ = ["SHARED", "conditions_of", "limits_of", "names_of", "shared"]

Definition = dict[str, Any]
Language = type[attrs.AttrsInstance]


def shared(name: str) -> Definition:
    """A reference to one of the definitions."""
    return {"$ref": f"#/$defs/{name}"}


def limits_of(cls: Language, field: str) -> Definition:
    """What is narrower about the text or number of a key than its class says; mostly nothing."""
    return _LIMITS.get((cls, field), {})


def names_of(cls: Language, field: str) -> Definition:
    """What is asked of the entries of a mapping of names: the names, and how many."""
    return _NAMES.get((cls, field), {})


def conditions_of(cls: Language) -> list[Definition]:
    """What holds of several keys of one mapping together."""
    return _CONDITIONS.get(cls, [])


def _text(pattern: str, says: str, **others: Any) -> Definition:
    """A text of a pattern; `says` is what an editor shows instead of the pattern."""
    return {"type": "string", "pattern": pattern, "errorMessage": says, **others}


def _name(form: re.Pattern[str], place: Path) -> Definition:
    """A name at `place`: of the form, not too long, and no word that is taken."""
    taken = {*keyword.kwlist, *CONSTANTS_OF_PYTHON, *reserved_at(place)}
    written = sorted(word for word in taken if form.fullmatch(word))
    says = f"A name: {NAME_FORMS[form]}; no word that Python or generated code uses itself."
    return {
        **_text(patterns.whole(form), says, maxLength=MAX_NAME_CHARS),
        "not": {"enum": written},
    }


def _type(*examples: str) -> Definition:
    says = "A type: a name such as int, str, torch.Tensor or np.ndarray, list[...], or A | B."
    return _text(patterns.TYPE, says, examples=list(examples))


_COUNT = {"type": "integer", "minimum": 1, "maximum": MAX_VALUE}

SHARED: Definition = {
    "text": _text(patterns.TEXT, "A text without characters that its reader cannot see."),
    "size": {
        "anyOf": [
            _COUNT,
            _text(patterns.SIZE, "A size: whole numbers, names, + - * / //, min, max, ceil_div."),
        ]
    },
    "name": _name(SNAKE, ("model",)),
    "member": _name(SNAKE, ("values", "")),
    "symbol": _name(PLAIN, ("symbols", "")),
    "constant": _name(PLAIN, ("constants", "")),
}
"""Definitions that stand for no class of the language. Names differ in the words that are taken."""


def _entries(name: str) -> Definition:
    return {"propertyNames": shared(name)}


_AT_LEAST_1 = {"minimum": 1}
_AT_LEAST_0 = {"minimum": 0}


def _bound(least: int) -> Definition:
    named = _text(patterns.whole(PLAIN), "A number, or the name of a constant or a parameter.")
    return {"anyOf": [{**_COUNT, "minimum": least}, named]}


_LIMITS: dict[tuple[Language, str], Definition] = {
    (language.Schema, "statekit"): {
        "minimum": language.LANGUAGE_VERSION,
        "maximum": language.LANGUAGE_VERSION,
    },
    (language.Schema, "model"): shared("name"),
    (language.Schema, "class_"): _name(CAPS, ("class",)),
    (language.Schema, "atomic"): shared("name"),
    (language.Family, "members"): _text(
        patterns.whole(TEXT),
        f"What stands in a key: {KEY_CHARACTERS}.",
        maxLength=MAX_KEY_CHARS,
    ),
    (language.Growth, "every_steps"): _AT_LEAST_1,
    (language.Ring, "bound"): _bound(1),
    (language.Ring, "sink"): _bound(0),
    (language.Ring, "axis"): _AT_LEAST_0,
    (language.Index, "dtype"): {"enum": list(DTYPE_NBYTES)},
    (language.Codec, "cast"): {"enum": list(FLOATING)},
    (language.Tolerance, "atol"): _AT_LEAST_0,
    (language.Tolerance, "rtol"): _AT_LEAST_0,
    (language.ConcatView, "concat"): _AT_LEAST_0,
    (language.Rebuild, "sources"): shared("text"),
    (language.Rebuild, "cost_ms"): _AT_LEAST_0,
    (language.Sharding, "dim"): _AT_LEAST_0,
    (language.Sharding, "rank"): _AT_LEAST_0,
    (language.Measured, "nbytes"): _AT_LEAST_1,
    (language.Measured, "date"): _text(
        patterns.DATE, 'A day, as "YYYY-MM-DD".', examples=["2026-11-29"]
    ),
    (language.Value, "key"): _text(
        patterns.KEY_TEMPLATE,
        f"A key: {KEY_CHARACTERS}, and {{NAME}} for each family.",
        maxLength=MAX_KEY_CHARS,
    ),
    (language.Value, "type"): _type("int", "torch.Tensor | None"),
    (language.Value, "item"): _type("torch.Tensor", "np.ndarray"),
    (language.Value, "default"): {
        "minimum": -MAX_VALUE,
        "maximum": MAX_VALUE,
        "maxItems": 0,
        "maxProperties": 0,
        "errorMessage": "A number, a text, true or false, null, or an empty [] or {}.",
    },
    (language.Value, "dtype"): {"enum": list(DTYPE_NBYTES)},
    (language.Value, "device"): _text(
        patterns.whole(DEVICE), f"A device: {DEVICES}.", examples=["cpu", "model", "none", "cuda:0"]
    ),
    (language.Value, "family"): shared("name"),
    (language.Reset, "clears"): shared("name"),
    (language.Reset, "keeps"): shared("name"),
}

_VARIANT: Definition = {
    "type": "object",
    **_entries("symbol"),
    "minProperties": 1,
    "additionalProperties": {"type": "integer", "minimum": -MAX_VALUE, "maximum": MAX_VALUE},
}

_NAMES: dict[tuple[Language, str], Definition] = {
    (language.Schema, "outside"): _entries("name"),
    (language.Schema, "symbols"): _entries("symbol"),
    (language.Schema, "variants"): {**_entries("name"), "additionalProperties": _VARIANT},
    (language.Schema, "constants"): _entries("constant"),
    (language.Schema, "parameters"): _entries("member"),
    (language.Schema, "families"): _entries("member"),
    (language.Schema, "inputs"): _entries("name"),
    (language.Schema, "values"): {**_entries("member"), "minProperties": 1},
    (language.Schema, "atomic"): _entries("name"),
    (language.Schema, "resets"): _entries("name"),
    (language.Family, "members"): {**_entries("name"), "minProperties": 1},
}

_CONDITIONS: dict[Language, list[Definition]] = {
    language.Family: FAMILY,
    language.Ring: RING,
    language.Sharding: SHARDING,
    language.Tolerance: TOLERANCE,
    language.Value: VALUE,
    language.Reset: RESET,
}


def _known(tables: Iterable[Iterable[tuple[Language, str]]]) -> None:
    """A key that the language no longer has must not be limited in silence."""
    for cls, field in (key for table in tables for key in table):
        assert field in attrs.fields_dict(cls), f"{cls.__name__} has no field {field}"


_known((_LIMITS, _NAMES))
