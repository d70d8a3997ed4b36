"""Turns pytest-benchmark's JSON into the table and the plot that `make bench` writes.

Run as `python -m tests.benchmarks.report RESULT.json PAGE.md`; the plot lies beside the page.
Ratios come first: they hold from one machine to the next much better than times do.
"""

from __future__ import annotations

import itertools
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

import statekit
from tests.benchmarks.chart import chart

INTRODUCTION = """\
# Benchmarks

Written by `make bench`. Each group has a baseline, whose ratio is 1; the ratio says how many times
as long something takes as the baseline, the time what that was on one machine. Both are from
the fastest of many rounds, but for waits, of which one in a hundred is longer than the figure.
Reads and writes stand in a row without a loop, so they are the bare cost of one. Nothing is
asserted on any of it. A goal is a ratio, or a time where it has a unit.
"""


@attrs.frozen
class Line:
    """One measured subject: its time, the ratio to its baseline, and its goals, if any.

    Attributes:
        goal: the largest ratio that it should have; one for a time is made a ratio too.
        wanted: the goal in words.
    """

    group: str
    subject: str
    baseline: bool
    ratio: float
    each_s: float
    goal: float | None
    wanted: str

    @property
    def missed(self) -> bool:
        """Whether it takes longer than it should."""
        return self.goal is not None and self.ratio > self.goal


def lines(result: dict[str, Any]) -> Iterator[Line]:
    """The measured subjects, group by group, in the order in which they ran."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for entry in result["benchmarks"]:
        info = entry["extra_info"]
        info.setdefault("each_s", entry["stats"]["min"] / info["operations"])
        groups.setdefault(entry["group"], []).append(info)
    for group, members in groups.items():
        baseline_s = next(info["each_s"] for info in members if info["baseline"])
        for info in members:
            yield _line(group, info, baseline_s)


def _line(group: str, info: dict[str, Any], baseline_s: float) -> Line:
    goal, goal_s = info["goal"], info["goal_s"]
    wanted = [] if goal is None else [f"{goal:.2f}"]
    wanted += [] if goal_s is None else [time_text(goal_s)]
    goals = [one for one in (goal, goal_s and goal_s / baseline_s) if one is not None]
    return Line(
        group,
        info["subject"],
        info["baseline"],
        info["each_s"] / baseline_s,
        info["each_s"],
        min(goals, default=None),
        ", ".join(wanted),
    )


def page(measured: list[Line], plot: str) -> str:
    """The Markdown page, with a link to the plot."""
    versions = f"Python {platform.python_version()}, statekit {statekit.__version__}."
    missed = [f"- {one.group}: {one.subject}, {_figures(one)}\n" for one in measured if one.missed]
    parts = [
        INTRODUCTION,
        f"{versions}\n",
        f"![Ratios, and the goals that there are]({plot})\n",
        "## What misses its goal\n",
        "".join(missed) or "Nothing.\n",
    ]
    for group, members in itertools.groupby(measured, key=lambda line: line.group):
        rows = "".join(
            f"| {m.subject} | {m.ratio:.2f} | {time_text(m.each_s)} | {m.wanted} |\n"
            for m in members
        )
        parts.append(
            f"## {group}\n\n| | ratio | time | goal |\n| --- | ---: | ---: | ---: |\n{rows}"
        )
    return "\n".join(parts)


def _figures(line: Line) -> str:
    return f"{line.ratio:.2f} or {time_text(line.each_s)}, goal {line.wanted}"


def table(measured: list[Line]) -> Table:
    """The same for a terminal."""
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    shown.add_column("")
    for heading in ("ratio", "time", "goal"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for group, members in itertools.groupby(measured, key=lambda line: line.group):
        shown.add_row(group, style="bold")
        for m in members:
            style = "red" if m.missed else None
            figures = (f"{m.ratio:.2f}", time_text(m.each_s), m.wanted)
            shown.add_row(f"  {m.subject}", *figures, style=style)
    return shown


def time_text(seconds: float) -> str:
    """A time with the unit that fits it."""
    nanoseconds = seconds * 1e9
    if nanoseconds < 1000:
        return f"{nanoseconds:.1f} ns"
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.1f} us"
    return f"{nanoseconds / 1e6:.2f} ms" if nanoseconds < 1e9 else f"{seconds:.2f} s"


def main(result: Path, page_file: Path) -> None:
    """Print the table, write the page and the plot."""
    measured = list(lines(json.loads(result.read_text(encoding="utf-8"))))
    Console(highlight=False).print(table(measured))
    plot = page_file.with_suffix(".svg")
    plot.write_text(chart(measured), encoding="utf-8")
    page_file.write_text(page(measured, plot.name), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
