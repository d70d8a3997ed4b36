"""What a benchmark says of itself, for the report: its group, its subject, its goal."""

from __future__ import annotations

from typing import Any

__all__ = ["mark"]


def mark(
    benchmark: Any,
    group: str,
    subject: str,
    *,
    baseline: bool = False,
    n: int = 1,
    goal: float | None = None,
    goal_s: float | None = None,
) -> None:
    """Name what is measured.

    Args:
        baseline: the others of the group are compared with this one.
        n: how many operations one run does.
        goal: the most times as long as the baseline that one operation should take.
        goal_s: the most seconds that one should take.
    """
    benchmark.group = group
    benchmark.extra_info.update(
        subject=subject, baseline=baseline, operations=n, goal=goal, goal_s=goal_s
    )
