"""The layout of a change on a terminal: for each model what became of its values, then bytes.

Nothing is cut off at any width. In a pipe there is neither colour nor a line of boxes. Schema text
is never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from statekit_codegen.review import Row
from statekit_codegen.review_change.comparison import Edit, ModelChange, ValueChange, ValueKind
from statekit_codegen.review_change.words import (
    KINDS,
    UNEXPLAINED,
    counts,
    effect,
    on_top,
    outcome,
    row_words,
    said,
    signed,
)
from statekit_codegen.review_words import one_line, sessions_words
from statekit_codegen.units import format_nbytes

__all__ = ["print_changes"]

_LABEL = 26
"""Columns of the names of edits, at most."""

_STYLES: Mapping[ValueKind, str] = {
    "moved": "bold magenta",
    "added": "bold green",
    "removed": "bold red",
    "changed": "bold cyan",
}


def print_changes(changes: Sequence[ModelChange], against: str, console: Console) -> None:
    """Print each model that changed, and what all of it comes to."""
    plain = not console.is_terminal
    with console.capture() as capture:
        for change in changes:
            if change.kind != "same":
                for block in _blocks(change, console.width, plain):
                    console.print(block)
                    console.print()
        first, *warnings = outcome(changes, against)
        console.print(Text(first, "" if plain else "bold"))
        for warning in warnings:
            console.print(Text(warning, "bold red"))
    text = capture.get()
    if plain:  # cells are padded with blanks, which only a terminal needs
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    console.file.write(text)


def _blocks(change: ModelChange, width: int, plain: bool) -> Iterator[RenderableType]:
    yield _heading(change, plain)
    if change.edits:
        grid = _edits(change.edits, _labels(change.edits, width), width)
        yield Group(Text("Of the model", "bold cyan"), Padding(grid, (0, 0, 0, 2)))
    labels = _labels([edit for value in change.values for edit in value.edits], width)
    for kind, title in KINDS.items():
        values = change.of_kind(kind)
        if values:
            entries = [_value(value, labels, width, value is values[-1]) for value in values]
            yield Group(Text(title, _STYLES[kind]), *entries)
    yield _totals(change)


def _heading(change: ModelChange, plain: bool) -> Group:
    title = Text.assemble((change.model, "bold"), f"  {one_line(change.file)}")
    line: RenderableType = Rule(title, align="left", style="cyan")
    if plain:
        line = Group(title, Text("=" * title.cell_len, no_wrap=True, overflow="crop"))
    what = {"added": "A new model: ", "removed": "A model that is gone: "}.get(change.kind, "")
    words = f"{what}{counts([change]) or 'no value'}; {effect(change)}"
    return Group(line, Text(words, "dim"))


def _value(value: ValueChange, labels: int, width: int, last: bool) -> Padding:
    row = value.now or value.was
    assert row is not None
    head = Text(value.name, "bold")
    if value.kind == "moved":
        assert value.was is not None
        head.append(f"  {value.was.spec.bucket} -> {row.spec.bucket}", "not bold magenta")
    parts: list[RenderableType] = [head]
    if value.unexplained:
        parts.append(Padding(Text(f"! {UNEXPLAINED}", "bold red"), (0, 0, 0, 2)))
    if value.edits:
        shown = [edit for edit in value.edits if edit.name != "bucket"]
        parts.append(Padding(_edits(shown, labels, width, value), (0, 0, 0, 2)))
    if value.kind in ("added", "removed"):
        parts.append(Padding(_whole(row), (0, 0, 0, 2)))
    return Padding(Group(*parts), (0, 0, 0 if last else 1, 2))


def _whole(row: Row) -> Group:
    why = Text(row.why) if row.why else Text("no decision is recorded", "bold red")
    return Group(Text(row_words(row), "dim"), why)


def _labels(edits: Sequence[Edit], width: int) -> int:
    """Columns for the names of edits, the same for all values of a model."""
    longest = max((len(edit.name) for edit in edits), default=0)
    return min(longest, _LABEL, width // 3)


def _edits(
    edits: Sequence[Edit], labels: int, width: int, value: ValueChange | None = None
) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", width=labels, style="dim")
    grid.add_column(overflow="fold")
    room = width - labels - 8
    for edit in edits:
        more = ""
        if value is not None and edit.name == "bytes":
            more = f"  ({signed(value.difference_nbytes)})"
        grid.add_row(edit.name, _sides(edit, more, room))
    return grid


def _sides(edit: Edit, more: str, room: int) -> RenderableType:
    """Both sides on one line where they fit, else one below the other."""
    was, now = said(edit.was), said(edit.now)
    line = Text.assemble((was, "red"), (" -> ", "dim"), (now, "green"), more)
    if line.cell_len <= room:
        return line
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text("-", "red"), Text(was, "red"))
    grid.add_row(Text("+", "green"), Text(now + more, "green"))
    return grid


def _totals(change: ModelChange) -> Group:
    one = change.now or change.was
    assert one is not None
    title = Text("Declared bytes by device", "bold cyan")
    unknown = [f"Not counted, as its bytes are unknown: {', '.join(change.unknown)}."]
    notes = [Padding(Text(note, "dim"), (0, 0, 0, 2)) for note in unknown if change.unknown]
    if not any(total.changed for total in change.totals):
        nbytes = change.totals[-1].now.nbytes if change.totals else 0
        figures = f"{format_nbytes(nbytes)} a session"
        if one.sessions > 1:
            figures += f", {format_nbytes(nbytes * one.sessions)} in {sessions_words(one)}"
        return Group(title, Padding(Text(f"as before: {figures}"), (0, 0, 0, 2)), *notes)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold")
    for _ in range(3):
        grid.add_column(justify="right", overflow="fold")
    grid.add_row("", *(Text(name, "dim") for name in ("before", "after", "difference")))
    for total in change.totals:
        style = "bold" if total is change.totals[-1] else ""
        for sessions, words in ((1, "a session"), (one.sessions, sessions_words(one))):
            if sessions == 1 and words != "a session":
                continue
            was, now = total.was.nbytes * sessions, total.now.nbytes * sessions
            grid.add_row(
                Text(f"{total.device}, {words}", style),
                format_nbytes(was),
                Text(format_nbytes(now), style),
                _difference(now - was),
            )
        for name, before, after in on_top(total):
            grid.add_row(Text(f"{total.device}, {name}", "dim"), before, after, "")
    return Group(title, Padding(grid, (0, 0, 0, 2)), *notes)


def _difference(nbytes: int) -> Text:
    return Text(signed(nbytes), "red" if nbytes > 0 else "green" if nbytes < 0 else "dim")
