"""Sources: what a server answers with.

Owns the form of a source. There are two: of a manager (`taking`), of a service (`service`). Who
asks, and how, is `server`. Loads without torch.
"""

from __future__ import annotations

from typing import Protocol

from statekit.watch import wire
from statekit.watch.picture import Happening

__all__ = ["REMEMBERED", "Source", "happening"]

REMEMBERED = 256
"""Happenings that are kept for who asks later."""


class Source(Protocol):
    """What a server shows. Called by its thread alone, but for `close`."""

    def answer(self, ask: wire.Ask) -> bytes:
        """The line that answers.

        Raises:
            Exception: nothing can be shown; the client is told so.
        """

    def close(self) -> None:
        """Nobody will ask any more; safe to repeat, and from any thread."""


def happening(number: int, at: float, kind: str, warning: bool, text: str) -> Happening:
    """One that is no longer than an answer may hold."""
    if len(text) > 2 * wire.MAX_ID:
        text = text[: 2 * wire.MAX_ID - 1] + "…"
    return Happening(number, at, kind, warning, text)
