"""YamlText: pieces of a schema as a person writes them, and as every YAML reader reads them."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from statekit.expressions import MAX_VALUE
from statekit_codegen.scalars import invisible, read_plain

__all__ = ["WIDTH", "entry", "flow", "plain_value", "scalar", "visible"]

WIDTH = 100
_PLAIN_START = re.compile(r"[A-Za-z0-9_(/.$]")
_FLOW = re.compile(r"[\[\]{},]")


def visible(text: str) -> str:
    """`text` on one line, without characters that a reader can't see."""
    text = " ".join(text.split())
    while (found := invisible(text)) is not None:
        text = text.replace(found[0], "?")
    return text


def scalar(text: str, *, inside: bool = False) -> str:
    """A text: bare where it can be, else in quotes; `inside` brackets more needs quotes."""
    text = visible(text)
    bare = (
        _PLAIN_START.match(text) is not None
        and read_plain(text) == text
        and ": " not in text
        and " #" not in text
        and not text.endswith((":", " "))
        and not (inside and _FLOW.search(text))
    )
    return text if bare else json.dumps(text, ensure_ascii=False)


def plain_value(value: Any) -> str | None:
    """A literal as YAML, None where the language has no form for it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        return "[]" if isinstance(value, list) else "{}"
    if isinstance(value, str):
        return scalar(value) if value and value == visible(value) else _quoted(value)
    if not abs(value) <= MAX_VALUE:
        return None
    if isinstance(value, int):
        return str(value)
    text = format(Decimal(repr(value)), "f")
    return text if "." in text else f"{text}.0"


def _quoted(value: str) -> str | None:
    return None if invisible(value) else json.dumps(value, ensure_ascii=False)


def flow(items: Iterable[tuple[str, str]]) -> str:
    """A mapping on one line, of values that are YAML already."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in items) + "}"


def entry(key: str, value: str, indent: int, comment: str = "", fold: bool = True) -> list[str]:
    """The lines of one entry: its value on the same line, or a long text folded below."""
    pad = " " * indent
    line = f"{pad}{key}: {value}"
    if len(line) <= WIDTH or not fold:
        return [_with_comment(line, comment)]
    text = json.loads(value) if value.startswith('"') else value
    body = textwrap.wrap(text, WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False)
    return [_with_comment(f"{pad}{key}: >-", comment), *(f"{pad}  {part}" for part in body)]


def _with_comment(line: str, comment: str) -> str:
    return f"{line}  # {visible(comment)}" if comment else line
