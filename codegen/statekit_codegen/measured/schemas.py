"""Schemas: the files that a run is compared with, and written into.

Owns which file belongs to which model of a recording: one that is named, else the one that the
model's adapter was generated from, as it is now.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from statekit.errors import GenerateError, SchemaError
from statekit.measure.recording import Recording
from statekit_codegen.load import load_model
from statekit_codegen.model import Model
from statekit_codegen.project import Project

__all__ = ["SchemaFile", "files_of", "named"]


@attrs.frozen
class SchemaFile:
    """A schema, and where it lies."""

    path: Path
    model: Model


def named(paths: Iterable[Path]) -> list[SchemaFile]:
    """The schemas that somebody named.

    Raises:
        SchemaError: one of them cannot be used.
    """
    return [SchemaFile(path, load_model(path, path.as_posix())) for path in paths]


def files_of(recording: Recording, given: Sequence[SchemaFile]) -> dict[str, SchemaFile]:
    """The schema files by model; a model whose file is not here is absent.

    Raises:
        GenerateError: one of `given` describes no model of the run.
    """
    found: dict[str, SchemaFile] = {}
    for file in given:
        name = file.model.spec.model
        if name not in recording.specs:
            known = ", ".join(recording.specs) or "none"
            todo = f"name the schema of a model that ran: {known}"
            raise GenerateError(f"--schema {file.path}", f"the model {name}", todo)
        found[name] = file
    root = _root()
    for name, spec in recording.specs.items():
        path = root / spec.schema
        if name not in found and spec.schema and path.is_file():
            with contextlib.suppress(SchemaError):  # then the run's own words have to do
                model = load_model(path, spec.schema)
                if model.spec.model == name:
                    found[name] = SchemaFile(path, model)
    return found


def _root() -> Path:
    """The folder that names of schemas are relative to."""
    try:
        return Project.find(Path.cwd()).root
    except GenerateError:
        return Path.cwd()
