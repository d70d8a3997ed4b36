"""The layout of a plan on a terminal; plain in a pipe, where it has neither colour nor boxes.

Nothing is cut off at any width. Schema text is never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from statekit_codegen.console import can_print
from statekit_codegen.plan.answer import Answer, DeviceRow, Fit, MixPlan, ModelPlan
from statekit_codegen.plan.chart import ASCII, BLOCKS, chart
from statekit_codegen.plan.curve import Curve
from statekit_codegen.plan.question import Question
from statekit_codegen.plan.words import (
    assumptions,
    computed_with,
    fit_words,
    gain_words,
    gains_note,
    mix_words,
    percent,
    remarks,
    sessions_words,
)
from statekit_codegen.review_words import one_line
from statekit_codegen.units import format_nbytes

__all__ = ["print_answer"]

_COLOURS = ("cyan", "yellow", "magenta", "green", "blue")
_CHART_WIDTH = 100
_NO = Text("")


def print_answer(answer: Answer, console: Console) -> None:
    """Print `answer` as wide as `console` is."""
    plain = not console.is_terminal
    with console.capture() as capture:
        for block in _blocks(answer, console, plain):
            console.print(block)
            console.print()
    text = capture.get().rstrip("\n") + "\n"
    if plain:  # cells are padded with blanks, which only a terminal needs
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    console.file.write(text)


def _blocks(answer: Answer, console: Console, plain: bool) -> Iterator[RenderableType]:
    asked = answer.asked
    for plan in answer.models:
        said = [one_line(plan.doc), computed_with(plan)]
        yield _heading(plan.model, plan.file, filter(None, said), plain)
        yield _values(plan, asked, console.width)
        title = f"Devices, after step {asked.step:,}"
        yield _devices(plan.devices, asked, title, console.width, many=True)
        yield from _fit(plan.fit, asked, {plan.model: 1})
        if len(set(plan.curve.totals)) > 1:
            yield _chart(plan.curve, console, plain)
        elif len(plan.curve.steps) > 1:
            yield Text("A session holds the same between all steps.", "dim")
    if answer.mix is not None:
        yield from _mix(answer.mix, asked, console.width, plain)
    yield Group(*(Text(line, "dim") for line in assumptions(answer)))


def _heading(title: str, beside: str, lines: Iterable[str], plain: bool) -> RenderableType:
    text = Text.assemble((title, "bold"), f"  {beside}" if beside else "")
    parts: list[RenderableType]
    if plain:
        parts = [text, Text("=" * text.cell_len, no_wrap=True, overflow="crop")]
    else:
        parts = [Rule(text, align="left", style="cyan")]
    return Group(*parts, *map(Text, lines))


def _values(plan: ModelPlan, asked: Question, width: int) -> RenderableType:
    whole = {row.device: row.in_use_nbytes for row in plan.devices}
    rows = []
    for one in sorted(plan.need.values, key=lambda one: -one.in_use_nbytes):
        if one.device == "none":
            continue
        if one.nbytes is None:
            rows.append([Text(one.name), Text(one.device), Text("unknown", "bold red"), _NO, _NO])
            continue
        share = percent(one.in_use_nbytes, whole[one.device])
        figures = [format_nbytes(one.nbytes), share, format_nbytes(one.nbytes * asked.sessions)]
        rows.append([Text(one.name), Text(one.device), *map(Text, figures)])
    heads = ["value", "device", "a session", "of device", sessions_words(asked.sessions)]
    notes = [Padding(Text(note, "dim"), (0, 0, 0, 2)) for note in remarks(plan)]
    title = _title(f"Values, after step {asked.step:,}")
    return Group(title, _table(heads, rows, width), *notes)


def _devices(
    rows: Sequence[DeviceRow], asked: Question, title: str, width: int, *, many: bool
) -> RenderableType:
    pending = any(row.in_use_nbytes != row.nbytes for row in rows)
    heads = ["device", "a session" if many else "all of them"]
    heads += ["in a step"] if pending else []
    heads += [sessions_words(asked.sessions)] if many else []
    heads += ["budget", "fit" if many else "times"] if asked.budgets else []
    table = []
    for row in rows:
        cells = [row.device, format_nbytes(row.nbytes)]
        cells += [format_nbytes(row.in_use_nbytes)] if pending else []
        cells += [format_nbytes(row.sessions_nbytes)] if many else []
        if asked.budgets:
            limit = row.budget_nbytes
            cells += ["none" if limit is None else format_nbytes(limit)]
            cells += ["any" if row.fits is None else f"{row.fits:,}"]
        table.append(list(map(Text, cells)))
    return Group(_title(title), _table(heads, table, width))


def _fit(fit: Fit | None, asked: Question, parts: Mapping[str, int]) -> Iterator[RenderableType]:
    if fit is None:
        return
    first, *rest = fit_words(fit, asked, sum(parts.values()))
    enough = fit.sessions is None or fit.sessions >= asked.sessions
    lines = [Text(first, "bold green" if enough else "bold red")]
    lines += [Text(line, "bold red") for line in rest]
    yield Group(_title("How many fit"), *(Padding(line, (0, 0, 0, 2)) for line in lines))
    if not fit.gains:
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text("more", "dim"), Text("fit", "dim"), Text("change", "dim"))
    for gain in fit.gains:
        more = "any" if gain.more is None else f"{gain.more:+,}"
        fits = "any" if gain.fits is None else f"{gain.fits:,}"
        style = "green" if gain.more is None or gain.more > 0 else "dim"
        grid.add_row(Text(more, style), Text(fits), Text(gain_words(gain, parts)))
    note = gains_note(fit, asked, parts)
    below = [Padding(Text(note, "dim"), (0, 0, 0, 2))] if note else []
    yield Group(_title("What would make room"), _inset(grid), *below)


def _mix(mix: MixPlan, asked: Question, width: int, plain: bool) -> Iterator[RenderableType]:
    yield _heading("mix", mix_words(mix), (), plain)
    size = sum(mix.parts.values())
    title = f"Devices, {sessions_words(size)} together, after step {asked.step:,}"
    yield _devices(mix.devices, asked, title, width, many=False)
    yield from _fit(mix.fit, asked, mix.parts)
    if mix.times:
        each = ", ".join(f"{count * mix.times:,} {name}" for name, count in mix.parts.items())
        yield Padding(Text(f"That is {each}."), (0, 0, 0, 2))


def _chart(curve: Curve, console: Console, plain: bool) -> RenderableType:
    marks = ASCII if plain or not can_print(BLOCKS, console) else BLOCKS
    lines = []
    for runs in chart(curve, min(console.width, _CHART_WIDTH), marks):
        line = Text(no_wrap=True, overflow="crop")
        for run in runs:
            line.append(run.text, "" if run.band is None else _COLOURS[run.band % len(_COLOURS)])
        lines.append(line)
    return Group(_title("Bytes of a session, between steps"), *lines)


def _title(text: str) -> Text:
    return Text(text, "bold cyan")


def _inset(grid: RenderableType) -> Padding:
    return Padding(grid, (0, 0, 0, 2))


def _table(heads: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> Padding:
    """Names on the left, figures on the right; where there is no room, a line or two for each row.

    The first cell of a row is its name.
    """
    widths = [max(map(len, cells)) for cells in zip(heads, *rows, strict=True)]
    if sum(widths) + 2 * len(widths) > width:
        return _inset(Group(*(_card(heads, row) for row in rows)))
    grid = Table.grid(padding=(0, 2, 0, 0))
    for head in heads:
        grid.add_column(justify="left" if head in ("value", "device") else "right", no_wrap=True)
    grid.add_row(*(Text(head, "dim") for head in heads))
    for row in rows:
        grid.add_row(*row)
    return _inset(grid)


def _card(heads: Sequence[str], row: Sequence[Text]) -> Group:
    said = Text()
    for head, cell in zip(heads[1:], row[1:], strict=True):
        if cell:
            said.append(f"{', ' if said else ''}{head} ", "dim").append_text(cell)
    return Group(row[0], Padding(said, (0, 0, 0, 2)))
