"""Project: where a project's schemas are and where its adapters go, from its `pyproject.toml`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from statekit.errors import GenerateError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Project", "statekit_table"]

_EXAMPLE = '[tool.statekit] with schemas = "schemas" and output = "myproject/adapters/generated"'


@attrs.frozen
class Project:
    """A project that uses statekit.

    Attributes:
        root: the folder of the `pyproject.toml`.
        schemas: the folder of the schemas, absolute.
        output: the folder of the generated adapters, absolute.
    """

    root: Path
    schemas: Path
    output: Path

    @classmethod
    def find(cls, start: Path) -> Project:
        """The project that `start` lies in: the nearest `pyproject.toml` with our table.

        Raises:
            GenerateError: there is none, or its table is wrong.
        """
        start = start.resolve()
        for folder in (start, *start.parents):
            file = folder / "pyproject.toml"
            if file.is_file():
                table = _table(file)
                if table is not None:
                    return cls._from_table(file, table)
        raise GenerateError(
            str(start),
            "no pyproject.toml with a [tool.statekit] table here or above",
            f"add {_EXAMPLE}",
        )

    @classmethod
    def _from_table(cls, file: Path, table: Any) -> Project:
        place = f"{file}: [tool.statekit]"
        if not isinstance(table, dict):
            raise GenerateError(place, "not a table", f"write {_EXAMPLE}")
        unknown = sorted(set(table) - {"schemas", "output"})
        if unknown:
            raise GenerateError(place, f"unknown key {unknown[0]!r}", "use schemas and output")
        folders = {}
        for key in ("schemas", "output"):
            value = table.get(key)
            if not isinstance(value, str) or not value:
                found = "missing" if key not in table else f"{value!r} is no folder name"
                raise GenerateError(place, f"{key}: {found}", f"write {_EXAMPLE}")
            folder = (file.parent / value).resolve()
            if not folder.is_relative_to(file.parent):
                raise GenerateError(
                    place, f"{key}: {value!r} leaves the project", "name a folder in it"
                )
            folders[key] = folder
        return cls(root=file.parent, schemas=folders["schemas"], output=folders["output"])

    def schema_files(self, chosen: Iterable[Path] = ()) -> tuple[Path, ...]:
        """The schemas named in `chosen`, or all of the project, sorted by name.

        Raises:
            GenerateError: the folder is missing, or holds no schema.
        """
        files = tuple(chosen)
        if files:
            return files
        if not self.schemas.is_dir():
            raise GenerateError(
                self.display(self.schemas), "no such folder", "put the schemas there"
            )
        files = tuple(sorted(filter(self.is_schema, self.schemas.iterdir())))
        if not files:
            raise GenerateError(
                self.display(self.schemas), "no schema in it", "write one, as NAME.yaml"
            )
        return files

    def is_schema(self, path: Path) -> bool:
        """Whether `path` is named as a schema of this project; hidden files are an editor's."""
        named = path.suffix in (".yaml", ".yml") and not path.name.startswith(".")
        return named and path.parent.resolve() == self.schemas

    def display(self, path: Path) -> str:
        """`path` as messages and headers show it: relative to the project where it lies in it."""
        # Only the folder is resolved: where a link points to is no part of the project's names.
        placed = path.parent.resolve() / path.name
        if placed.is_relative_to(self.root):
            return placed.relative_to(self.root).as_posix()
        return path.as_posix()


def statekit_table(data: bytes, place: str) -> Any:
    """What a `pyproject.toml` has as `[tool.statekit]`; None without one.

    Raises:
        GenerateError: the bytes are no TOML; `place` is what they are called.
    """
    try:
        tool = tomllib.loads(data.decode()).get("tool")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GenerateError(place, f"unreadable: {error}", "mend the file") from None
    return tool.get("statekit") if isinstance(tool, dict) else None


def _table(file: Path) -> Any:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise GenerateError(str(file), f"unreadable: {error}", "mend the file") from None
    return statekit_table(data, str(file))
