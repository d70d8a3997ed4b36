"""What `statekit top` shows of a service: its replicas, laid out for a width and a height.

Owns the words and the layout, as `top_view` does for a manager. Names, ids and reasons come from
elsewhere: what no terminal should get is escaped. Colours repeat what is said in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from statekit.text import on_one_line
from statekit.watch.picture import Device
from statekit.watch.service_picture import Replica, ServicePicture
from statekit_codegen.top_parts import View, a_line, a_table, news_of, shown_news, title, window
from statekit_codegen.units import format_nbytes

__all__ = ["layout_service"]

_KEYS = "q quit   ↑↓ j k select   enter replica   s sort"
_KEYS_OF_ONE = "q quit   enter replicas"
_ORDERS = {"bytes": "fullest", "idle": "quietest", "leases": "busiest", "id": "name"}
_LOST = 5
"""Lost sessions that a screen shows at most."""
_NAME, _DEVICE = 11, 18
_WIDTHS = {"state": 10, "sessions": 9, "steps/s": 8, "waiting": 8, "moves": 6, "host": 13}
"""Columns of the screen that columns of the table take, a replica's name at least."""
_STYLES = {"draining": "yellow", "dead": "red"}


def layout_service(
    picture: ServicePicture, view: View, width: int, height: int | None = None
) -> RenderableType:
    """The picture for a screen of this size; all of it where there is no height.

    Brings `view.first` to where the selected row is seen.
    """
    head = [_title(picture), *_totals(picture), a_line("")]
    foot: list[RenderableType] = []
    if view.live:
        keys = _KEYS_OF_ONE if view.values else f"{_KEYS}: {_ORDERS[view.sort]}"
        foot = [a_line(keys, style="dim")]
    lost = picture.lost if height is None else picture.lost[: min(_LOST, max(1, height // 8))]
    lost_rows = len(lost) + 3 + (picture.lost_count > len(lost)) if lost else 0
    rows = None
    happenings = shown_news(picture.happenings)
    if height is not None:
        room = max(4, height - len(head) - len(foot) - lost_rows - 3)
        told = min(len(happenings), max(2, room // 3))
        happenings = happenings[len(happenings) - told :]
        left_out = picture.replica_count > len(picture.replicas)
        rows = max(1, room - told - left_out)
    one = _selected(picture, view)
    body = _one(one) if view.values and one is not None else _replicas(picture, view, rows, width)
    table = [a_line(""), _lost(picture, len(lost), whole=height is None)] if lost else []
    news = [a_line(""), news_of(happenings)] if happenings or view.live else []
    return Group(*head, body, *table, *news, *foot)


def _title(picture: ServicePicture) -> RenderableType:
    left = f"statekit top: service {picture.name} (process {picture.pid})"
    count = sum(number for state, number in picture.sessions.items() if state != "lost")
    right = f"{_count(picture.replica_count, 'replica')}, {_count(count, 'session')}"
    return title(left, right)


def _totals(picture: ServicePicture) -> Iterator[RenderableType]:
    if picture.problem is not None:
        when = "never" if picture.age_s is None else f"{picture.age_s:.0f} s ago"
        words = f"the directory does not answer, the last time was {when}: {picture.problem}"
        yield a_line(words, style="bold red")
    parts = [f"{state} {count}" for state, count in picture.sessions.items() if count]
    parts += [f"refused {picture.refused}"]
    for word, of in (("moves", "went"), ("restores", "restored")):
        parts.append(f"{word} {sum(getattr(one, of) for one in picture.replicas)}")
    yield a_line("   ".join(parts))


def _selected(picture: ServicePicture, view: View) -> Replica | None:
    names = [one.name for one in picture.replicas]
    if view.live and names and view.selected not in names:
        view.selected = names[0]
    return next((one for one in picture.replicas if one.name == view.selected), None)


def _replicas(picture: ServicePicture, view: View, rows: int | None, width: int) -> RenderableType:
    replicas = picture.replicas
    if not replicas:
        return a_line("no replicas", style="dim")
    names = [one.name for one in replicas]
    at = names.index(view.selected) if view.live and view.selected in names else 0
    shown = window(view, at, len(replicas), rows)
    columns = dict(_columns(replicas, width))
    table = a_table()
    table.add_column("replica", ratio=1, no_wrap=True, overflow="ellipsis")
    for name in columns:
        justify: JustifyMethod = "left" if name in ("host", "state") else "right"
        table.add_column(a_line(name), justify=justify, no_wrap=True, overflow="ellipsis")
    for one in replicas[shown]:
        chosen = view.live and one.name == view.selected
        mark = "> " if chosen else "  " if view.live else ""
        style = "reverse" if chosen else _STYLES.get(one.state)
        cells = [a_line(cell(one)) for cell in columns.values()]
        table.add_row(a_line(mark + one.name), *cells, style=style)
    left = picture.replica_count - len(replicas)
    if left > 0 and (rows is None or shown.stop >= len(replicas)):
        table.caption = f"and {left} more"
        table.caption_justify = "left"
    return table


def _columns(
    replicas: Sequence[Replica], width: int
) -> Iterator[tuple[str, Callable[[Replica], str]]]:
    """What is shown beside the name, in order: what matters most, as far as there is room."""
    full: Counter[str] = Counter()
    for one in replicas:
        for device in one.devices:
            full[device.device] += device.nbytes
    fullest, *others = [name for name, _ in full.most_common()] or [""]
    ranked = ["state", "sessions", fullest, "steps/s", "waiting", "moves", "host", *others]
    room, kept = width - _NAME, set()
    for name in filter(None, ranked):
        room -= _WIDTHS.get(name, _DEVICE)
        if room < 0:
            break
        kept.add(name)
    cells: dict[str, Callable[[Replica], str]] = {
        "host": lambda one: one.host,
        "state": lambda one: one.state,
        "sessions": lambda one: f"{one.sessions}/{one.max_sessions}",
        **{name: partial(_held_on, name) for name in sorted(full)},
        "steps/s": _rate,
        "waiting": lambda one: str(one.waiting or "-"),
        "moves": lambda one: str(one.came + one.went or "-"),
    }
    return ((name, cell) for name, cell in cells.items() if name in kept)


def _held_on(name: str, one: Replica) -> str:
    found = next((device for device in one.devices if device.device == name), None)
    return "-" if found is None or one.state == "dead" else _held(found)


def _held(device: Device) -> str:
    if device.budget is None:
        return format_nbytes(device.nbytes)
    return f"{device.nbytes / max(1, device.budget):.0%} of {format_nbytes(device.budget)}"


def _rate(one: Replica) -> str:
    if one.steps_per_s is None or one.state == "dead":
        return "-"
    return f"{one.steps_per_s:.1f}" if one.steps_per_s < 100 else f"{one.steps_per_s:.0f}"


def _one(one: Replica) -> RenderableType:
    """All that is known of one replica."""
    age = "none" if one.snapshot_age_s is None else f"the oldest {one.snapshot_age_s:.0f} s ago"
    failing = f", {_count(one.unsaved, 'session')} could not be saved" if one.unsaved else ""
    lines = {
        "replica": f"{one.name}, {one.state}, on {one.host} (process {one.pid})",
        "sessions": f"{one.sessions} of at most {one.max_sessions}",
        **{
            device.device: f"{format_nbytes(device.nbytes)} held or promised, {_held(device)}"
            if device.budget is not None
            else f"{format_nbytes(device.nbytes)} held or promised, no budget"
            for device in one.devices
        },
        "steps": f"{one.steps} done, {_rate(one)} a second, {one.running} run, {one.waiting} wait",
        "begun": f"{one.begun}, {one.refused} found no room",
        "moves": f"{one.came} came, {one.went} left",
        "restores": f"{one.restored} out of snapshots, {one.lost} lost with it",
        "snapshots": f"{age}, {_count(one.unsaved_steps, 'step')} not saved{failing}",
    }
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for word, text in lines.items():
        table.add_row(a_line(word, style="bold"), a_line(text))
    return table


def _lost(picture: ServicePicture, count: int, *, whole: bool) -> RenderableType:
    """The lost sessions; `whole` reasons take as many lines as they need."""
    table = a_table()
    table.add_column("lost session", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("replica", no_wrap=True, overflow="ellipsis", max_width=12)
    table.add_column("snapshot", no_wrap=True)
    table.add_column("why", ratio=3, no_wrap=not whole, overflow="fold" if whole else "ellipsis")
    for one in picture.lost[:count]:
        kept = "none" if one.saved_step is None else f"step {one.saved_step}"
        why = Text(on_one_line(one.reason)) if whole else a_line(one.reason)
        table.add_row(*map(a_line, (one.session_id, one.replica, kept)), why, style="yellow")
    left = picture.lost_count - count
    if left > 0:
        table.caption = f"and {left} more"
        table.caption_justify = "left"
    return table


def _count(number: int, of: str) -> str:
    return f"1 {of}" if number == 1 else f"{number} {of}s"
