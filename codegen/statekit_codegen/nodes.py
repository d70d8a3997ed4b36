"""Nodes: from the bytes of a file to plain data, with the place of every node.

Owns encoding, the limits, and everything that YAML can do and a schema may not: aliases, tags,
merge keys, several documents, keys twice. Not here: what a scalar means (`scalars`), which keys
there are (`structure`).

    N1  No input makes this raise: what is wrong comes back as problems.
    N2  Nothing is built before the limits have been looked at, so work is linear in the size.
    N3  Where `data` is given, every part of it has a place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import yaml

from statekit.errors import Problem
from statekit_codegen.model import Path, Positions, json_path
from statekit_codegen.scalars import (
    Trouble,
    describe_character,
    invisible,
    read_plain,
    read_text,
    shown,
)

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "Tree", "read"]

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32
MAX_NODES = 20_000

_MAX_INVISIBLE = 20
"""So many characters of one file are named; a binary file would have thousands."""

_CURES = (
    (
        "mapping values are not allowed",
        "put text that holds ': ' in quotes, or check the indentation",
    ),
    ("expected <block end>", "check the indentation of this line and of those above it"),
    ("found character '\\t'", "indent with spaces"),
    ("found character", "put text that starts with this character in quotes"),
    ("could not find expected ':'", "write 'key: value', and check the indentation"),
    ("while scanning a quoted scalar", "close the quotes, and write a backslash as \\\\"),
    ("expected ',' or", "close the bracket, or put text that holds brackets or ': ' in quotes"),
)


@attrs.frozen
class Tree:
    """What a file says.

    Attributes:
        data: as plain data; None if it can't be read.
        positions: where each node lies.
        problems: what was found wrong so far.
        doubtful: where `data` is not what the file means, because a problem says so.
    """

    data: Any
    positions: Positions
    problems: tuple[Problem, ...]
    doubtful: frozenset[Path] = frozenset()


def read(data: bytes, file: str) -> Tree:
    """Read the bytes of `file`; nothing is raised, whatever they are."""
    text = _decode(data)
    if isinstance(text, Trouble):
        return _refused(file, [(1, 1, text)])
    hidden = list(_hidden_characters(text))
    if hidden:
        return _refused(file, hidden)
    try:
        refused = list(_scan(text))
        node = None if refused else yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        return _refused(file, [_syntax(error)])
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        trouble = Trouble(
            "YAML_SYNTAX", f"not YAML: {shown(str(error))}", "check the escapes in quotes"
        )
        return _refused(file, [(1, 1, trouble)])
    if refused:
        return _refused(file, refused)
    if node is None:
        return _refused(
            file, [(1, 1, Trouble("FILE_EMPTY", "nothing in it", "begin with statekit: 1"))]
        )
    reader = _Reader(file)
    reader.places[()] = _place(node.start_mark)
    plain = reader.read(node, ())
    return Tree(
        plain, Positions(file, reader.places), tuple(reader.problems), frozenset(reader.doubtful)
    )


def _refused(file: str, troubles: list[tuple[int, int, Trouble]]) -> Tree:
    problems = [
        Problem(file, line, column, trouble.rule, "$", trouble.found, trouble.todo)
        for line, column, trouble in troubles
    ]
    return Tree(None, Positions(file, {}), tuple(problems))


def _decode(data: bytes) -> str | Trouble:
    """The text of a file, or why it has none."""
    rule, todo = "FILE_ENCODING", "save the file as UTF-8 without a byte order mark"
    if len(data) > MAX_BYTES:
        return Trouble(
            "FILE_SIZE", f"more than {MAX_BYTES:,} bytes", "split the model, or shorten it"
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Trouble(rule, "UTF-16", todo)
    if data.startswith(b"\xef\xbb\xbf"):
        return Trouble(rule, "a byte order mark", todo)
    if b"\0" in data:
        return Trouble(rule, "a NUL byte: UTF-16 without a mark, or no text at all", todo)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        return Trouble(rule, f"byte 0x{byte:02X} in line {line} is not UTF-8", todo)


def _hidden_characters(text: str) -> Iterator[tuple[int, int, Trouble]]:
    """Characters that nobody sees, in comments too; a carriage return that ends a line is fine."""
    start, count = 0, 0
    while count < _MAX_INVISIBLE and (found := invisible(text, start)) is not None:
        at, start = found.start(), found.end()
        if found[0] == "\r" and text.startswith("\n", start):
            continue
        count += 1
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        what = describe_character(found[0])
        yield line, column, Trouble("TEXT_INVISIBLE", what, "remove it: a reader can't see it")


def _place(mark: Any) -> tuple[int, int]:
    return mark.line + 1, mark.column + 1


def _syntax(error: yaml.MarkedYAMLError) -> tuple[int, int, Trouble]:
    line, column = _place(error.problem_mark or error.context_mark)
    said = f"{error.context or ''}: {error.problem or ''}".strip(": ")
    todo = next(
        (cure for words, cure in _CURES if words in said), "check this line and the one above"
    )
    return line, column, Trouble("YAML_SYNTAX", f"not YAML: {said}", todo)


def _scan(text: str) -> Iterator[tuple[int, int, Trouble]]:
    """What is refused before anything is built; stops at a limit."""
    depth = nodes = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line, column = _place(event.start_mark)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents == 2:
                todo = "one file holds one model: remove the '---', or make two files"
                yield line, column, Trouble("YAML_DOCUMENTS", "a second document", todo)
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not isinstance(event, yaml.NodeEvent):
            continue
        nodes += 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            found = (
                f"nesting deeper than {MAX_DEPTH}"
                if depth > MAX_DEPTH
                else f"over {MAX_NODES:,} nodes"
            )
            yield (
                line,
                column,
                Trouble("YAML_LIMIT", found, "no schema needs that: shorten the file"),
            )
            return
        if event.anchor is not None:
            sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
            todo = "write the value out, or use a family for values that exist many times"
            yield line, column, Trouble("YAML_ALIAS", shown(sign + event.anchor), todo)
        tag = getattr(event, "tag", None)
        if tag is not None:
            todo = "remove the tag: a schema is plain text, numbers, lists and mappings"
            yield line, column, Trouble("YAML_TAG", f"the tag {shown(tag)}", todo)


class _Reader:
    """Turns one file's nodes into plain data; recursion is bounded by `MAX_DEPTH`."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[Path, tuple[int, int]] = {}
        self.problems: list[Problem] = []
        self.doubtful: set[Path] = set()

    def read(self, node: Any, path: Path) -> Any:
        """The data of `node`, which lies at `path`."""
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._entry(entry, (*path, index)) for index, entry in enumerate(node.value)]
        return self._scalar(node, path)

    def _entry(self, node: yaml.Node, path: Path) -> Any:
        self.places[path] = _place(node.start_mark)
        return self.read(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = _place(key_node.start_mark)
            key = self._key(key_node, path)
            if key is None:
                continue
            below = (*path, key)
            if key in entries:
                found = f"the key {shown(key)} again, first in line {self.places[below][0]}"
                self._add(place, below, "KEY_DUPLICATE", found, "keep one of them")
                continue
            self.places[below] = place
            entries[key] = self.read(value_node, below)
        return entries

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        """The key as text, with a problem where it is none; None for a list or mapping."""
        place = _place(node.start_mark)
        if not isinstance(node, yaml.ScalarNode):
            self._add(
                place, path, "KEY_TEXT", "a list or mapping as a key", "use a text as the key"
            )
            return None
        key: str = node.value
        meaning = (read_text(key) or key) if node.style is not None else read_plain(key)
        if not isinstance(meaning, (str, Trouble)):
            found = f"the key {shown(key)} is no text" if key else "an empty key"
            meaning = Trouble("KEY_TEXT", found, "write a name, or put it in quotes")
        if isinstance(meaning, Trouble):
            self.doubtful.add((*path, key))
            self._add(place, (*path, key), meaning.rule, meaning.found, meaning.todo)
        return key

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        if node.style is None:
            meaning = read_plain(node.value)
        else:
            meaning = read_text(node.value) or node.value
        if isinstance(meaning, Trouble):
            self.doubtful.add(path)
            self._add(_place(node.start_mark), path, meaning.rule, meaning.found, meaning.todo)
            return node.value
        return meaning

    def _add(self, place: tuple[int, int], path: Path, rule: str, found: str, todo: str) -> None:
        line, column = place
        self.problems.append(Problem(self.file, line, column, rule, json_path(path), found, todo))
