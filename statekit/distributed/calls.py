"""Calls: what was asked of one rank, in order, so that ranks that were asked other things find out.

A forward that changes no decision talks to nobody. So calls are kept here until the next meeting,
which compares their digest; where it differs, the calls themselves are compared, and the first one
that is not the same is named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

__all__ = ["Calls", "first_difference"]


_KEPT = 4096
"""How many calls are kept at most; of older ones the digest alone is known."""


class Calls:
    """The calls of one rank.

    Attributes:
        count: how many there were before those that are kept.
        kept: those since the last meeting: what was called, for which session.
    """

    def __init__(self) -> None:
        self.count = 0
        self.kept: list[tuple[str, str]] = []
        self._folded = ""
        self._last: tuple[str, str] = ("nothing", "")

    def note(self, call: str, key: str = "") -> None:
        """One call more."""
        self._last = (call, key)
        self.kept.append(self._last)
        if len(self.kept) >= _KEPT:
            self._folded = self.digest()
            self._forget()

    @property
    def last(self) -> str:
        """The last call, in words."""
        return _words(self._last)

    def digest(self) -> str:
        """The same on two ranks where the calls are."""
        text = json.dumps([self._folded, self.count, self.kept])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def agreed(self) -> None:
        """All ranks have made these calls."""
        self._folded = ""
        self._forget()

    def told(self) -> list[object]:
        """What is said of them where they differ."""
        return [self._folded, self.count, self.kept]

    def _forget(self) -> None:
        self.count += len(self.kept)
        self.kept.clear()


def first_difference(told: Sequence[Sequence[Any]]) -> str:
    """Where the calls of the ranks part, in words; `told` is by rank."""
    if any(one[:2] != told[0][:2] for one in told):
        return f"their calls part more than {_KEPT} calls ago"
    count, kept = told[0][1], [one[2] for one in told]
    for index in range(max(map(len, kept))):
        here = [_words(one[index]) if index < len(one) else "nothing more" for one in kept]
        if len(set(here)) > 1:
            said = "; ".join(
                f"{_ranks([rank for rank, other in enumerate(here) if other == one])}: {one}"
                for one in dict.fromkeys(here)
            )
            return f"call {count + index + 1} differs: {said}"
    return "their calls are the same, what they met about is not"


def _words(call: Sequence[str]) -> str:
    what, key = call
    return f"{what} {key!r}" if key else what


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
