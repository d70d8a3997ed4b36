"""One statement many times in a row: what the loop costs must not hide what the statement costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["TIMES", "repeated"]

TIMES = 200


def repeated(statement: str) -> Callable[[Any], None]:
    """A function of `state` (and `value`) that runs `statement` TIMES times, without a loop."""
    lines = "\n ".join([statement] * TIMES)
    names: dict[str, Any] = {}
    exec(f"def run(state, value=1):\n {lines}\n", names)
    run: Callable[[Any], None] = names["run"]
    return run
