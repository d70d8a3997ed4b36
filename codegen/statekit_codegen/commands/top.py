"""`statekit top`: watch the sessions of a manager, or the replicas of a service."""

from __future__ import annotations

import contextlib
import json
import sys

import attrs
import click

from statekit.errors import WatchError
from statekit.watch.client import Client, find
from statekit.watch.service_picture import ServicePicture
from statekit.watch.wire import MAX_TOP, SORTS, Ask
from statekit_codegen.console import console_of
from statekit_codegen.top_parts import View
from statekit_codegen.top_view import layout

__all__ = ["top"]


@click.command(short_help="Watch a running manager, or a service.")
@click.argument("target", metavar="[PID|SOCKET]", required=False)
@click.option("--session", metavar="ID", help="Show the values of this session.")
@click.option("--once", is_flag=True, help="Print one picture as plain text, as in a pipe.")
@click.option("--json", "as_json", is_flag=True, help="Print one picture as JSON.")
@click.option("--sort", type=click.Choice(SORTS), default="bytes", show_default=True)
@click.option("--rows", type=click.IntRange(0, MAX_TOP), default=50, help="Rows of --once.")
@click.option(
    "--every", metavar="S", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True
)
def top(
    target: str | None,
    session: str | None,
    once: bool,
    as_json: bool,
    sort: str,
    rows: int,
    every: float,
) -> int:
    """Watch the sessions of a manager, or the replicas of a service.

    Their process shows them with `serve(manager)` or `serve_service(sessions)`, of
    `statekit.watch`, to the same user alone. Without PID or SOCKET: the only one there is.

    \b
    Keys: q quit, arrows or j k select, enter details of a row, s sort.

    \b
    Example:
      $ statekit top 4711
      $ statekit top --once --session robot-7
    """
    path = find(target)
    with Client(path) as client:
        console = console_of(None)
        if as_json or once or not sys.stdout.isatty() or console.is_dumb_terminal:
            picture = client.ask_any(Ask(rows, sort, 0, session))
            of_service = isinstance(picture, ServicePicture)
            if of_service and session is not None:
                todo = "watch the process of the replica, if that shows its manager"
                raise WatchError(str(path), "a service knows no values of sessions", todo)
            if as_json:
                schema = "statekit.top.service/1" if of_service else "statekit.top/1"
                print(json.dumps({"schema": schema, **attrs.asdict(picture)}, indent=2))
                return 0
            view = View(sort=sort, values=session is not None, live=False)
            with console.capture() as captured:
                console.print(layout(picture, view, console.width))
            print(*(line.rstrip() for line in captured.get().splitlines()), sep="\n")
            shown = isinstance(picture, ServicePicture) or session is None or picture.values
            return 0 if shown is not None else 1
        from statekit_codegen.top_screen import watch

        view = View(selected=session, sort=sort, values=session is not None)
        with contextlib.suppress(KeyboardInterrupt):
            watch(client, console, view, every)
    return 0
