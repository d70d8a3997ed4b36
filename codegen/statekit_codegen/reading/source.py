"""Source: from `FILE.py:Class` to a parsed file and the class in it.

Owns the file, its encoding and limits, and which class is meant. Every way in which that can fail
is a `GenerateError` with the place. Nothing is imported or run.
"""

from __future__ import annotations

import ast
import io
import stat
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

import attrs

from statekit.errors import GenerateError
from statekit_codegen.fault import closest, listed
from statekit_codegen.scalars import shown

__all__ = ["MAX_BYTES", "Source", "Target", "classes_in", "find_class", "parse_source", "read_file"]

MAX_BYTES = 4 * 1024 * 1024
_SYNTAX = "mend it, or run this with the Python that the file is written for"


@attrs.frozen
class Target:
    """`FILE.py:Class`: a file, the qualified name of a class, and a line where names repeat."""

    path: Path
    name: str
    line: int | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """The target that `text` names.

        Raises:
            GenerateError: it has another form.
        """
        path, colon, name = text.partition(".py:")
        name, _, line = name.partition(":")
        parts = name.split(".")
        if (
            not colon
            or not all(part.isidentifier() for part in parts)
            or (line and not (line.isascii() and line.isdecimal()))
        ):
            raise GenerateError(
                shown(text), "no FILE.py:Class", "write the file, a colon and the class in it"
            )
        return cls(Path(f"{path}.py"), name, int(line) if line else None)


@attrs.frozen
class Source:
    """A parsed file: its name in messages, its text and its tree."""

    file: str
    text: str
    tree: ast.Module = attrs.field(eq=False, repr=False)


def read_file(path: Path, file: str) -> bytes:
    """The bytes of a file of source.

    Raises:
        GenerateError: it can't be read, or is too large.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise GenerateError(file, "no file", "name a file of Python source")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise GenerateError(file, f"unreadable: {found}", "name a file of Python source") from None
    if len(data) > MAX_BYTES:
        raise GenerateError(
            file, f"more than {MAX_BYTES:,} bytes", "move the class to a file of its own"
        )
    return data


def parse_source(data: bytes, file: str) -> Source:
    """The tree of a file; its encoding is what its first lines declare, else UTF-8.

    Raises:
        GenerateError: it is no Python source, with the place.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02X} is not {error.encoding}"
        raise GenerateError(f"{file}:{line}", found, "save the file as UTF-8") from None
    except (SyntaxError, LookupError, ValueError, AssertionError, TypeError) as error:
        raise GenerateError(file, f"unreadable: {error}", "save the file as UTF-8") from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Source(file, text, ast.parse(text))
    except SyntaxError as error:
        place = f"{file}:{error.lineno or 1}:{error.offset or 1}"
        raise GenerateError(place, f"not Python: {error.msg}", _SYNTAX) from None
    except (RecursionError, MemoryError):
        raise GenerateError(file, "nested too deeply to be parsed", "simplify the file") from None
    except ValueError as error:  # a NUL byte, before Python 3.12
        raise GenerateError(file, f"not Python: {error}", _SYNTAX) from None


def classes_in(tree: ast.AST) -> list[tuple[str, ast.ClassDef]]:
    """Every class of a file outside functions, with its qualified name, in order."""
    return sorted(_classes(tree), key=lambda pair: pair[1].lineno)


def _classes(tree: ast.AST) -> Iterator[tuple[str, ast.ClassDef]]:
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, before = stack.pop()
        inner: list[tuple[ast.AST, str]] = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield f"{before}{child.name}", child
                inner.append((child, f"{before}{child.name}."))
            elif isinstance(child, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
                inner.append((child, before))
        stack.extend(reversed(inner))


def find_class(source: Source, target: Target) -> ast.ClassDef:
    """The class that `target` names.

    Raises:
        GenerateError: there is none of that name, or several.
    """
    classes = classes_in(source.tree)
    found = [node for name, node in classes if name == target.name]
    at = [node for node in found if target.line in (None, node.lineno)]
    if len(at) == 1:
        return at[0]
    if found:
        lines = " and ".join(str(node.lineno) for node in found)
        raise GenerateError(
            f"{source.file}:{found[0].lineno}",
            f"{target.name} is defined in lines {lines}",
            f"name one by its line, such as {target.path.name}:{target.name}:{found[-1].lineno}",
        )
    names = list(dict.fromkeys(name for name, _ in classes))
    todo = f"{closest(target.name, names)}classes of this file: {listed(names)}"
    raise GenerateError(source.file, f"no class {shown(target.name)[1:-1]}", todo)
