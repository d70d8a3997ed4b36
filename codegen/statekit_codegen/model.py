"""Model: one schema, loaded, checked and resolved; what every later step works on."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from statekit.errors import Problem
from statekit.spec import ModelSpec
from statekit.text import on_one_line
from statekit_codegen.language import Schema

__all__ = ["Loaded", "Model", "Path", "Positions"]

Path = tuple[str | int, ...]
"""Where a node lies: `("values", "frames", "ring", "bound")` is `$.values.frames.ring.bound`."""


@attrs.frozen
class Positions:
    """Line and column of every node of one file, both from 1, by path.

    For a mapping's entry the position is that of its key; for a list's entry, of the entry.
    """

    file: str
    places: Mapping[Path, tuple[int, int]]

    def place(self, *path: str | int) -> tuple[int, int]:
        """Line and column of the node at `path`, or of the nearest one above it in the file."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, (1, 1))

    def problem(self, path: Path, rule: str, found: str, todo: str) -> Problem:
        """A problem at `path`, or at the nearest node above it that the file has."""
        line, column = self.place(*path)
        return Problem(
            self.file, line, column, rule, json_path(path), on_one_line(found), on_one_line(todo)
        )


@attrs.frozen
class Loaded:
    """A file as classes, before its meaning is checked.

    Attributes:
        schema: the file as language classes.
        positions: where each node lies.
        sha256: hex digest of the file's bytes.
    """

    schema: Schema
    positions: Positions
    sha256: str


@attrs.frozen
class Model:
    """A schema whose references and grammars hold, beside the spec that follows from it.

    Attributes:
        loaded: the file.
        spec: what follows from it.
        variant: which of its variants the symbols of `spec` are those of; empty: the file's own.
    """

    loaded: Loaded
    spec: ModelSpec
    variant: str = ""

    @property
    def schema(self) -> Schema:
        """The words and choices of the schema's author."""
        return self.loaded.schema

    @property
    def file(self) -> str:
        """The schema's path as messages and headers show it: relative to the project, with /."""
        return self.loaded.positions.file


def json_path(path: Path) -> str:
    """`path` as text, such as `$.values.frames.shape[0]`; keys that are no names are quoted."""
    return "$" + "".join(_step(part) for part in path)


def _step(part: str | int) -> str:
    if isinstance(part, str) and part.isidentifier() and part.isascii() and len(part) <= 64:
        return f".{part}"
    # A key is hostile until checked: it may hold line ends, and it may be very long.
    text = repr(part)
    return f"[{text if len(text) <= 60 else text[:56] + '...' + text[0]}]"
