"""`statekit breaking`: what changed since, and whom it breaks."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import click

from statekit.errors import Problem, SchemaError
from statekit_codegen.against import OtherSide, read_other_side
from statekit_codegen.annotation import annotation
from statekit_codegen.breaking import Comparison, Located, compare
from statekit_codegen.breaking_text import print_comparisons
from statekit_codegen.console import console_of
from statekit_codegen.load import load_models
from statekit_codegen.model import Model
from statekit_codegen.project import Project

__all__ = ["FIELDS", "JSON_SCHEMA", "breaking"]

Format = Literal["text", "json", "github"]

JSON_SCHEMA = "statekit.breaking/1"

FIELDS: Mapping[str, str] = {
    "model": "name of the model",
    "rule": "the id in docs/rules.md",
    "class": "`SOURCE` or `SNAPSHOT`: who is hurt if it breaks",
    "breaks": "whether it breaks something",
    "subject": "the member, value, number, reset or group; empty for the model",
    "was": "how it was; empty if it was not there",
    "now": "how it is; empty if it is gone",
    "why": "what follows from it",
    "file": "the schema today, relative to the project; of a model that is gone, what it was",
    "line": "where it is seen in that file, from 1",
    "column": "the same",
}
"""Every field of a change with its meaning; `docs/cli.md` shows them."""


@click.command(short_help="Show what changed since, and whom it breaks.")
@click.argument("schemas", metavar="[SCHEMA]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--against",
    metavar="REV|DIR",
    required=True,
    help="A revision of the project, another copy of it, or a folder of schemas.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="For a person, for a program, or annotations of a pull request.",
)
@click.option(
    "--width",
    type=click.IntRange(min=40),
    help="Columns of the text.  [default: the terminal's; 80 in a pipe]",
)
def breaking(schemas: tuple[Path, ...], against: str, form: Format, width: int | None) -> int:
    """Compare schemas with those of another time or place.

    Changes that break something come in two classes: SOURCE, code that uses the generated class,
    and SNAPSHOT, sessions that were saved. All others are shown as compatible. A revision is read
    from git's objects, by its own pyproject.toml; nothing is checked out. Without SCHEMA, all
    schemas of the project, and those that are gone.

    \b
    Exit code: 0 nothing breaks, 1 something does, 2 it could not run.

    \b
    Examples:
      statekit breaking --against main         before a merge
      statekit breaking --against v1.4.0       before a release
    """
    try:
        project = Project.find(Path.cwd())
        today = _today(project, schemas)
        other = read_other_side(project, against)
    except SchemaError as error:
        _print_problems(error.problems, form)
        return 2
    found = compare(other.models, today, all_schemas=not schemas)
    _print(found, other, form, width)
    return 1 if any(one.breaking for one in found) else 0


def _today(project: Project, schemas: tuple[Path, ...]) -> list[Model]:
    """The models of today; none where the project has no schema left."""
    folder = project.schemas
    if not schemas and not (folder.is_dir() and any(map(project.is_schema, folder.iterdir()))):
        return []
    return load_models(project, schemas)


def _print(found: Sequence[Comparison], other: OtherSide, form: Format, width: int | None) -> None:
    if form == "text":
        print_comparisons(found, other.name, console_of(width))
    elif form == "json":
        records = [_record(one, located) for one in found for located in one.changes]
        document = {"schema": JSON_SCHEMA, "against": other.name, "changes": records}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for one in found:
            for located in one.changes:
                print(_annotation(one, located))


def _record(comparison: Comparison, located: Located) -> dict[str, Any]:
    change = located.change
    record = {
        **attrs.asdict(change),
        "model": comparison.model,
        "class": change.hurt,
        "file": comparison.file,
        "line": located.line,
        "column": located.column,
    }
    return {name: record[name] for name in FIELDS}


def _annotation(comparison: Comparison, located: Located) -> str:
    change = located.change
    sides = " -> ".join(filter(None, (change.was, change.now or "gone")))
    message = f"{change.subject or comparison.model}: {sides}; {change.why}"
    level: Literal["error", "notice"] = "error" if change.breaks else "notice"
    return annotation(level, comparison.file, located.line, located.column, change.rule, message)


def _print_problems(problems: Sequence[Problem], form: Format) -> None:
    if form == "json":
        records = [attrs.asdict(problem) for problem in problems]
        print(json.dumps({"schema": JSON_SCHEMA, "problems": records}, indent=2), file=sys.stderr)
        return
    for problem in problems:
        print(problem, file=sys.stderr)
