"""What `statekit top` shows: a picture laid out for a width and a height.

Owns the words and the layout for a manager; for a service it is `top_service`. Session ids and
reasons come from clients: what no terminal should get is escaped. Colours repeat what is said in
words, so nothing is lost without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rich.console import Group, JustifyMethod, RenderableType
from rich.text import Text

from statekit.watch.picture import Picture, Session
from statekit.watch.service_picture import ServicePicture
from statekit_codegen.top_parts import View, a_line, a_table, news_of, shown_news, title, window
from statekit_codegen.top_service import layout_service
from statekit_codegen.units import format_nbytes

__all__ = ["layout"]

_KEYS = "q quit   ↑↓ j k select   enter values   s sort"
_KEYS_OF_VALUES = "q quit   ↑↓ j k scroll   enter sessions"
_BAR = 16
_ID, _LEASES_AND_IDLE, _DEVICE, _MODEL, _PARKED = 14, 16, 12, 12, 8
"""Columns of the screen that columns of the table take, a session's id at least."""


def layout(
    picture: Picture | ServicePicture, view: View, width: int, height: int | None = None
) -> RenderableType:
    """The picture for a screen of this size; all of it where there is no height.

    Brings `view.first` to where the selected row is seen.
    """
    if isinstance(picture, ServicePicture):
        return layout_service(picture, view, width, height)
    head = [_title(picture), *_devices(picture), _totals(picture), Text("")]
    foot: list[RenderableType] = []
    if view.live:
        keys = _KEYS_OF_VALUES if view.values else f"{_KEYS}: {view.sort}"
        foot = [a_line(keys, style="dim")]
    rows = None
    happenings = shown_news(picture.happenings)
    if height is not None:
        room = max(4, height - len(head) - len(foot) - 3)
        told = min(len(happenings), max(2, room // 3))
        happenings = happenings[len(happenings) - told :]
        left_out = picture.session_count > len(picture.sessions)
        rows = max(1, room - told - left_out)
    body = _values(picture, view, rows) if view.values else _sessions(picture, view, rows, width)
    news = [Text(""), news_of(happenings)] if happenings or view.live else []
    return Group(*head, body, *news, *foot)


def _title(picture: Picture) -> RenderableType:
    return title(
        f"statekit top: {picture.name} (process {picture.pid})",
        f"{picture.session_count} of at most {picture.max_sessions} sessions",
    )


def _devices(picture: Picture) -> Iterator[RenderableType]:
    width = max((len(one.device) for one in picture.devices), default=0)
    for one in picture.devices:
        line = a_line(f"{one.device:<{width}}  ")
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
    return a_line("   ".join(parts))


def _sessions(picture: Picture, view: View, rows: int | None, width: int) -> RenderableType:
    sessions = picture.sessions
    ids = [one.session_id for one in sessions]
    if view.live and ids and view.selected not in ids:
        view.selected = ids[0]
    at = ids.index(view.selected) if view.live and view.selected in ids else 0
    shown = window(view, at, len(sessions), rows)
    columns = dict(_columns(sessions, width))
    table = a_table()
    table.add_column("session", ratio=1, no_wrap=True, overflow="ellipsis")
    for name in columns:
        justify: JustifyMethod = "left" if name == "model" else "right"
        table.add_column(a_line(name), justify=justify, no_wrap=True, overflow="ellipsis")
    for one in sessions[shown]:
        chosen = view.live and one.session_id == view.selected
        mark = "> " if chosen else "  " if view.live else ""
        cells = [a_line(cell(one)) for cell in columns.values()]
        style = "reverse" if chosen else None if one.listed else "dim"
        table.add_row(a_line(mark + one.session_id), *cells, style=style)
    left = picture.session_count - len(sessions)
    if left > 0 and (rows is None or shown.stop >= len(sessions)):
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
        return a_line(f"session {name} is not there", style="dim")
    values = tuple(sorted(values, key=lambda one: (-sum(one.nbytes.values()), one.value)))
    shown = window(view, view.first, len(values), rows)
    table = a_table()
    table.add_column(a_line(f"value of {name}"), ratio=2, no_wrap=True, overflow="ellipsis")
    table.add_column("bucket", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("where", no_wrap=True)
    table.add_column("next", ratio=2, no_wrap=True, overflow="ellipsis")
    for one in values[shown]:
        nbytes = format_nbytes(sum(one.nbytes.values()))
        where = f"on {', '.join(one.nbytes)}" if one.where == "resident" else one.where
        table.add_row(*map(a_line, (one.value, one.bucket, nbytes, where, one.next)))
    return table if values else a_line(f"session {name} holds nothing", style="dim")
