"""Turns pytest-benchmark's JSON into the table that `make bench` prints and writes.

Run as `python tests/benchmarks/report.py RESULT.json PAGE.md`. Ratios come first: they hold from
one machine to the next much better than times do.
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

INTRODUCTION = """\
# Benchmarks

Written by `make bench`. Each group has a baseline, whose ratio is 1; the ratio says how many times
as long something takes as the baseline, the time what that was on one machine. Both are from
the fastest of many rounds; reads and writes stand in a row without a loop, so the figures are
the bare cost of one. Nothing is asserted on them.
"""


@attrs.frozen
class Line:
    """One measured subject: its time, and the ratio to the baseline of its group."""

    group: str
    subject: str
    ratio: float
    each_s: float


def lines(result: dict[str, Any]) -> Iterator[Line]:
    """The measured subjects, group by group, in the order in which they ran."""
    for group, members in itertools.groupby(result["benchmarks"], key=lambda entry: entry["group"]):
        each_s, baseline_s = {}, 0.0
        for entry in members:
            info = entry["extra_info"]
            each_s[info["subject"]] = entry["stats"]["min"] / info["operations"]
            if info["baseline"]:
                baseline_s = each_s[info["subject"]]
        for subject, seconds in each_s.items():
            yield Line(group, subject, seconds / baseline_s, seconds)


def page(measured: list[Line]) -> str:
    """The Markdown page."""
    versions = f"Python {platform.python_version()}, statekit {statekit.__version__}."
    parts = [INTRODUCTION, f"{versions}\n"]
    for group, members in itertools.groupby(measured, key=lambda line: line.group):
        rows = "".join(f"| {m.subject} | {m.ratio:.2f} | {_time(m.each_s)} |\n" for m in members)
        parts.append(f"## {group}\n\n| | ratio | time |\n| --- | ---: | ---: |\n{rows}")
    return "\n".join(parts)


def table(measured: list[Line]) -> Table:
    """The same for a terminal."""
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    shown.add_column("")
    shown.add_column("ratio", justify="right", no_wrap=True)
    shown.add_column("time", justify="right", no_wrap=True)
    for group, members in itertools.groupby(measured, key=lambda line: line.group):
        shown.add_row(group, style="bold")
        for m in members:
            shown.add_row(f"  {m.subject}", f"{m.ratio:.2f}", _time(m.each_s))
    return shown


def _time(seconds: float) -> str:
    nanoseconds = seconds * 1e9
    if nanoseconds < 1000:
        return f"{nanoseconds:.1f} ns"
    return f"{nanoseconds / 1e3:.1f} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.2f} ms"


def main(result: Path, page_file: Path) -> None:
    """Print the table and write the page."""
    measured = list(lines(json.loads(result.read_text(encoding="utf-8"))))
    Console(highlight=False).print(table(measured))
    page_file.write_text(page(measured), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
