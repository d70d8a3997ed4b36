"""`statekit generate`: write the adapters, or say which are stale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from statekit.errors import GenerateError
from statekit_codegen.load import load_models
from statekit_codegen.project import Project
from statekit_codegen.write import FileChange, apply, plan

__all__ = ["generate"]

_STALE = {"new": "missing", "changed": "changed", "orphan": "orphan"}


@click.command(short_help="Write the adapters from the schemas.")
@click.argument("schemas", nargs=-1, type=click.Path(path_type=Path), metavar="[SCHEMA]...")
@click.option("--check", is_flag=True, help="Write nothing; name stale files, exit with 1 if any.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
@click.option("--prune", is_flag=True, help="Also delete adapters whose schema is gone.")
def generate(schemas: tuple[Path, ...], check: bool, diff: bool, prune: bool) -> int:
    """Write the adapter of each SCHEMA, or of all in the project.

    Schemas and output folder are those of [tool.statekit] in the nearest pyproject.toml. Files are
    written whole or not at all; unchanged ones are left alone, and so is whatever was not
    generated.

    \b
    Examples:
      statekit generate                        after a schema has changed
      statekit generate --check                in CI
      statekit generate schemas/mymodel.yaml   only this one
    """
    if check and prune:
        raise click.UsageError("--check writes nothing, so it does not go with --prune")
    project = Project.find(Path.cwd())
    for path in schemas:
        _require_in_folder(project, path)
    changes = plan(project, load_models(project, schemas), all_schemas=not schemas)
    if check or diff:
        return _report(changes, check=check, prune=prune)
    apply(changes, prune=prune)
    for change in changes:
        click.echo(f"{_done(change, prune):<11}{change.shown}")
    if not prune and any(change.kind == "orphan" for change in changes):
        click.echo("an orphan has no schema any more; to delete it: statekit generate --prune")
    return 0


def _require_in_folder(project: Project, path: Path) -> None:
    """Refuse a schema that a run over all schemas would not find."""
    if not project.is_schema(path):
        folder = project.display(project.schemas)
        raise GenerateError(
            project.display(path),
            "not a schema of this project",
            f"put it into {folder}/ as NAME.yaml",
        )


def _done(change: FileChange, prune: bool) -> str:
    if change.kind == "orphan":
        return "deleted" if prune else "orphan"
    return "unchanged" if change.kind == "unchanged" else "wrote"


def _report(changes: Sequence[FileChange], *, check: bool, prune: bool) -> int:
    stale = [change for change in changes if change.kind != "unchanged"]
    if check:
        for change in stale:
            click.echo(f"{_STALE[change.kind]:<11}{change.shown}")
    for change in stale:
        if change.after is not None or prune:
            click.echo(change.diff(), nl=False)
    if not check:
        return 0
    if not stale:
        click.echo(f"all {len(changes)} files are up to date")
        return 0
    option = " --prune" if all(change.kind == "orphan" for change in stale) else ""
    click.echo(f"{len(stale)} of {len(changes)} files are stale; run: statekit generate{option}")
    return 1
