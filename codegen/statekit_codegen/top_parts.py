"""Parts of what `statekit top` shows, whatever it watches: lines, tables, news, what was chosen.

Owns how text from elsewhere gets to a terminal: what none should get is escaped.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import attrs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from statekit.text import on_one_line
from statekit.watch.picture import Happening
from statekit.watch.wire import SORTS

__all__ = ["View", "a_line", "a_table", "news_of", "shown_news", "title", "window"]

_TOLD = 20
"""Events that are shown at most."""


@attrs.define
class View:
    """What the person at the keyboard chose.

    `selected` is a session's id, or a replica's name; `first` the row that is shown at the top;
    `values` whether the values of that session, or what is known of that replica, are shown in
    place of the rows.
    """

    selected: str | None = None
    first: int = 0
    sort: str = SORTS[0]
    values: bool = False
    live: bool = True


def title(left: str, right: str) -> RenderableType:
    """The first line."""
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_row(a_line(left, style="bold"), a_line(right))
    return grid


def a_line(text: str, style: str = "") -> Text:
    """One line, whatever is in it, as it is: no markup, no escapes."""
    return Text(on_one_line(text), style=style, no_wrap=True, overflow="ellipsis")


def a_table() -> Table:
    """A table without lines."""
    return Table(box=None, pad_edge=False, expand=True, header_style="bold", show_edge=False)


def window(view: View, at: int, count: int, rows: int | None) -> slice:
    """The rows that are seen, so that the one `at` a place is among them."""
    if rows is None or count <= rows:
        view.first = 0
        return slice(0, count)
    first = min(max(view.first, at - rows + 1, 0), at, count - rows)
    view.first = max(0, first)
    return slice(view.first, view.first + rows)


def shown_news(happenings: Sequence[Happening]) -> list[Happening]:
    """The last ones, as many as are shown at most."""
    return list(happenings)[-_TOLD:]


def news_of(happenings: Sequence[Happening]) -> RenderableType:
    """What happened, a line each."""
    table = a_table()
    table.add_column("", no_wrap=True)
    table.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
    table.show_header = False
    for one in happenings:
        clock = time.strftime("%H:%M:%S", time.localtime(one.at))
        table.add_row(clock, a_line(one.text), style="yellow" if one.warning else None)
    return Group(Text("events", style="bold"), table)
