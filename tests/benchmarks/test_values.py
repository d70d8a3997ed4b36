"""What it costs to read and to write one value of a session."""

from __future__ import annotations

from typing import Any

import pytest

from statekit.adapters.generated.dreamzero import DreamZeroState
from statekit.manager import SessionStateManager
from tests.benchmarks.mark import mark
from tests.benchmarks.repeat import TIMES, repeated


class Plain:
    """The fastest that Python has: an attribute of the instance."""

    def __init__(self) -> None:
        self.value = 1


class WithProperty:
    """What a careful author would write for a value that is converted when it is assigned."""

    def __init__(self) -> None:
        self._value = 1

    @property
    def value(self) -> int:
        return self._value

    @value.setter
    def value(self, value: int) -> None:
        self._value = int(value)


def adapter(*assigned: str) -> DreamZeroState:
    """An adapter with these values assigned; all others are absent."""
    state = DreamZeroState("robot", SessionStateManager())
    for name in assigned:
        setattr(state, name, 1)
    return state


READ, WRITE = "Read a value", "Write a value"
READ_COERCED, WRITE_COERCED = "Read a converted value", "Write a converted value"
GOALS = {READ: 3.0, WRITE: 3.0, READ_COERCED: 1.0, WRITE_COERCED: 1.0}

CASES = [
    ("attribute of a plain object", READ, Plain(), "state.value", True),
    ("value of the adapter", READ, adapter("clip_feas"), "state.clip_feas", False),
    ("value of the adapter, absent: default", READ, adapter(), "state.clip_feas", False),
    ("attribute of a plain object", WRITE, Plain(), "state.value = value", True),
    ("value of the adapter", WRITE, adapter(), "state.clip_feas = value", False),
    ("property", READ_COERCED, WithProperty(), "state.value", True),
    ("value of the adapter", READ_COERCED, adapter("call_count"), "state.call_count", False),
    (
        "value of the adapter, absent: default",
        READ_COERCED,
        adapter(),
        "state.call_count",
        False,
    ),
    ("attribute of a plain object", READ_COERCED, Plain(), "state.value", False),
    ("property", WRITE_COERCED, WithProperty(), "state.value = value", True),
    ("value of the adapter", WRITE_COERCED, adapter(), "state.call_count = value", False),
    ("attribute of a plain object", WRITE_COERCED, Plain(), "state.value = value", False),
]


@pytest.mark.parametrize(("subject", "group", "state", "statement", "baseline"), CASES)
def test_value(
    benchmark: Any, subject: str, group: str, state: Any, statement: str, baseline: bool
) -> None:
    """One read or write, next to its baseline."""
    goal = GOALS[group] if subject == "value of the adapter" else None
    mark(benchmark, group, subject, baseline=baseline, n=TIMES, goal=goal)
    benchmark(repeated(statement), state)
