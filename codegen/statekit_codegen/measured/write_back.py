"""Write back: `measured` blocks into schema files, by position, as a person would edit them.

Owns the edits. Nothing is dumped: the file's own text is cut at the places where a block goes in,
or a number is replaced.

    E1  Apart from `measured` blocks the file is the same, byte for byte: comments, order, quotes,
        line ends.
    E2  What is already in a block stays, in its own words, but for the figure and the date of an
        entry for the same hardware and the same moment.
    E3  The new text loads, and says the same but for `measured`; else nothing is written.
    E4  The file is at all times whole: the old text or the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml

from statekit.errors import GenerateError, SchemaError
from statekit.spec import Measured, ModelSpec
from statekit_codegen.load import load_text
from statekit_codegen.measured.blocks import Blocks
from statekit_codegen.measured.schemas import SchemaFile
from statekit_codegen.model import Model

__all__ = ["edited", "write_back"]


@attrs.frozen
class _Edit:
    """A piece of the text, and what comes in its place."""

    start: int
    end: int
    text: str


def write_back(blocks: Iterable[Blocks], files: Mapping[str, SchemaFile]) -> str:
    """Write `blocks` into their schemas; what was done, a line for each model and value left out.

    Raises:
        GenerateError: a file cannot be written.
    """
    lines = []
    for one in blocks:
        file = files.get(one.model)
        if file is None:
            lines.append(f"{one.model}: its schema is not here; name it with --schema")
            continue
        shown = file.model.file
        data = _read(file.path)
        new = edited(data, shown, one.entries)
        count = len(one.entries)
        values = "1 value" if count == 1 else f"{count} values"
        if new != data:
            _replace(file.path, new)
            lines.append(
                f"{shown}: measured blocks of {values} written; now run: statekit generate"
            )
        else:
            lines.append(f"{shown}: measured blocks of {values} are up to date")
        lines += [f"{shown}: not written: {name}: {why}" for name, why in one.kept_out.items()]
    return "\n".join(lines)


def edited(data: bytes, file: str, entries: Mapping[str, Sequence[Measured]]) -> bytes:
    """The bytes of a schema with these measurements in it; `file` is its name in messages.

    Raises:
        GenerateError: the file is not laid out as one that we know how to edit.
        SchemaError: it cannot be used as it is.
    """
    before = load_text(data, file)
    text = data.decode("utf-8")
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    values = _child(root, "values")
    assert values is not None
    edits: list[_Edit] = []
    for name, new in entries.items():
        value = _child(values, name)
        if value is not None and new:
            edits += _edits(text, value, new)
    for edit in sorted(edits, key=lambda one: -one.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    after = text.encode("utf-8")
    _require_the_same(before, after, file)
    return after


def _edits(text: str, value: yaml.MappingNode, new: Sequence[Measured]) -> Iterator[_Edit]:
    """What has to be done to one value."""
    block = _child(value, "measured")
    known = [] if block is None else list(block.value)
    fresh = []
    for entry in new:
        match = next((node for node in known if _is_about(node, entry)), None)
        if match is None:
            fresh.append(entry)
            continue
        for key, written in (("nbytes", str(entry.nbytes)), ("date", json.dumps(entry.date))):
            scalar = _child(match, key)
            assert scalar is not None
            if scalar.value != (written if key == "nbytes" else entry.date):
                yield _Edit(scalar.start_mark.index, scalar.end_mark.index, written)
    if not fresh:
        return
    if block is None:
        yield _new_block(text, value, fresh)
    elif block.flow_style:
        inside = ", ".join(map(_flow, fresh))
        if known:
            end = known[-1].end_mark.index
            yield _Edit(end, end, f", {inside}")
        else:
            start = block.start_mark.index + 1
            yield _Edit(start, start, inside)
    else:
        column = known[-1].start_mark.column
        dash = text.rindex("-", _line_start(text, known[-1].start_mark.index),
                           known[-1].start_mark.index)  # fmt: skip
        indent = " " * (dash - _line_start(text, dash)) if column else ""
        yield _after(text, known[-1], [f"{indent}- {_flow(one)}" for one in fresh])


def _new_block(text: str, value: yaml.MappingNode, new: Sequence[Measured]) -> _Edit:
    """A block of a value that has none: before its decision, as the house does, or at its end."""
    keys = [key.value for key, _ in value.value]
    place = keys.index("decision") if "decision" in keys else len(keys)
    if value.flow_style:
        inside = f"measured: [{', '.join(map(_flow, new))}]"
        if place:
            end = value.value[place - 1][1].end_mark.index
            return _Edit(end, end, f", {inside}")
        start = value.value[0][0].start_mark.index
        return _Edit(start, start, f"{inside}, ")
    indent = " " * value.value[0][0].start_mark.column
    lines = [f"{indent}measured:", *(f"{indent}  - {_flow(one)}" for one in new)]
    if place:
        return _after(text, value.value[place - 1][1], lines, value.value[place - 1][0])
    start = value.value[0][0].start_mark.index
    end = _newline(text, start)
    return _Edit(start, start, f"{end.join(lines).lstrip()}{end}{indent}")


def _after(text: str, node: yaml.Node, lines: Sequence[str], key: yaml.Node | None = None) -> _Edit:
    """These lines, below the last line of `node`, or of its key where it is empty."""
    last = _end(text, node)
    if key is not None:
        last = max(last, key.end_mark.index)
    line_end = text.find("\n", last)
    newline = _newline(text, last)
    if line_end < 0:
        return _Edit(len(text), len(text), newline + newline.join(lines))
    inside = newline.join(lines) + newline
    return _Edit(line_end + 1, line_end + 1, inside)


def _end(text: str, node: yaml.Node) -> int:
    """Where the last word of a node ends; to YAML a block ends where the next thing begins."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    start, end = node.start_mark.index, node.end_mark.index
    return start + len(text[start:end].rstrip())


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _newline(text: str, place: int) -> str:
    """How lines end around `place`."""
    end = text.find("\n", place)
    if end < 0:
        end = text.rfind("\n", 0, place)
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def _flow(entry: Measured) -> str:
    words = [f"nbytes: {entry.nbytes}", f"hardware: {_quoted(entry.hardware)}"]
    words.append(f'date: "{entry.date}"')
    if entry.at != "steady":
        words.append(f"at: {entry.at}")
    return f"{{{', '.join(words)}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _is_about(node: Any, entry: Measured) -> bool:
    """Whether an entry of the file is for the same hardware and the same moment."""
    hardware, at = _child(node, "hardware"), _child(node, "at")
    moment = "steady" if at is None else at.value
    return hardware is not None and (hardware.value, moment) == (entry.hardware, entry.at)


def _child(node: Any, name: str) -> Any:
    """The node under a key of a mapping, or None."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == name), None)


def _require_the_same(before: Model, after: bytes, file: str) -> None:
    """Refuse a text that says something else than before, `measured` aside."""
    try:
        same = _bare(load_text(after, file).spec) == _bare(before.spec)
    except SchemaError as error:
        found = f"measured blocks would break it: {error.problems[0]}"
        todo = "write them by hand, and please report it with the schema"
        raise GenerateError(file, found, todo) from None
    if not same:
        todo = "write them by hand, and please report it with the schema"
        raise GenerateError(file, "measured blocks would change something else", todo)


def _bare(spec: ModelSpec) -> ModelSpec:
    values = tuple(attrs.evolve(value, measured=(), line=0) for value in spec)
    return attrs.evolve(spec, values=values)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        found = f"unreadable: {error.strerror or error}"
        raise GenerateError(str(path), found, "make it readable") from None


def _replace(path: Path, data: bytes) -> None:
    """Put `data` in the place of a file, whole or not at all; a link goes on pointing to it."""
    path = Path(os.path.realpath(path))
    new = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with new.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        new.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(new, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        found = f"cannot be written: {error.strerror or error}"
        raise GenerateError(str(path), found, "nothing was changed; see to it and retry") from None
