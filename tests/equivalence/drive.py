"""Driving two implementations side by side: run the same call on both, compare what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tests.equivalence.bits import assert_same_bits

__all__ = ["Outcome", "assert_same_outcome", "outcome"]


@attrs.frozen
class Outcome:
    """What a call gave: a value, or an error's type and words (an error itself holds frames)."""

    value: Any = None
    error: type[Exception] | None = None
    words: str = ""


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """The outcome of one call."""
    try:
        return Outcome(value=call(*args, **kwargs))
    except Exception as error:
        return Outcome(error=type(error), words=str(error))


def assert_same_outcome(adapter: Outcome, hand: Outcome, *contract: str) -> None:
    """Both gave the same bits, or both raised; the adapter's error is one of the hand-rolled type.

    Args:
        contract: words that stand in the adapter's text wherever the hand-rolled text has them.
    """
    if hand.error is None:
        assert adapter.error is None, f"raised {adapter.words}"
        assert_same_bits(adapter.value, hand.value)
        return
    assert adapter.error is not None, f"no error, want {hand.error.__name__}: {hand.words}"
    assert issubclass(adapter.error, hand.error), (adapter.error, hand.error)
    for words in contract:
        assert (words in adapter.words) == (words in hand.words), (adapter.words, hand.words)
