"""Scalars: what one piece of YAML text means here, and which characters it may hold.

Owns the rule that decides between text, number, boolean and nothing. It is narrower than any
YAML reader's, so that a schema means the same to every reader, a person included: what readers
disagree about (`no`, `12:30`, `1e3`) is refused, with what to write instead.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import attrs
import yaml
from yaml.resolver import Resolver

from statekit.expressions import MAX_VALUE

__all__ = ["Scalar", "Trouble", "invisible", "read_plain", "shown"]

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": None, "~": None, "": None}
_INT = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
# What YAML 1.2 reads as a number and PyYAML, a 1.1 reader, as text.
_NUMBER_IN_1_2 = re.compile(r"0o[0-7]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_RESOLVER: Any = Resolver()
_MAX_SHOWN = 60

# By code point, not by Unicode category: the categories change from one Python to the next.
_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tab and line feed
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, bidi overrides
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\ud800-\udfff"  # halves of surrogate pairs, from escapes
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "]"
)


@attrs.frozen
class Trouble:
    """What is wrong with one piece of text: the rule, what was found, what to do."""

    rule: str
    found: str
    todo: str


def shown(value: object) -> str:
    """`value` as messages show it: on one line, printable, and not too long."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 4]}...{text[0]}"


def invisible(text: str, start: int = 0) -> re.Match[str] | None:
    """The first character in `text` that a reader of the file would not see as what it is."""
    return _INVISIBLE.search(text, start)


def describe_character(character: str) -> str:
    """`character` by its number and, where it has one, its name."""
    name = unicodedata.name(character, "a control character")
    return f"U+{ord(character):04X} ({name})"


def read_text(text: str) -> Trouble | None:
    """What is wrong with the characters of a text, if anything is."""
    found = invisible(text)
    if found is None:
        return None
    return Trouble(
        "TEXT_INVISIBLE",
        f"the text holds {describe_character(found[0])}",
        "remove it: a reader of the file can't see it",
    )


def read_plain(text: str) -> Scalar | Trouble:
    """What an unquoted scalar means, or why it is refused."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) or _FLOAT.fullmatch(text):
        return _number(text)
    tag = _pyyaml_tag(text)
    if tag == "str" and not _NUMBER_IN_1_2.fullmatch(text):
        return read_text(text) or text
    return _surprise(text, tag)


def _number(text: str) -> Scalar | Trouble:
    # The length first: Python refuses to read whole numbers of thousands of digits.
    number = float(text) if "." in text else int(text) if len(text) < 30 else MAX_VALUE + 1
    if abs(number) > MAX_VALUE:
        return Trouble("NUMBER_RANGE", f"{shown(text)} is beyond 63 bits", "write a smaller number")
    return number


def _pyyaml_tag(text: str) -> str:
    """The last part of the tag that PyYAML gives to `text`: `str`, `bool`, `timestamp`."""
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    return tag.rpartition(":")[2]


def _surprise(text: str, tag: str) -> Trouble:
    if tag == "merge":
        return Trouble("YAML_MERGE", "a merge key '<<'", "write the entries out")
    quoted = f"write {shown(text).replace(chr(39), chr(34))} if it is text"
    if tag == "str":
        reading = "a number to some YAML readers and text to others"
        return Trouble(
            "YAML_SURPRISE", f"{shown(text)} is {reading}", f"{quoted}, or a plain number"
        )
    kinds = {
        "bool": "a boolean",
        "null": "nothing",
        "timestamp": "a date",
        "value": "a default key",
    }
    reading = f"{kinds.get(tag, 'a number')} to a YAML reader"
    cure = ""
    if len(text) <= _MAX_SHOWN:
        value = _pyyaml_value(text)
        if value is not None:
            reading += f": {value}"
        if tag in ("int", "float") and not isinstance(read_plain(str(value)), (str, Trouble)):
            cure = f", or {value} if it is a number"
        elif tag == "bool":
            cure = f", or {str(value).lower()}"
        elif tag == "null":
            cure = ", or null"
    return Trouble("YAML_SURPRISE", f"{shown(text)} is {reading}", quoted + cure)


def _pyyaml_value(text: str) -> object:
    """What PyYAML makes of `text`; None where it fails (a 13th month)."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, OverflowError):
        return None
