"""What the demo prints: one layout for a terminal of any width and for a pipe.

No boxes and no emphasis that carries meaning: in a pipe, or under NO_COLOR, the same words stand
without colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from statekit_codegen.units import format_nbytes
from tests.demo.comparison import Comparison

__all__ = ["heading", "print_review", "print_summary", "track"]

Rollout = Any
"""Has a `comparison`, and runs one step an iteration."""


def heading(console: Console, text: str, note: str = "") -> None:
    """A heading with a line of explanation."""
    console.print()
    console.print(Text(text, style="bold"))
    if note:
        console.print(Text(note, style="dim"))


def print_review(console: Console, review: dict[str, Any]) -> None:
    """The review's figures, a line per value; the reasons are in `statekit review`."""
    sessions = review["sessions"]
    for model in review["models"]:
        table = _table()
        table.add_column(Text(model["model"], style="bold"), no_wrap=True)
        table.add_column("bucket", no_wrap=True)
        table.add_column("keeps", overflow="fold")
        table.add_column("a session", justify="right", no_wrap=True)
        table.add_column(f"{sessions} sessions", justify="right", no_wrap=True)
        for value in model["values"]:
            nbytes, of_all = value["nbytes"], value["sessions_nbytes"]
            table.add_row(
                value["name"],
                value["bucket"],
                _keeps(value),
                format_nbytes(nbytes) if nbytes else "-",
                format_nbytes(of_all) if of_all else "-",
            )
        _print_table(console, table)


def _keeps(value: dict[str, Any]) -> str:
    if value["unbounded"]:
        return "all, unbounded"
    if value["bound"]:
        return f"newest {value['bound']['limit']} {value['bound']['unit']}"
    if value["members"] > 1:
        return f"{value['members']} members"
    return "as assigned"


def track(console: Console, rollout: Rollout) -> None:
    """Run a rollout to its end and show how far it is."""
    comparison: Comparison = rollout.comparison
    console.print()
    console.print(Text(comparison.model, style="bold"))
    console.print(Text(comparison.setup, style="dim"))
    if console.is_terminal:
        _track_with_bar(console, rollout)
        return
    for step in rollout:
        if (step + 1) % 8 == 0 or step + 1 == comparison.steps:
            verdict = "equal bits so far" if comparison.equal else "DIFFERENT"
            done = f"step {step + 1} of {comparison.steps}"
            console.print(f"{done}: {comparison.tensors:,} tensors compared, {verdict}")


def _track_with_bar(console: Console, rollout: Rollout) -> None:
    columns = (
        BarColumn(bar_width=32, complete_style="green", finished_style="green"),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[verdict]}"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=rollout.comparison.steps, verdict="")
        for _ in rollout:
            comparison = rollout.comparison
            verdict = f"{comparison.tensors:,} equal" if comparison.equal else "DIFFERENT"
            progress.update(bar, advance=1, verdict=verdict)


def print_summary(console: Console, comparisons: Iterable[Comparison]) -> None:
    """The findings of each model, one below the other; hand-rolled beside generated."""
    for comparison in comparisons:
        table = _table()
        table.add_column(Text(comparison.model, style="bold"), no_wrap=True)
        table.add_column("hand-rolled", overflow="fold")
        table.add_column("generated", overflow="fold")
        for row in _rows(comparison):
            table.add_row(*row)
        _print_table(console, table)


def _rows(comparison: Comparison) -> Iterator[tuple[str, str | Text, str | Text]]:
    if comparison.equal:
        verdict = Text("yes", style="bold green")
        verdict.append(f", {comparison.tensors:,} tensors compared", style="not bold default")
    else:
        verdict = Text(f"NO, first at {comparison.first_difference}", style="bold red")
    yield "equal bits", "the reference", verdict
    yield "bytes reported", "no report", _devices(comparison.reported)
    yield "bytes held", _devices(comparison.hand_held), _devices(comparison.held)
    yield comparison.bounded_what, comparison.hand_bounded, comparison.adapter_bounded
    yield "after the session", "", f"{comparison.after} B"
    hand, adapter = comparison.hand_median_s, comparison.adapter_median_s
    ratio = adapter / hand
    yield "state work a step", _duration(hand), f"{_duration(adapter)}, {ratio:.2f} times as long"
    model_s = comparison.model_s / 2 / comparison.steps
    yield "model work a step", _duration(model_s), "the same models"


def _devices(nbytes: dict[str, int]) -> str:
    return ", ".join(f"{device} {n:,} B ({format_nbytes(n)})" for device, n in nbytes.items())


def _duration(seconds: float) -> str:
    return f"{1e3 * seconds:,.2f} ms" if seconds < 0.01 else f"{1e3 * seconds:,.0f} ms"


def _print_table(console: Console, table: Table) -> None:
    """Print it after an empty line; in a pipe without the spaces that fill the last column."""
    console.print()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(line.rstrip(), markup=False, soft_wrap=True)


def _table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
