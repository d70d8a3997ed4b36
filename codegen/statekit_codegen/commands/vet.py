"""`statekit vet`: hold schemas to the rules and print what breaks one."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TextIO

import attrs
import click

from statekit.errors import Problem, SchemaError
from statekit_codegen.annotation import annotation
from statekit_codegen.load import load_models
from statekit_codegen.project import Project
from statekit_codegen.rules import vet as vet_model

__all__ = ["vet"]

Format = Literal["text", "json", "github"]

JSON_SCHEMA = "statekit.vet/1"


@click.command()
@click.argument("schemas", metavar="[SCHEMA]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="One line each, one JSON document, or annotations of a pull request.",
)
def vet(schemas: tuple[Path, ...], form: Format) -> int:
    """Hold schemas to the rules.

    Does each bucket follow from its decision, is every value cleared, can its bytes be computed,
    and more: docs/rules.md lists the rules. Without SCHEMA, all schemas of the project.

    \b
    Exit code: 0 no findings, 1 findings, 2 a schema could not be used.

    \b
    Example:
      $ statekit vet schemas/toy.yaml
      schemas/toy.yaml:9:5: BUCKET_STATE_OBJECT at $.values.frames.bucket:
      a StateObject that the manager only carries (operations: []);
      use bucket: attrs, or list the operation that needs an object
    """
    try:
        models = load_models(Project.find(Path.cwd()), schemas)
    except SchemaError as error:
        _print(error.problems, form, "problems", sys.stderr)
        return 2
    findings = sorted(finding for model in models for finding in vet_model(model))
    _print(findings, form, "findings", sys.stdout)
    if form == "text":
        print(_summary(findings, len(models)))
    return 1 if findings else 0


def _print(problems: Sequence[Problem], form: Format, what: str, stream: TextIO) -> None:
    if form == "json":
        records = [attrs.asdict(problem) for problem in problems]
        print(json.dumps({"schema": JSON_SCHEMA, what: records}, indent=2), file=stream)
        return
    for problem in problems:
        print(_annotation(problem) if form == "github" else problem, file=stream)


def _annotation(problem: Problem) -> str:
    message = f"{problem.path}: {problem.found}; {problem.todo}"
    return annotation("error", problem.file, problem.line, problem.column, problem.rule, message)


def _summary(findings: Sequence[Problem], count: int) -> str:
    schemas = "1 schema" if count == 1 else f"{count} schemas"
    if not findings:
        return f"{schemas}, no findings"
    files = len({finding.file for finding in findings})
    found = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    return f"{found} in {files} of {schemas}"
