"""Several FixedStates that are committed together, or not at all.

Owns the order: every payload is staged before any buffer is written, so one that does not fit
leaves all of them as they were; what a payload shares with a buffer of any of them is copied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statekit.objects.fixed_state import FixedState

__all__ = ["commit_together"]


def commit_together(states: Sequence[FixedState[Any]], payloads: Sequence[Any]) -> None:
    """Commit one payload into each state, at the addresses that its buffers have.

    Raises: what staging one of them raises; then all are as they were, with what was staged.
    """
    buffers = [buffer for state in states for buffer in state.buffers()]
    before = [state.staged() for state in states]
    try:
        for state, payload in zip(states, payloads, strict=True):
            state.stage_beside(payload, buffers)
    except BaseException:
        for state, staged in zip(states, before, strict=True):
            state.stage_again(staged)
        raise
    for state in states:
        state.commit()
