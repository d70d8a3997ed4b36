"""`statekit scaffold`: draft a schema, and a subclass, from a hand-rolled state class."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

import click

from statekit.errors import GenerateError, SchemaError
from statekit_codegen.check_names import SNAKE
from statekit_codegen.load import load_text
from statekit_codegen.project import Project
from statekit_codegen.reading.facts import HandRolled
from statekit_codegen.reading.reader import read_source
from statekit_codegen.reading.source import Target, read_file
from statekit_codegen.scaffold.document import draft, model_name
from statekit_codegen.scaffold.holder import session_values
from statekit_codegen.scaffold.subclass import subclass

__all__ = ["read_target", "scaffold"]

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(short_help="Draft a schema from a hand-rolled class.")
@click.argument("target", metavar="FILE.py:CLASS")
@click.option("-o", "--output", metavar="FILE", type=_FILE, help="Write there, not to stdout.")
@click.option("--model", metavar="NAME", help="Name of the model.  [default: FILE's, or CLASS's]")
@click.option("--subclass", "sub", metavar="FILE", type=_FILE, help="Write a draft of it there.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
def scaffold(
    target: str, output: Path | None, model: str | None, sub: Path | None, force: bool
) -> int:
    """Draft a schema from a hand-rolled class.

    The file is read, never imported or run. What it does not say is asked under `questions` in the
    draft; `statekit vet` lists those that are left.

    \b
    Exit code: 0 drafted, 2 the class could not be read, or a file is in the way.

    \b
    Example:
      $ statekit scaffold reef/state.py:ReefState -o schemas/reef.yaml
    """
    state = read_target(target)
    if not session_values(state):
        todo = "name the class whose instances a session keeps"
        raise GenerateError(f"{state.file}:{state.site.line}", f"{state.name} keeps nothing", todo)
    name = _model(state, output, model)
    text = draft(state, name)
    files = {}
    if output is not None:
        files[output] = text
    if sub is not None:
        files[sub] = subclass(state, _module(name))
    _write(files, force)
    if output is None:
        click.echo(text, nl=False)
    click.echo(_summary(state, text, output, list(files)), err=output is None)
    return 0


def read_target(text: str) -> HandRolled:
    """The facts of the class that `FILE.py:CLASS` names.

    Raises:
        GenerateError: the file can't be read or parsed, or has no such class.
    """
    target = Target.parse(text)
    file = target.path.as_posix()
    return read_source(read_file(target.path, file), target, file)


def _model(state: HandRolled, output: Path | None, model: str | None) -> str:
    if model is not None:
        if not SNAKE.fullmatch(model):
            raise click.UsageError(f"--model {model}: use lower-case letters, digits and _")
        return model
    stem = "" if output is None else output.stem
    return stem if SNAKE.fullmatch(stem) else model_name(state.name)


def _module(model: str) -> str:
    """The module that the generated class will be in."""
    project = Project.find(Path.cwd())
    parts = list(project.output.relative_to(project.root).parts)
    if parts[:1] == ["src"]:
        del parts[0]
    return ".".join([*parts, model])


def _write(files: dict[Path, str], force: bool) -> None:
    """Write every file whole, none where one may not be."""
    for path in files:
        if path.exists() and not force:
            raise GenerateError(path.as_posix(), "a file is there", "use another name, or --force")
    for path, text in files.items():
        _write_whole(path, text)


def _write_whole(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        found = error.strerror or str(error)
        raise GenerateError(path.as_posix(), found, "name a file that can be written") from None


def _summary(state: HandRolled, text: str, output: Path | None, files: list[Path]) -> str:
    """What was drafted, and what to do next."""
    place = "the draft" if output is None else output.as_posix()
    try:
        schema = load_text(text.encode(), place).schema
    except SchemaError as error:
        print(f"{error}\nstatekit: the draft does not load; please report it", file=sys.stderr)
        return ""
    asked = len(schema.questions) + sum(len(value.questions) for value in schema.values.values())
    wrote = [f"wrote      {path.as_posix()}" for path in files]
    counts = f"{_count(len(schema.values), 'value')}, {_count(len(schema.resets), 'reset')}"
    todo = "answer them" if asked else "read it"
    said = f"{state.name}: {counts}, {_count(asked, 'question')}; {todo}, then run: statekit vet"
    return "\n".join([*wrote, said])


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"
