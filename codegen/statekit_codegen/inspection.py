"""What `statekit inspect` shows of a snapshot: a table for people, a document for programs.

Owns the words and the layout. Nothing in a file is trusted: what no terminal should get is
escaped, and what is missing is left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from statekit.snapshot_file.head import Head
from statekit.snapshot_file.outline import Form, Outlined, outline
from statekit.text import on_one_line
from statekit_codegen.units import format_nbytes

__all__ = ["FIELDS", "JSON_SCHEMA", "print_inspection", "to_json"]

JSON_SCHEMA = "statekit.inspect/1"

FIELDS: Mapping[str, str] = {
    "schema": f"`{JSON_SCHEMA}`; another id if a field is renamed or removed",
    "file": "as it was named",
    "session_id": "whose state it is; null if it does not say",
    "models": "a list of `model` and the `fingerprint` of its schema when it was saved",
    "created_at": "date and time, with the zone",
    "format": "of the file",
    "version": "of the statekit that wrote it",
    "nbytes": "of the file",
    "nbytes_by_device": "bytes of all values, by the device they were on",
    "values": "a list of `bucket`, `name`, `kind`, `tensors` and `nbytes`; memory that two share "
    "counts for the first; `tensors` is a list of `dtype`, `shape` and `count`",
}
"""Every field of the document with its meaning."""

_PLAIN = box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
_MAX_FORMS = 4
_OTHER_COLUMNS = 27  # of the bucket, the bytes, and what lies between columns
_MIN_TENSOR_COLUMNS = 14
_NAME_COLUMNS = 24  # names are what is looked for: the columns beside them fold first
_FINGERPRINT_CHARS = 16


def to_json(file: str, head: Head) -> str:
    """All of it as one document."""
    document = {
        "schema": JSON_SCHEMA,
        "file": file,
        "session_id": _session_id(head),
        "models": [{"model": name, "fingerprint": print_} for name, print_ in _models(head)],
        "created_at": head.created_at.isoformat(),
        "format": head.format,
        "version": head.version,
        "nbytes": head.nbytes,
        "nbytes_by_device": dict(_totals(head)),
        "values": [
            {
                "bucket": value.bucket,
                "name": value.name,
                "kind": value.kind,
                "tensors": [
                    {"dtype": form.dtype, "shape": list(form.shape), "count": form.count}
                    for form in value.forms
                ],
                "nbytes": value.nbytes,
            }
            for value in outline(head)
        ],
    }
    return json.dumps(document, indent=2)


def print_inspection(file: str, head: Head, console: Console) -> None:
    """Print it as wide as `console` is."""
    plain = not console.is_terminal
    with console.capture() as capture:
        for block in _blocks(file, head, plain, console.width):
            console.print(block)
    text = capture.get()
    if plain:  # cells are padded with blanks, which only a terminal needs
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    console.file.write(text)


def _blocks(file: str, head: Head, plain: bool, width: int) -> Iterator[RenderableType]:
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("file", Text(on_one_line(file)))
    session_id = _session_id(head)
    facts.add_row("session", Text("none" if session_id is None else on_one_line(session_id)))
    for name, print_ in _models(head):
        schema = f" (schema {on_one_line(print_)[:_FINGERPRINT_CHARS]})" if print_ else ""
        facts.add_row("model", Text(f"{on_one_line(name)}{schema}"))
    created = head.created_at.isoformat(sep=" ", timespec="seconds")
    facts.add_row("created", Text(created))
    facts.add_row("format", Text(f"{head.format}, by statekit {on_one_line(head.version)}"))
    held = ", ".join(f"{format_nbytes(n)} on {device}" for device, n in _totals(head))
    facts.add_row("holds", Text(held or "no bytes"))
    facts.add_row("on disk", Text(format_nbytes(head.nbytes)))
    yield facts
    yield Text()
    yield _table(outline(head), plain, width)


def _table(values: tuple[Outlined, ...], plain: bool, width: int) -> Table:
    table = Table(
        box=_PLAIN if plain else box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="dim",
    )
    table.add_column("bucket", no_wrap=True)
    names = min(max((len(on_one_line(value.name)) for value in values), default=0), _NAME_COLUMNS)
    kinds = max((len(on_one_line(value.kind)) for value in values), default=0)
    left = max(_MIN_TENSOR_COLUMNS, width - _OTHER_COLUMNS - names - kinds)
    table.add_column("value", overflow="fold", min_width=names)
    table.add_column("kind", overflow="fold")
    table.add_column("tensors", overflow="fold", max_width=left)
    table.add_column("bytes", justify="right", no_wrap=True)
    for value in values:
        table.add_row(
            Text(on_one_line(value.bucket)),
            Text(on_one_line(value.name), "bold"),
            Text(on_one_line(value.kind)),
            Text("\n".join(_form_lines(value.forms))),
            Text(format_nbytes(value.nbytes) if value.forms else ""),
        )
    return table


def _form_lines(forms: tuple[Form, ...]) -> Iterator[str]:
    for form in forms[:_MAX_FORMS]:
        times = f"{form.count} × " if form.count > 1 else ""
        shape = "×".join(map(str, form.shape)) or "scalar"
        yield f"{times}{on_one_line(form.dtype)} {shape}"
    if len(forms) > _MAX_FORMS:
        more = sum(form.count for form in forms[_MAX_FORMS:])
        yield f"and {more} of {len(forms) - _MAX_FORMS} other shapes"


def _session_id(head: Head) -> str | None:
    found = head.about.get("session_id")
    return found if isinstance(found, str) else None


def _models(head: Head) -> list[tuple[str, str]]:
    """Name and fingerprint of each model that the snapshot speaks of."""
    found: Any = head.about.get("models")
    records = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [(str(one.get("model", "?")), str(one.get("fingerprint", ""))) for one in records]


def _totals(head: Head) -> list[tuple[str, int]]:
    totals: Counter[str] = Counter()
    for entry in head.entries:
        totals[entry.device] += entry.nbytes
    return sorted(totals.items())
