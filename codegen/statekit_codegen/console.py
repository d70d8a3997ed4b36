"""Console: where commands print for people; plain and of a fixed width in a pipe."""

from __future__ import annotations

import os
import sys

from rich.console import Console

__all__ = ["PIPE_WIDTH", "can_print", "console_of"]

PIPE_WIDTH = 80


def console_of(width: int | None) -> Console:
    """A console as wide as asked for: by the option, then COLUMNS, then the terminal."""
    if width is None and not sys.stdout.isatty():
        columns = os.environ.get("COLUMNS", "")
        width = max(40, int(columns)) if columns.isdecimal() and columns.isascii() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False, emoji=False)


def can_print(text: str, console: Console) -> bool:
    """Whether the console's encoding has all letters of a text."""
    try:
        text.encode(console.encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True
