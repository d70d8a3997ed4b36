"""The layout of a review on a terminal: a table where it is wide, cards where it is narrow.

Nothing is cut off at any width. In a pipe there is neither colour nor a line of boxes.
Schema text is never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from statekit_codegen.review import Review, Row
from statekit_codegen.review_words import (
    BUCKETS,
    bound_words,
    bytes_words,
    device_words,
    facts,
    notes,
    number_words,
    object_words,
    one_line,
    sections,
    sessions_words,
    total_extras,
)
from statekit_codegen.units import format_nbytes

__all__ = ["WIDE", "print_review"]

WIDE = 120
"""Columns from which on the reasons have a column of their own."""

_FIGURE = 12
"""Columns of a figure, at least."""

_PLAIN = box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
"""A line under the names of the columns, and blanks."""


def print_review(review: Review, console: Console) -> None:
    """Print `review` as wide as `console` is."""
    plain = not console.is_terminal
    with console.capture() as capture:
        for block in _blocks(review, console.width, plain):
            console.print(block)
            console.print()
    text = capture.get()
    if plain:  # cells are padded with blanks, which only a terminal needs
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    console.file.write(text)


def _blocks(review: Review, width: int, plain: bool) -> Iterator[RenderableType]:
    yield _heading(review, plain)
    for bucket, meaning in BUCKETS.items():
        rows = review.bucket(bucket)
        if rows:
            heading = Text.assemble((bucket, "bold cyan"), (f": {meaning}", "cyan"))
            table = _table(review, rows, plain) if width >= WIDE else _cards(review, rows, width)
            yield Group(heading, table)
    yield _totals(review)
    for title, entries in sections(review):
        yield Group(Text(title, "bold cyan"), _pairs(entries))


def _heading(review: Review, plain: bool) -> RenderableType:
    model = review.model
    title = Text.assemble((model.spec.model, "bold"), f"  {model.file}")
    lines: list[RenderableType]
    if plain:
        lines = [title, Text("=" * title.cell_len, no_wrap=True, overflow="crop")]
    else:
        lines = [Rule(title, align="left", style="cyan")]
    lines.append(Text(one_line(model.schema.doc)))
    if review.numbers:
        numbers = Text(f"Computed with {number_words(review)}.", "dim")
        overridden = [f"{name}={review.numbers[name]}" for name in review.overridden]
        if overridden:  # of no words, rich would highlight every place between two letters
            numbers.highlight_words(overridden, "not dim yellow")
        lines.append(numbers)
    return Group(*lines)


def _table(review: Review, rows: tuple[Row, ...], plain: bool) -> Table:
    table = Table(
        box=_PLAIN if plain else box.SIMPLE_HEAD,
        show_edge=False,
        leading=1,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="dim",
        expand=True,
    )
    table.add_column("value", overflow="fold", max_width=32)
    table.add_column("device", overflow="fold")
    table.add_column("bound, cleared by", overflow="fold", max_width=30)
    table.add_column("a session", justify="right", no_wrap=True)
    table.add_column(sessions_words(review), justify="right", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=1)
    for row in rows:
        name = Text(row.spec.name, "bold")
        if object_words(row):
            name.append(f"\n{object_words(row)}", "not bold dim")
        bound = Text(bound_words(row))
        bound.append(f"\n{_cleared_by(row)}", "dim")
        why = _why(row)
        if facts(review, row):
            why.append(f"\n{facts(review, row)}", "not bold dim")
        table.add_row(
            name,
            device_words(row),
            bound,
            _nbytes(row.nbytes),
            _nbytes(row.nbytes, review.sessions),
            why,
        )
    return table


def _cards(review: Review, rows: tuple[Row, ...], width: int) -> Group:
    parts: list[RenderableType] = [
        _figures(Text(), Text("a session"), Text(sessions_words(review)), width, "dim")
    ]
    for row in rows:
        parts.append(
            _figures(
                Text(row.spec.name, "bold"),
                _nbytes(row.nbytes),
                _nbytes(row.nbytes, review.sessions),
                width,
            )
        )
        kind = ", ".join(filter(None, (object_words(row), device_words(row), bound_words(row))))
        lines = [Text(f"{kind}; cleared by {_cleared_by(row)}", "dim"), _why(row)]
        if facts(review, row):
            lines.append(Text(facts(review, row), "dim"))
        parts.append(Padding(Group(*lines), (0, 0, 0 if row is rows[-1] else 1, 2)))
    return Group(*parts)


def _figures(name: Text, first: Text, second: Text, width: int, style: str = "") -> Group:
    """A name with two figures at the right edge, below it where there is no room beside it."""
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(ratio=1, overflow="fold", style=style)
    grid.add_column(justify="right", min_width=_FIGURE, no_wrap=True, style=style)
    grid.add_column(justify="right", min_width=_FIGURE, no_wrap=True, style=style)
    beside = name.cell_len <= width - 2 * (_FIGURE + 2)
    grid.add_row(name if beside else "", first, second)
    return Group(grid) if beside else Group(name, grid)


def _totals(review: Review) -> Group:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(style="yellow", overflow="fold")
    grid.add_row("", Text("a session", "dim"), Text(sessions_words(review), "dim"), "")
    for total in review.totals:
        style = "bold" if total.device == "all" or len(review.totals) == 1 else ""
        grid.add_row(
            Text(total.device, style),
            Text(format_nbytes(total.nbytes), style),
            Text(format_nbytes(total.nbytes * review.sessions), style),
            "; ".join(total_extras(total)),
        )
    return Group(
        Text("Declared bytes by device", "bold cyan"),
        Padding(grid, (0, 0, 0, 2)),
        *(Padding(Text(note, "dim"), (0, 0, 0, 2)) for note in notes(review)),
    )


def _pairs(entries: Sequence[tuple[str, str]]) -> Padding:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", max_width=28)
    grid.add_column(overflow="fold")
    for name, text in entries:
        grid.add_row(Text(name, "bold"), Text(text))
    return Padding(grid, (0, 0, 0, 2))


def _nbytes(nbytes: int | None, sessions: int = 1) -> Text:
    if nbytes is None:
        return Text(bytes_words(None), "bold red")
    return Text(format_nbytes(nbytes * sessions), "" if nbytes else "dim")


def _cleared_by(row: Row) -> str:
    return ", ".join(row.cleared_by) or "nothing"


def _why(row: Row) -> Text:
    return Text(row.why) if row.why else Text("no decision is recorded", "bold red")


def _facts(review: Review, row: Row) -> str:
    return "; ".join(facts(review, row))
