"""`statekit review`: show what a session of each model holds, and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import click
from rich.console import Console

from statekit_codegen.fault import closest
from statekit_codegen.load import load_models
from statekit_codegen.model import Model
from statekit_codegen.project import Project
from statekit_codegen.review import review as review_model
from statekit_codegen.review_json import to_json
from statekit_codegen.review_markdown import to_markdown
from statekit_codegen.review_text import print_review

__all__ = ["review"]

PIPE_WIDTH = 80


@click.command()
@click.argument("schemas", metavar="[SCHEMA]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "json"]),
    default="text",
    show_default=True,
    help="For a terminal, for a pull request, or for a program.",
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=NUMBER",
    multiple=True,
    callback=lambda context, option, given: dict(map(_setting, given)),
    help="Use this number for a symbol, constant or parameter. Can be repeated.",
)
@click.option(
    "--sessions",
    type=click.IntRange(1, 1_000_000),
    default=64,
    show_default=True,
    help="Show the bytes of so many sessions as well.",
)
@click.option(
    "--width",
    type=click.IntRange(min=40),
    help="Columns of the text.  [default: the terminal's; 80 in a pipe]",
)
def review(
    schemas: tuple[Path, ...],
    form: Literal["text", "md", "json"],
    settings: dict[str, int],
    sessions: int,
    width: int | None,
) -> int:
    """Show what a session holds, and why.

    For each model: values by bucket, their bytes, bounds, resets and recorded decisions. All
    figures are computed from the schema. Without SCHEMA, all schemas of the project.

    \b
    Example:
      $ statekit review schemas/toy.yaml --set H=480 --set W=832
      $ statekit review --format md > review.md
    """
    models = load_models(Project.find(Path.cwd()), schemas)
    _check_names(settings, models)
    reviews = [review_model(model, settings, sessions) for model in models]
    if form == "json":
        print(to_json(reviews, sessions))
    elif form == "md":
        print(to_markdown(reviews), end="")
    else:
        console = _console(width)
        for one in reviews:
            print_review(one, console)
    return 0


def _setting(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.isdecimal() or not number.isascii() or int(number) < 1:
        raise click.BadParameter(
            f"{text!r}; write a name and a whole number above 0, such as H=480"
        )
    return name, int(number)


def _check_names(names: Iterable[str], models: Iterable[Model]) -> None:
    known = sorted({name for model in models for name in model.spec.environment()})
    for name in names:
        if name not in known:
            todo = f"{closest(name, known)}known: {', '.join(known) or 'none'}"
            raise click.BadParameter(f"no schema has a number {name!r}; {todo}", param_hint="--set")


def _console(width: int | None) -> Console:
    """A console as wide as asked for: by the option, then COLUMNS, then the terminal."""
    if width is None and not sys.stdout.isatty():
        columns = os.environ.get("COLUMNS", "")
        width = max(40, int(columns)) if columns.isdecimal() and columns.isascii() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False, emoji=False)
