"""Text from files and clients, made fit to be shown.

Needs nothing of statekit, so that everything else may use it.
"""

from __future__ import annotations

__all__ = ["on_one_line"]


def on_one_line(text: str) -> str:
    """`text` without characters that move, hide or colour what a terminal shows."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
