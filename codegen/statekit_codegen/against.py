"""Against: the schemas of the other side, which those of today are compared with.

Owns where they are found: at a revision of the project's repository, in another copy of the
project, or in a folder of schemas. They are read by today's rules, and nothing is written.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import attrs

from statekit.errors import GenerateError, Problem, SchemaError
from statekit_codegen.git import Revision
from statekit_codegen.load import load_model, load_text
from statekit_codegen.model import Model
from statekit_codegen.project import Project, statekit_table
from statekit_codegen.scalars import invisible, shown

__all__ = ["OtherSide", "read_other_side"]


@attrs.frozen
class OtherSide:
    """The schemas that today's are compared with.

    Attributes:
        name: what the other side was called.
        models: each by the path of its schema there, relative to the project with /.
    """

    name: str
    models: dict[str, Model]


def read_other_side(project: Project, against: str) -> OtherSide:
    """The schemas in the folder `against`, if there is one, else at the revision of that name.

    A folder is another copy of the project, by its own `pyproject.toml`, or a folder of schemas.

    Raises:
        GenerateError: there is neither, or git can't be used here.
        SchemaError: a schema of the other side can't be used; it carries the problems of all.
    """
    folder = Path(against)
    try:
        there = bool(against) and folder.is_dir()
    except (OSError, ValueError):
        there = False
    try:
        found = list(_in_folder(folder) if there else _at_revision(project, against))
    except OSError as error:
        todo = "name a folder that can be read"
        raise GenerateError(f"--against {against}", error.strerror or str(error), todo) from None
    models = {path: one for path, one in found if isinstance(one, Model)}
    problems: list[Problem] = []
    for _, one in found:
        problems += one.problems if isinstance(one, SchemaError) else ()
    if problems:
        raise SchemaError(problems)
    return OtherSide(against, models)


_Found = Iterator[tuple[str, "Model | SchemaError"]]


def _in_folder(folder: Path) -> _Found:
    project = _project_in(folder)
    if project is None:
        schemas, root = folder.resolve(), folder.resolve()
        files = sorted(path for path in schemas.iterdir() if _is_schema(path.name))
        if not files:
            todo = "name a folder of schemas, or a project with [tool.statekit] in pyproject.toml"
            raise GenerateError(f"--against {folder}", "no schema in it", todo)
    else:
        schemas, root = project.schemas, project.root
        there = schemas.is_dir()
        files = sorted(filter(project.is_schema, schemas.iterdir())) if there else []
    for path in files:
        shown_path = path.relative_to(root).as_posix()
        try:
            yield shown_path, load_model(path, (folder / shown_path).as_posix())
        except SchemaError as error:
            yield shown_path, error


def _project_in(folder: Path) -> Project | None:
    """The project whose `pyproject.toml` lies in `folder` itself."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return None
    data = file.read_bytes()
    return Project.find(folder) if statekit_table(data, str(file)) is not None else None


def _at_revision(project: Project, name: str) -> _Found:
    revision = Revision.find(project.root, name)
    folder = _schemas_folder(project, revision)
    for file in revision.files(folder):
        path = posixpath.normpath(f"{folder}/{file}")
        if not _is_schema(file):
            continue
        try:
            yield path, _load(revision, path)
        except SchemaError as error:
            yield path, error


def _schemas_folder(project: Project, revision: Revision) -> str:
    """Where the schemas were: by the revision's own table, else where they are today."""
    place = f"{revision.name}:pyproject.toml"
    data = revision.read("pyproject.toml")
    table = None if data is None else statekit_table(data, place)
    folder = table.get("schemas") if isinstance(table, dict) else None
    if not isinstance(folder, str):
        return project.schemas.relative_to(project.root).as_posix()
    folder = posixpath.normpath(folder.replace("\\", "/"))
    if folder.startswith(("/", "..")):
        todo = "compare with a revision whose schemas are in the project"
        raise GenerateError(place, f"schemas: {shown(folder)} leaves the project", todo)
    return folder


def _load(revision: Revision, path: str) -> Model:
    file = f"{revision.name}:{path}"
    data = revision.read(path)
    if data is None or invisible(file) or not file.isprintable():
        found = "a link that leads to no file of the repository" if data is None else "its name"
        todo = "compare with a revision where it is a file with a plain name"
        raise SchemaError([Problem(shown(file), 1, 1, "FILE_READABLE", "$", found, todo)])
    return load_text(data, file)


def _is_schema(name: str) -> bool:
    return PurePosixPath(name).suffix in (".yaml", ".yml") and not name.startswith(".")
