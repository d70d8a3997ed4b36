"""The text of a head that is to be written; what it says stands in `statekit.snapshot_file.head`.

Owns the order of its parts, and that its length is known before the bytes behind it are summed.
Needs neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from statekit._version import __version__
from statekit.errors import UnsavableError
from statekit.snapshot_file.entries import Entry
from statekit.snapshot_file.layout import (
    BEGIN,
    FORMAT,
    MAX_HEADER_NBYTES,
    digest,
    find_unsayable,
    write_json,
)

__all__ = ["HeadText"]


class HeadText:
    """A head to be written; its length is known before the checksums are.

    Raises:
        UnsavableError: `about` is not what JSON can say, or all is too long.
    """

    def __init__(
        self,
        recipe: dict[str, Any],
        entries: Sequence[tuple[int, Entry]],
        about: Mapping[str, Any],
        created_at: datetime,
    ) -> None:
        unsayable = find_unsayable(dict(about), "about")
        if unsayable is not None:
            todo = "pass text, numbers, truth values, None, and lists and dicts of such"
            raise UnsavableError(*unsayable, todo)
        self._names = [""] * len(entries)
        for number, entry in entries:
            self._names[number] = entry.name
        manifest = {
            "created_at": created_at.isoformat(timespec="microseconds"),
            "about": dict(about),
            "recipe": recipe,
        }
        self._manifest = _escaped(write_json(manifest)[:-1] + ',"storages":')
        self._tail = "}" + "".join(_entry_texts(entries)) + "}"
        self._nbytes = 8 + len(self._header([0] * len(entries)))
        if self._nbytes - 8 > MAX_HEADER_NBYTES:
            found = f"takes {self._nbytes} bytes without its tensors"
            todo = f"hold fewer and larger values; {MAX_HEADER_NBYTES} is the most"
            raise UnsavableError("the state", found, todo)

    @property
    def nbytes(self) -> int:
        """Bytes of the head; the first storage begins behind it."""
        return self._nbytes

    def render(self, checksums: Sequence[int]) -> bytes:
        """The bytes of the head, given the checksum of each storage of the recipe."""
        header = self._header(checksums)
        begin = BEGIN.match(header)
        assert begin is not None
        length = len(header).to_bytes(8, "little")
        return length + header[: begin.start(2)] + digest(header) + header[begin.end(2) :]

    def _header(self, checksums: Sequence[int]) -> bytes:
        pairs = [[name, f"{each:08x}"] for name, each in zip(self._names, checksums, strict=True)]
        text = (
            f'{{"__metadata__":{{"statekit.format":"{FORMAT}","statekit.header":"{"0" * 64}",'
            f'"statekit.version":{write_json(__version__)},'
            f'"statekit.manifest":"{self._manifest}{_escaped(write_json(pairs))}}}"{self._tail}'
        )
        return text.encode("ascii") + b" " * (-len(text) % 8)


def _escaped(text: str) -> str:
    """As it stands between the quotes of a JSON text."""
    return write_json(text)[1:-1]


def _entry_texts(entries: Sequence[tuple[int, Entry]]) -> list[str]:
    texts, offset = [], 0
    for _, entry in entries:
        end = offset + entry.nbytes
        data = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [offset, end]}
        texts.append(f",{write_json(entry.name)}:{write_json(data)}")
        offset = end
    return texts
