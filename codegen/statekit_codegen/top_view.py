"""What `statekit top` shows: a picture of a manager laid out for a width and a height.

Owns the words and the layout. Session ids and reasons come from clients: what no terminal should
get is escaped. Colours repeat what is said in words, so nothing is lost without them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from statekit.text import on_one_line
from statekit.watch.picture import Happening, Picture, Session
from statekit.watch.wire import SORTS
from statekit_codegen.units import format_nbytes

__all__ = ["View", "layout"]

_KEYS = "q quit   ↑↓ j k select   enter values   s sort"
_KEYS_OF_VALUES = "q quit   ↑↓ j k scroll   enter sessions"
_BAR = 16
_TOLD = 20
"""Events that are shown at most."""
_ID, _LEASES_AND_IDLE, _DEVICE, _MODEL, _PARKED = 14, 16, 12, 12, 8
"""Columns of the screen that columns of the table take, a session's id at least."""


@attrs.define
class View:
    """What the person at the keyboard chose.

    `selected` is a session's id; `first` the row that is shown at the top; `values` whether the
    values of that session are shown in place of the sessions.
    """

    selected: str | None = None
    first: int = 0
    sort: str = SORTS[0]
    values: bool = False
    live: bool = True


def layout(picture: Picture, view: View, width: int, height: int | None = None) -> RenderableType:
    """The picture for a screen of this size; all of it where there is no height.

    Brings `view.first` to where the selected row is seen.
    """
    head = [_title(picture), *_devices(picture), _totals(picture), Text("")]
    foot: list[RenderableType] = []
    if view.live:
        keys = _KEYS_OF_VALUES if view.values else f"{_KEYS}: {view.sort}"
        foot = [_line(keys, style="dim")]
    rows = None
    happenings = list(picture.happenings)[-_TOLD:]
    if height is not None:
        room = max(4, height - len(head) - len(foot) - 3)
        told = min(len(happenings), max(2, room // 3))
        happenings = happenings[len(happenings) - told :]
        left_out = picture.session_count > len(picture.sessions)
        rows = max(1, room - told - left_out)
    body = _values(picture, view, rows) if view.values else _sessions(picture, view, rows, width)
    news = [Text(""), _news(happenings)] if happenings or view.live else []
    return Group(*head, body, *news, *foot)


def _title(picture: Picture) -> RenderableType:
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_row(
        _line(f"statekit top: {picture.name} (process {picture.pid})", style="bold"),
        _line(f"{picture.session_count} of at most {picture.max_sessions} sessions"),
    )
    return grid


def _devices(picture: Picture) -> Iterator[RenderableType]:
    width = max((len(one.device) for one in picture.devices), default=0)
    for one in picture.devices:
        line = _line(f"{one.device:<{width}}  ")
        if one.budget is None:
            line.append(f"{format_nbytes(one.nbytes)}, no budget")
        else:
            share = one.nbytes / max(1, one.budget)
            style = "red" if share > 1 else "yellow" if share > 0.9 else "green"
            full = min(_BAR, round(share * _BAR))
            line.append("█" * full + "░" * (_BAR - full), style=style)
            line.append(f" {share:4.0%}  {format_nbytes(one.nbytes)}")
            line.append(f" of {format_nbytes(one.budget)}")
            if share > 1:
                line.append("  over budget", style="bold red")
        yield line


def _totals(picture: Picture) -> Text:
    parts = [f"leases {picture.leases}", f"hits {picture.hits}", f"misses {picture.misses}"]
    parts.append(f"evictions {picture.evictions}")
    parts += [
        f"parked on {tier} {format_nbytes(count)}" for tier, count in sorted(picture.parked.items())
    ]
    return _line("   ".join(parts))


def _line(text: str, style: str = "") -> Text:
    """One line, whatever is in it, as it is: no markup, no escapes."""
    return Text(on_one_line(text), style=style, no_wrap=True, overflow="ellipsis")


def _table() -> Table:
    return Table(box=None, pad_edge=False, expand=True, header_style="bold", show_edge=False)


def _sessions(picture: Picture, view: View, rows: int | None, width: int) -> RenderableType:
    sessions = picture.sessions
    ids = [one.session_id for one in sessions]
    if view.live and ids and view.selected not in ids:
        view.selected = ids[0]
    at = ids.index(view.selected) if view.live and view.selected in ids else 0
    window = _window(view, at, len(sessions), rows)
    columns = dict(_columns(sessions, width))
    table = _table()
    table.add_column("session", ratio=1, no_wrap=True, overflow="ellipsis")
    for name in columns:
        justify: JustifyMethod = "left" if name == "model" else "right"
        table.add_column(_line(name), justify=justify, no_wrap=True, overflow="ellipsis")
    for one in sessions[window]:
        chosen = view.live and one.session_id == view.selected
        mark = "> " if chosen else "  " if view.live else ""
        cells = [_line(cell(one)) for cell in columns.values()]
        style = "reverse" if chosen else None if one.listed else "dim"
        table.add_row(_line(mark + one.session_id), *cells, style=style)
    left = picture.session_count - len(sessions)
    if left > 0 and (rows is None or window.stop >= len(sessions)):
        table.caption = f"and {left} more"
        table.caption_justify = "left"
    return table if sessions else Text("no sessions", style="dim")


def _columns(
    sessions: Sequence[Session], width: int
) -> Iterator[tuple[str, Callable[[Session], str]]]:
    """What is shown beside the id, as far as there is room: devices that hold most come first."""
    held: Counter[str] = Counter()
    for one in sessions:
        held.update(one.nbytes)
    room = max(1, (width - _ID - _LEASES_AND_IDLE) // _DEVICE)
    devices = sorted(name for name, _ in held.most_common(room))
    left = width - _ID - _LEASES_AND_IDLE - _DEVICE * len(devices)
    if left >= _MODEL:
        yield "model", lambda one: one.model
    yield "leases", lambda one: str(one.leases or "-")
    yield "idle", _idle
    for name in devices:
        yield name, partial(_bytes_on, name)
    if left >= _MODEL + _PARKED:
        yield "parked", lambda one: ", ".join(sorted(one.parked)) or "-"


def _bytes_on(device: str, one: Session) -> str:
    return format_nbytes(one.nbytes[device]) if device in one.nbytes else "-"


def _idle(one: Session) -> str:
    if one.leases:
        return "in use"
    if one.idle_s is None:
        return "-"
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if one.idle_s >= size:
            return f"{one.idle_s / size:.0f}{unit}"
    return f"{one.idle_s:.0f}s"


def _values(picture: Picture, view: View, rows: int | None) -> RenderableType:
    name = picture.values_of or view.selected or ""
    values = picture.values
    if values is None:
        return _line(f"session {name} is not there", style="dim")
    values = tuple(sorted(values, key=lambda one: (-sum(one.nbytes.values()), one.value)))
    window = _window(view, view.first, len(values), rows)
    table = _table()
    table.add_column(_line(f"value of {name}"), ratio=2, no_wrap=True, overflow="ellipsis")
    table.add_column("bucket", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("where", no_wrap=True)
    table.add_column("next", ratio=2, no_wrap=True, overflow="ellipsis")
    for one in values[window]:
        nbytes = format_nbytes(sum(one.nbytes.values()))
        where = f"on {', '.join(one.nbytes)}" if one.where == "resident" else one.where
        table.add_row(*map(_line, (one.value, one.bucket, nbytes, where, one.next)))
    return table if values else _line(f"session {name} holds nothing", style="dim")


def _window(view: View, at: int, count: int, rows: int | None) -> slice:
    """The rows that are seen, so that the one `at` a place is among them."""
    if rows is None or count <= rows:
        view.first = 0
        return slice(0, count)
    first = min(max(view.first, at - rows + 1, 0), at, count - rows)
    view.first = max(0, first)
    return slice(view.first, view.first + rows)


def _news(happenings: Sequence[Happening]) -> RenderableType:
    table = _table()
    table.add_column("", no_wrap=True)
    table.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
    table.show_header = False
    for one in happenings:
        clock = time.strftime("%H:%M:%S", time.localtime(one.at))
        table.add_row(clock, _line(one.text), style="yellow" if one.warning else None)
    return Group(Text("events", style="bold"), table)
