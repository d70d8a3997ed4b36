"""The screen of `statekit top`: an alternate screen that follows a server, and the keyboard.

Owns the terminal while it is up: whatever ends it, the terminal is as it was before.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import attrs
from rich.console import Console
from rich.live import Live

from statekit.watch.client import Client
from statekit.watch.picture import Happening, Picture
from statekit.watch.service_picture import ServicePicture
from statekit.watch.wire import MAX_TOP, SORTS, Ask
from statekit_codegen.top_parts import View
from statekit_codegen.top_view import layout

__all__ = ["ended_by_signals", "watch"]

_KEYS = {
    b"q": "quit",
    b"Q": "quit",
    b"j": "down",
    b"k": "up",
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\r": "enter",
    b"\n": "enter",
    b"s": "sort",
    b"\x1b": "back",
}
_TOLD = 64
_BLINK_S = 0.25
"""How often the size of the terminal is looked at."""


def watch(client: Client, console: Console, view: View, every_s: float) -> None:
    """Show pictures until somebody wants no more.

    Raises:
        WatchError: the server is gone, or answers nonsense.
    """
    told: tuple[Happening, ...] = ()
    picture: Picture | ServicePicture | None = None
    due = 0.0
    with (
        ended_by_signals() as ended,
        _keyboard() as keyboard,
        Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False) as live,
    ):
        while not ended:
            if picture is None or time.monotonic() >= due:
                picture = client.ask_any(_ask(view, told))
                told = (*told, *picture.happenings)[-_TOLD:]
                due = time.monotonic() + every_s
            whole = attrs.evolve(picture, happenings=told)
            live.update(layout(whole, view, *console.size), refresh=True)
            for key in keyboard(min(_BLINK_S, max(0.0, due - time.monotonic()))):
                if key == "quit":
                    return
                if _press(key, view, picture):
                    due = 0.0


def _ask(view: View, told: tuple[Happening, ...]) -> Ask:
    since = told[-1].number if told else 0
    return Ask(MAX_TOP, view.sort, since, view.selected if view.values else None)


def _press(key: str, view: View, picture: Picture | ServicePicture) -> bool:
    """Do what a key says; whether that needs another picture."""
    if key in ("up", "down"):
        step = 1 if key == "down" else -1
        if view.values:
            view.first = max(0, view.first + step)
            return False
        ids = _rows(picture)
        if view.selected in ids:
            at = min(len(ids) - 1, max(0, ids.index(view.selected) + step))
            view.selected = ids[at]
        return False
    if key == "sort":
        view.sort = SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)]
        return True
    if key == "enter" or (key == "back" and view.values):
        view.values = not view.values and view.selected is not None
        view.first = 0
        return True
    return False


def _rows(picture: Picture | ServicePicture) -> list[str]:
    """What can be selected."""
    if isinstance(picture, ServicePicture):
        return [one.name for one in picture.replicas]
    return [one.session_id for one in picture.sessions]


@contextmanager
def _keyboard() -> Iterator[Keyboard]:
    """Keys as they are pressed, without echo; none where there is no keyboard."""
    import termios
    import tty

    try:
        file = sys.stdin.fileno()
        before = termios.tcgetattr(file)
    except (OSError, ValueError, AttributeError, termios.error):
        yield Keyboard(None)
        return
    try:
        tty.setcbreak(file)
        yield Keyboard(file)
    finally:
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(file, termios.TCSADRAIN, before)


class Keyboard:
    """What was pressed, in words."""

    def __init__(self, file: int | None) -> None:
        self._file = file

    def __call__(self, wait_s: float) -> list[str]:
        """The keys that were pressed by then; at once where there are some."""
        if self._file is None:
            time.sleep(wait_s)
            return []
        ready, _, _ = select.select([self._file], [], [], wait_s)
        try:
            data = os.read(self._file, 256) if ready else b""
        except OSError:
            data = b""
        if ready and not data:
            return ["quit"]  # the terminal is gone
        return list(_pressed(data))


def _pressed(data: bytes) -> Iterator[str]:
    while data:
        size = 3 if data[:3] in _KEYS else 1
        if data[:1] == b"\x1b" and size == 1 and len(data) > 1:
            return  # a key that we do not know
        key = _KEYS.get(data[:size])
        if key is not None:
            yield key
        data = data[size:]


@contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """While the terminal is ours, SIGTERM ends us as Ctrl-C does: the terminal is put back.

    Gives the signals that came. The error that each raises is lost where it comes in a callback of
    the garbage collector or of a weak reference, so whoever goes round in a loop asks, too.
    """
    came: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {one: signal.signal(one, end) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
