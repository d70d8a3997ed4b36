"""Text: the report on a run for a terminal, or for a pipe of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from statekit.measure.finding import Finding
from statekit_codegen.measured.report import ModelReport, Report, Row
from statekit_codegen.measured.words import (
    declared_words,
    growth_words,
    number_words,
    recording_words,
    remark,
    sessions_words,
    verdict,
)
from statekit_codegen.units import format_nbytes

__all__ = ["print_report"]


def print_report(report: Report, console: Console) -> None:
    """Print `report` as wide as `console` is."""
    plain = not console.is_terminal
    with console.capture() as capture:
        for model in report.models:
            for block in _model(model, plain):
                console.print(block)
                console.print()
        console.print(_end(report))
    text = capture.get().rstrip("\n") + "\n"
    if plain:  # cells are padded with blanks, which only a terminal needs
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    console.file.write(text)


def _model(model: ModelReport, plain: bool) -> Iterator[RenderableType]:
    title = Text.assemble((model.model or "no schema", "bold"), f"  {model.spec.schema}".rstrip())
    head: RenderableType
    if plain:
        head = Group(title, Text("=" * title.cell_len, no_wrap=True, overflow="crop"))
    else:
        head = Rule(title, align="left", style="cyan")
    yield Group(head, Text(sessions_words(model)), Text(number_words(model)))
    yield _rows(model)
    for kind, name, style in (("wrong", "Wrong", "bold red"), ("note", "Notes", "bold cyan")):
        found = [finding for finding in model.findings if finding.kind == kind]
        if found:
            yield Group(Text(name, style), *map(_finding, found))


def _rows(model: ModelReport) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for head in ("value", "device", "first", "peak", "declared", "a step"):
        left = head in ("value", "device")
        grid.add_column(
            justify="left" if left else "right", no_wrap=head != "value", overflow="fold"
        )
    grid.add_row(
        *(
            Text(head, "dim")
            for head in ("value", "device", "first step", "peak", "declared", "a step")
        )
    )
    silent = []
    for row in model.rows:
        if row.spec is not None and row.spec.device == "none" and not row.rules:
            silent.append(row.name)
            continue
        grid.add_row(*_cells(row))
    notes = [remark(row) for row in model.rows if row.name not in silent]
    if silent:
        notes.append(f"Hold no memory: {', '.join(silent)}.")
    below = [Padding(Text(note, "dim"), (0, 0, 0, 2)) for note in filter(None, notes)]
    return Group(grid, *below)


def _cells(row: Row) -> list[Text]:
    wrong = any(rule not in ("MEASURED_ABOVE", "MEASURED_UNWRITTEN") for rule in row.rules)
    style = "bold red" if wrong else ""
    measured = row.measured
    name = Text(f"{row.name} !" if wrong else row.name, style)
    if measured is None or not measured.peak_nbytes:
        return [name, Text(row.device), Text("-", "dim"), Text("-", "dim"),
                Text(declared_words(row)), Text("")]  # fmt: skip
    return [
        name,
        Text(row.device),
        Text(format_nbytes(measured.first_nbytes)),
        Text(format_nbytes(measured.peak_nbytes), style),
        Text(declared_words(row)),
        Text(growth_words(row)),
    ]


def _finding(finding: Finding) -> RenderableType:
    line = Text.assemble((finding.value, "bold"), "  ", (finding.rule, "dim"), "  ", finding.place)
    where = f" In {finding.sessions} sessions." if finding.sessions > 1 else ""
    words = Text(f"{finding.found}.{where}")
    todo = Text(f"-> {finding.todo}", "green")
    return Padding(
        Group(line, Padding(words, (0, 0, 0, 2)), Padding(todo, (0, 0, 0, 2))), (0, 0, 0, 2)
    )


def _end(report: Report) -> RenderableType:
    lines = [Text(line, "dim") for line in recording_words(report.recording)]
    style = "bold red" if report.wrong else "bold green"
    return Group(*lines, Text(verdict(report), style))
