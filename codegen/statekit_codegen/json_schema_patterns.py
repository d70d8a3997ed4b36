"""Patterns: the grammars of the language as regular expressions, as far as those can go.

Owns the patterns that a JSON Schema carries. Each accepts all that the parser accepts; nesting is
beyond a regular expression, so what is balanced, and what a name means, is left to the parser.

    P1  Patterns mean the same in Python and in ECMAScript: what one of them lacks is not used.
    P2  No pattern takes more than linear time: each character has one way to be matched.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from statekit.expressions import FUNCTIONS, MAX_EXPRESSION_CHARS
from statekit_codegen.check_keys import KEY
from statekit_codegen.check_names import SNAKE
from statekit_codegen.scalars import invisible
from statekit_codegen.type_grammar import CONTAINERS, MAX_TYPE_CHARS, TYPE_NAMES

__all__ = [
    "DATE",
    "KEY_TEMPLATE",
    "OPTIONAL_TYPE",
    "SIZE",
    "TEXT",
    "TYPE",
    "either",
    "only",
    "whole",
]


def whole(pattern: str | re.Pattern[str]) -> str:
    """The pattern that matches a text from its first to its last character."""
    return f"^(?:{pattern.pattern if isinstance(pattern, re.Pattern) else pattern})$"


def either(names: Collection[str]) -> str:
    """One of `names`; blanks around their dots, which Python allows."""
    return "|".join(name.replace(".", r" *\. *") for name in sorted(names))


def only(names: Collection[str]) -> str:
    """A type that is one of `names`, or alternatives that all are."""
    name = f" *(?:{either(names)}) *"
    return whole(rf"{name}(?:\|{name})*")


def _text() -> str:
    """Text without a character that `invisible` finds; what no UTF-8 file holds is left out."""
    characters = "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, 0x110000)))
    ranges: list[tuple[str, str]] = []
    at = 0
    while (found := invisible(characters, at)) is not None:
        at = found.end()
        if ranges and ord(ranges[-1][1]) + 1 == ord(found[0]):
            ranges[-1] = (ranges[-1][0], found[0])
        else:
            ranges.append((found[0], found[0]))
    inside = "".join(
        _escaped(first) + ("" if first == last else f"-{_escaped(last)}") for first, last in ranges
    )
    return f"^[^{inside}]*$"


def _escaped(character: str) -> str:
    # Beyond the first plane the two languages escape differently; JSON escapes those itself.
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else character


def _type() -> str:
    """Names and brackets of the grammar of types, each container with an opening bracket."""
    leaf = rf"(?:{either(TYPE_NAMES)})(?![A-Za-z0-9_.]| *[\[.])"
    container = rf"(?:{either([*CONTAINERS, 'Optional'])}) *\["
    return rf"^(?=.{{1,{MAX_TYPE_CHARS}}}$)(?:{leaf}|{container}|\.\.\.|[\],| ])+$"


def _size() -> str:
    """Operands with an operator between each two, in brackets that may not be balanced."""
    before = rf"(?:[-( ]|(?:{'|'.join(FUNCTIONS)}) *\()*"
    operand = r"(?:0+|[1-9][0-9]*|[A-Za-z_][A-Za-z0-9_]*)"
    after = "[) ]*"
    one = f"{before}{operand}{after}"
    return rf"^\s*(?=\S.{{0,{MAX_EXPRESSION_CHARS - 1}}}\s*$){one}(?:(?://?|[-+*,]){one})*\s*$"


def _date() -> str:
    """Days that the calendar has, the 29th of February in leap years only."""
    days = {
        "(?:0[13578]|1[02])": "(?:0[1-9]|[12][0-9]|3[01])",
        "(?:0[469]|11)": "(?:0[1-9]|[12][0-9]|30)",
        "02": "(?:0[1-9]|1[0-9]|2[0-8])",
    }
    common = "|".join(f"{month}-{day}" for month, day in days.items())
    by_four = "(?:0[48]|[2468][048]|[13579][26])"
    leap = f"(?:[0-9]{{2}}{by_four}|{by_four}00)"
    return rf"^(?!0000)(?:[0-9]{{4}}-(?:{common})|{leap}-02-29)$"


TEXT = _text()
TYPE = _type()
SIZE = _size()
DATE = _date()
KEY_TEMPLATE = whole(rf"(?:{KEY.pattern.rstrip('+')}|\{{{SNAKE.pattern}\}})+")
OPTIONAL_TYPE = r"^ *Optional *\[|^ *None *(?:\||$)|\| *None *$"
