"""`statekit audit`: say where a hand-rolled class and its schema part ways."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from statekit.errors import GenerateError
from statekit_codegen.audit.comparison import audit as compare
from statekit_codegen.audit.text import as_annotations, as_json, as_text
from statekit_codegen.commands.scaffold import read_target
from statekit_codegen.load import load_model
from statekit_codegen.project import Project

__all__ = ["audit"]


@click.command(short_help="Compare a hand-rolled class with its schema.")
@click.argument("target", metavar="FILE.py:CLASS")
@click.option(
    "--schema", metavar="FILE", required=True, type=click.Path(path_type=Path), help="Its schema."
)
@click.option("--ignore", metavar="NAME", multiple=True, help="It differs on purpose.")
@click.option("--rename", metavar="ATTRIBUTE=VALUE", multiple=True, help="One, by two names.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
)
def audit(
    target: str,
    schema: Path,
    ignore: tuple[str, ...],
    rename: tuple[str, ...],
    form: Literal["text", "json", "github"],
) -> int:
    """Compare a hand-rolled class with its schema.

    Names, types, defaults, resets, bounds and more, as far as the source says them; it is read,
    never run. What is named under `outside` is elsewhere on purpose.

    \b
    Exit code: 0 no differences, 1 differences, 2 a file could not be used.

    \b
    Example:
      $ statekit audit reef/state.py:ReefState --schema schemas/reef.yaml
    """
    state = read_target(target)
    model = load_model(schema, _shown(schema))
    report = compare(state, model, ignored=ignore, renamed=dict(map(_pair, rename)))
    name = state.name
    if form == "json":
        click.echo(as_json(report, name, model.schema.model))
    else:
        lines = (
            as_annotations(report)
            if form == "github"
            else as_text(report, name, model.schema.model)
        )
        for line in lines:
            click.echo(line)
    return 1 if report.differences else 0


def _shown(path: Path) -> str:
    """The schema as messages show it: relative to the project, where there is one."""
    try:
        return Project.find(Path.cwd()).display(path)
    except GenerateError:
        return path.as_posix()


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise click.UsageError(f"--rename {text}: write ATTRIBUTE=VALUE")
    return name, value
