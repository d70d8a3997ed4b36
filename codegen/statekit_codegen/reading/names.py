"""Names: what the values of a schema are called that stand for the attributes of a class.

M1  No two attributes get one name, and each name is one that the loader takes.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable

from statekit.expressions import FUNCTIONS
from statekit_codegen.check_names import (
    ADAPTER_MEMBERS,
    CONSTANTS_OF_PYTHON,
    MAX_NAME_CHARS,
    PLAIN,
)
from statekit_codegen.module_names import RESERVED_NAMES

__all__ = ["is_number_name", "snake", "value_names"]

_RESERVED = RESERVED_NAMES | CONSTANTS_OF_PYTHON | {*ADAPTER_MEMBERS, *FUNCTIONS}
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake(name: str) -> str:
    """A name in lower case, with `_` between words."""
    words = _WORD_STARTS.sub("_", name).lower()
    text = re.sub(r"[^a-z0-9_]+", "_", words).strip("_")
    return text if text[:1].isalpha() else f"value_{text}".rstrip("_")


def is_number_name(name: str, form: re.Pattern[str] = PLAIN) -> bool:
    """Whether a constant (or a parameter, by its form) may be called so."""
    free = name not in _RESERVED and not keyword.iskeyword(name)
    return free and form.fullmatch(name) is not None and len(name) <= MAX_NAME_CHARS


def _clashes(name: str, used: Collection[str]) -> bool:
    """Whether a name, or the object of a value of that name, is another one's."""
    stem = name.removesuffix("_object")
    return name in used or f"{name}_object" in used or (stem != name and stem in used)


def value_names(attributes: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """The value that stands for each attribute; one that is a name already keeps it."""
    found: dict[str, str] = {}
    used = set(taken)
    # Attributes whose names are fine come first, so that `_x` gives way to `x`.
    ordered = sorted(attributes, key=lambda name: (snake(name) != name, name))
    for name in ordered:
        text = snake(name)[: MAX_NAME_CHARS - 8]
        if text in _RESERVED or keyword.iskeyword(text):
            text = f"{text}_value"
        candidate, count = text, 2
        while _clashes(candidate, used):
            candidate, count = f"{text}_{count}", count + 1
        used.add(candidate)
        found[name] = candidate
    return found
