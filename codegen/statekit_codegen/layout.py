"""Layout: Python source of literals, calls, headers and docstrings, as a formatter leaves it.

Owns the shape of what is written, for a line length of 88. Knows nothing of schemas.

    Y1  Text stays text: whatever a string holds, what is written is one literal or one docstring.
    Y2  `ruff format` finds nothing to change, at 88 columns and at 100: what does not fit on one
        line is exploded with a trailing comma, which holds it open, and what cannot be is marked
        `# fmt: skip`.
    Y3  The same on every Python: nothing depends on the version of its Unicode tables.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

import attrs

__all__ = [
    "WIDTH",
    "Call",
    "Dict",
    "Expr",
    "Items",
    "docstring",
    "escape",
    "header",
    "lay",
    "line",
    "literal",
    "statement",
    "string",
    "wrap",
]

WIDTH = 88

# Control, format and invisible characters, and surrogates. Not `str.isprintable`: its answer
# changes with the Unicode version of the Python that asks.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LONE_STRING = re.compile(r"""\s*(\w+=)?(".*"|'.*'),?""")


@attrs.frozen
class Call:
    """`function(name=value, ...)`; a name may be empty, for a positional argument."""

    function: str
    arguments: Sequence[tuple[str, Expr]] = ()


@attrs.frozen
class Items:
    """A tuple, or a list."""

    items: Sequence[Expr]
    brackets: str = "()"


@attrs.frozen
class Dict:
    """A dict display."""

    items: Sequence[tuple[Expr, Expr]]


Expr = str | Call | Items | Dict
"""An expression; as `str` it is source already: a name, or what `string` returned."""


def escape(text: str) -> str:
    """`text` with backslashes and invisible characters as escapes; quotes stay."""

    def escaped(match: re.Match[str]) -> str:
        char = match[0]
        code = ord(char)
        if char in _SHORT_ESCAPES:
            return _SHORT_ESCAPES[char]
        if code < 0x100:
            return f"\\x{code:02x}"
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return _INVISIBLE.sub(escaped, text.replace("\\", "\\\\"))


def string(text: str) -> str:
    """A string literal, in the quotes that need fewer escapes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + escape(text).replace(quote, "\\" + quote) + quote


def literal(value: object) -> Expr:
    """The expression of a plain value: a text, a number, a boolean, None, or a container of such.

    Raises:
        TypeError: a value of another type.
    """
    if isinstance(value, str):
        return string(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return Call("float", [("", string(repr(value)))])
        return repr(value).replace("e+", "e")
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return Items([literal(item) for item in value], "()" if type(value) is tuple else "[]")
    if isinstance(value, Mapping):
        return Dict([(literal(key), literal(item)) for key, item in value.items()])
    raise TypeError(f"no literal for a {type(value).__name__}")


def lay(expr: Expr, indent: int, *, before: int = 0, after: int = 0, explode: bool = False) -> str:
    """The source of `expr`, on one line if it fits.

    Args:
        indent: columns in front of the statement that it is part of.
        before: columns that come before it on its line, after `indent`.
        after: columns that come after it on its line.
        explode: explode it even where it fits.
    """
    flat = _flat(expr)
    parts = _parts(expr)
    if not parts or not (explode or indent + before + _columns(flat) + after > WIDTH):
        return flat
    only_tuple = isinstance(expr, Items) and expr.brackets == "()" and len(parts) == 1
    if only_tuple and not _parts(parts[0][1]):
        return flat  # its comma is no trailing comma: a formatter would join it again
    start, end = _ends(expr)
    pad = " " * (indent + 4)
    lines = [
        pad + prefix + lay(part, indent + 4, before=len(prefix), after=1, explode=only_tuple) + ","
        for prefix, part in parts
    ]
    return "\n".join([start, *lines, " " * indent + end])


def line(before: str, expr: Expr, indent: int) -> str:
    """The indented statement `before`, such as `x = ` or `return `, and `expr`."""
    return statement(" " * indent + before + lay(expr, indent, before=_columns(before)))


def statement(text: str) -> str:
    """`text`, marked where it has a line that a formatter would break at one length or another."""
    for line in text.split("\n"):
        if _columns(line) > WIDTH and not _LONE_STRING.fullmatch(line):
            return text + "  # fmt: skip"
    return text


def header(name: str, parameters: Sequence[str], returns: str, indent: int) -> str:
    """The first line or lines of a function, up to its colon."""
    pad = " " * indent
    flat = f"{pad}def {name}({', '.join(parameters)}) -> {returns}:"
    if _columns(flat) <= WIDTH or not parameters:
        return statement(flat)
    lines = [f"{pad}    {parameter}," for parameter in parameters]
    # A bare * takes no part in the trailing comma, but is a line of its own all the same.
    return statement("\n".join([f"{pad}def {name}(", *lines, f"{pad}) -> {returns}:"]))


def wrap(text: str, indent: int, *, lead: str = "", hang: int = 0) -> list[str]:
    """The words of `text`, escaped for a docstring, in lines that fit at `indent`.

    Args:
        lead: starts the first line.
        hang: further columns in front of every line but the first.
    """
    words = " ".join(escape(word) for word in text.split())
    words = re.sub('"{3,}', lambda run: '\\"' * len(run[0]), words)
    return textwrap.wrap(
        lead + words,
        WIDTH - indent,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def docstring(lines: Iterable[str], indent: int) -> str:
    """A docstring of lines from `wrap`, and empty ones; not indented at its start."""
    first, *rest = lines
    if first.startswith('"'):
        first = "\\" + first
    pad = " " * indent
    if not rest and _columns(first) + 6 + indent <= WIDTH and first[-1:] not in ('"', "\\"):
        return f'"""{first}"""'
    body = [pad + line if line else "" for line in rest]
    return "\n".join([f'"""{first}', *body, f'{pad}"""'])


def _columns(text: str) -> int:
    """Columns that `text` takes at most: a character beyond ASCII may be wide."""
    return len(text) if text.isascii() else sum(1 if char.isascii() else 2 for char in text)


def _parts(expr: Expr) -> list[tuple[str, Expr]]:
    """What stands on lines of its own when `expr` is exploded, each with its prefix."""
    if isinstance(expr, Call):
        return [(f"{name}=" if name else "", value) for name, value in expr.arguments]
    if isinstance(expr, Items):
        return [("", item) for item in expr.items]
    if isinstance(expr, Dict):
        return [(f"{_flat(key)}: ", value) for key, value in expr.items]
    return []


def _ends(expr: Expr) -> tuple[str, str]:
    if isinstance(expr, Call):
        return f"{expr.function}(", ")"
    if isinstance(expr, Items):
        return expr.brackets[0], expr.brackets[1]
    return "{", "}"


def _flat(expr: Expr) -> str:
    if isinstance(expr, str):
        return expr
    parts = [prefix + _flat(part) for prefix, part in _parts(expr)]
    start, end = _ends(expr)
    comma = "," if isinstance(expr, Items) and expr.brackets == "()" and len(parts) == 1 else ""
    return start + ", ".join(parts) + comma + end
