"""The layout of `statekit breaking` on a terminal: what breaks, by who is hurt; then the rest.

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

from statekit_codegen.breaking import Comparison, Located
from statekit_codegen.change import Change
from statekit_codegen.review_words import one_line

__all__ = ["print_comparisons", "summary"]

_HURT: Mapping[str, str] = {
    "SOURCE": "code that uses the generated class",
    "SNAPSHOT": "sessions that were saved",
}
_MAX_CHARS = 400
"""Of a text of a schema; a default may be a whole page."""


def print_comparisons(found: Sequence[Comparison], against: str, console: Console) -> None:
    """Print the changes of each model that has some, and a line that sums up."""
    plain = not console.is_terminal
    with console.capture() as capture:
        for comparison in found:
            if comparison.changes:
                for block in _blocks(comparison, plain):
                    console.print(block)
                    console.print()
        console.print(Text(summary(found, against), "bold" if not plain else ""))
    text = capture.get()
    if plain:  # cells are padded with blanks, which only a terminal needs
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    console.file.write(text)


def summary(found: Sequence[Comparison], against: str) -> str:
    """How many changes there are, in a sentence."""
    breaking = sum(len(one.breaking) for one in found)
    others = sum(len(one.changes) for one in found) - breaking
    models = _count(len(found), "model")
    more = f", {_count(others, 'compatible change')}" if others else ""
    if not breaking:
        return f"{models} against {against}: no breaking change{more}"
    broken = sum(bool(one.breaking) for one in found)
    return f"{_count(breaking, 'breaking change')} in {broken} of {models} against {against}{more}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _blocks(comparison: Comparison, plain: bool) -> Iterator[RenderableType]:
    title = Text.assemble((comparison.model, "bold"), f"  {one_line(comparison.file)}")
    if plain:
        yield Group(title, Text("=" * title.cell_len, no_wrap=True, overflow="crop"))
    else:
        yield Rule(title, align="left", style="cyan")
    for hurt, whom in _HURT.items():
        broken = [one for one in comparison.breaking if one.change.hurt == hurt]
        if broken:
            heading = Text.assemble((hurt, "bold red"), (f": breaks {whom}", "red"))
            yield Group(heading, *_entries(comparison, broken))
    others = [one.change for one in comparison.changes if not one.change.breaks]
    if others:
        yield Group(Text("Compatible", "bold green"), _compatible(others))


def _entries(comparison: Comparison, broken: Sequence[Located]) -> Iterator[RenderableType]:
    for located in broken:
        change = located.change
        head = Text.assemble((change.subject or comparison.model, "bold"), f"  {change.rule}")
        place = f"{comparison.file}:{located.line}:{located.column}"
        head.append(f"  {one_line(place)}", "dim")
        lines: list[RenderableType] = [head]
        for sign, text, style in (("-", change.was, "red"), ("+", change.now, "green")):
            if text:
                lines.append(Padding(_hanging(sign, Text(_short(text)), style), (0, 0, 0, 2)))
        lines.append(Padding(Text(change.why), (0, 0, 0, 2)))
        yield Padding(Group(*lines), (0, 0, 0 if located is broken[-1] else 1, 2))


def _compatible(changes: Sequence[Change]) -> Padding:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", max_width=26)
    grid.add_column(overflow="fold")
    for change in changes:
        words = Text()
        if change.was:
            words.append(_short(change.was))
        if change.was and change.now:
            words.append(" -> ", "dim")
        words.append(_short(change.now) if change.now else " is gone")
        words.append(f"\n{change.why} ({change.rule})", "dim")
        grid.add_row(Text(change.subject, "bold"), words)
    return Padding(grid, (0, 0, 0, 2))


def _hanging(sign: str, text: Text, style: str) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True, style=style)
    grid.add_column(overflow="fold", style=style)
    grid.add_row(sign, text)
    return grid


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _MAX_CHARS else f"{line[: _MAX_CHARS - 3]}..."
