"""The layout of a report on a terminal; plain in a pipe, where it has neither colour nor boxes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from statekit.simulation.outcome import Outcome
from statekit_codegen.console import can_print
from statekit_codegen.simulated.report import Report
from statekit_codegen.simulated.words import (
    POLICY_WORDS,
    assumptions,
    figures,
    load_words,
    sizes,
)

__all__ = ["print_report"]

_BAR, _BLOCK = 56, "█"
_PARTS = (("finished", "green", "#"), ("refused", "yellow", "-"), ("interrupted", "red", "x"))


def print_report(report: Report, console: Console) -> None:
    """Print `report` as wide as `console` is."""
    with console.capture() as capture:
        for block in _blocks(report, console):
            console.print(block)
            console.print()
    text = capture.get().rstrip("\n") + "\n"
    if not console.is_terminal:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    console.file.write(text)


def _blocks(report: Report, console: Console) -> Iterator[RenderableType]:
    yield Text(sizes(report))
    for load in report.loads:
        outcomes = report.at(load)
        bars = _bars(outcomes, console)
        title = Text(f"{load_words(load)[0].upper()}{load_words(load)[1:]}", "bold cyan")
        yield Group(title, Padding(bars, (0, 0, 0, 2)))
        yield Padding(_table(outcomes), (0, 0, 0, 2))
    width = min(console.width, 100)
    lines = [line for said in assumptions(report) for line in textwrap.wrap(said, width)]
    yield Group(*(Text(line, "dim") for line in lines))


def _bars(outcomes: list[Outcome], console: Console) -> RenderableType:
    """What became of the sessions, a bar for each policy, and what its letters mean."""
    blocks = console.is_terminal and can_print(_BLOCK, console)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for one in outcomes:
        bar, rest = Text(no_wrap=True), _BAR
        counts = (one.interrupted, one.refused, one.finished)
        sizes = []
        for count in counts[:2]:  # what is there is seen
            sizes.append(min(rest, max(round(_BAR * count / (one.begun or 1)), bool(count))))
            rest -= sizes[-1]
        for (_, colour, letter), size in zip(_PARTS, (rest, *reversed(sizes)), strict=True):
            bar.append((_BLOCK if blocks else letter) * size, colour)
        grid.add_row(Text(POLICY_WORDS[one.policy]), bar)
    said = Text()
    for name, colour, letter in _PARTS:
        said.append(_BLOCK if blocks else letter, colour).append(f" {name}   ", "dim")
    grid.add_row(Text(""), said)
    return grid


def _table(outcomes: list[Outcome]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    for _ in outcomes:
        grid.add_column(justify="right", no_wrap=True)
    grid.add_row(Text(""), *(Text(POLICY_WORDS[one.policy], "dim") for one in outcomes))
    rows = [list(figures(one)) for one in outcomes]
    for cells in zip(*rows, strict=True):
        grid.add_row(Text(cells[0][0]), *(Text(text) for _, text in cells))
    return grid
