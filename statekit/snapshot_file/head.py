"""The head of a snapshot file: what it holds, as JSON, and where its bytes are.

Owns what a head says, and the check of one that is read. Not here: its text (`head_text`), the
bytes behind it (`writing`, `reading`), the recipe (`statekit.image.check`).
A snapshot is one valid safetensors file:

    8 bytes      the length of the header
    header       JSON: "__metadata__", then one entry a storage
    data         the storages, one behind the other

"__metadata__" begins with "statekit.format" and "statekit.header", the SHA-256 of the length and
the header with its own digits as zeros; then come "statekit.version" and "statekit.manifest", JSON
in itself: `created_at`, `about`, `storages` (the entry and the checksum of each), `recipe`. Later
formats keep the first two where they are. Needs neither torch nor numpy.

    H1  Nothing is believed before the checksum is right, and nothing after that without a check:
        whoever can write a file can compute its checksum.
    H2  Memory is taken in proportion to the header, which is no longer than the file.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

import attrs

from statekit._version import __version__
from statekit.bulk.parts import DamagedFileError
from statekit.errors import IncompatibleSnapshotError
from statekit.image.check import check_recipe
from statekit.image.fault import BadRecipeError, is_count
from statekit.snapshot_file.entries import DTYPES, Entry
from statekit.snapshot_file.layout import (
    BEGIN,
    FORMAT,
    MANIFEST,
    MAX_HEADER_NBYTES,
    METADATA,
    BadJsonError,
    digest,
    find_unsayable,
    read_json,
)
from statekit.snapshot_file.source import Source, damaged, failed

__all__ = ["Head", "Stored", "read_head"]

_CHECKSUM = re.compile(r"[0-9a-f]{8}", re.ASCII)
_ENTRY = ["data_offsets", "dtype", "shape"]
_FOREIGN = {b"PK": "a zip file", b"\x1f\x8b": "a gzip file", b"\x80": "a pickle"}


@attrs.frozen
class Stored:
    """A storage of the recipe: its entry's name, where in the file it is, its checksum."""

    name: str
    begin: int
    nbytes: int
    checksum: int


@attrs.frozen
class Head:
    """A head that has been checked.

    Attributes:
        format: of the file.
        version: of the statekit that wrote it.
        created_at: when the writing began.
        about: what the writer said of it.
        entries: in the order of the file.
        recipe: the data of a recipe, checked.
        storages: where the storages of the recipe are, in its order.
        nbytes: of the whole file.
    """

    format: int
    version: str
    created_at: datetime
    about: dict[str, Any]
    entries: tuple[Entry, ...]
    recipe: dict[str, Any]
    storages: tuple[Stored, ...]
    nbytes: int


class _BadHeadError(Exception):
    """What is wrong with a head."""


def read_head(source: Source) -> Head:
    """Return the head of a snapshot; no storage is read.

    Raises:
        DamagedSnapshotError: it is no snapshot, or not the one that was written.
        IncompatibleSnapshotError: its format is newer than this reader.
        SnapshotError: it could not be read, or there is no memory.
    """
    try:
        header = _read_header(source)
        number = _check_begin(header)
        if number > FORMAT:
            raise IncompatibleSnapshotError(
                source.place,
                f"it has format {number}, this statekit ({__version__}) reads {FORMAT}",
                "read it with the statekit that wrote it, or a newer one",
            )
        return _parse(header, number, source.nbytes)
    except (_BadHeadError, DamagedFileError) as error:
        raise damaged(source.place, str(error)) from None
    except BadJsonError as error:
        raise damaged(source.place, f"its header is {error}") from None
    except BadRecipeError as error:
        raise damaged(source.place, f"its recipe has {error}") from None
    except (OSError, MemoryError) as error:
        raise failed(source.place, error) from None


def _read_header(source: Source) -> bytes:
    if source.nbytes < 8:
        raise _BadHeadError(f"it has {source.nbytes} bytes, less than any snapshot")
    start = bytearray(8)
    source.read(memoryview(start), 0)
    length = int.from_bytes(start, "little")
    if length > min(source.nbytes - 8, MAX_HEADER_NBYTES):
        for begin, name in _FOREIGN.items():
            if start.startswith(begin):
                raise _BadHeadError(f"it is {name}, no snapshot")
        raise _BadHeadError("it was cut, or is no snapshot: its header would be longer than it is")
    header = bytearray(length)
    source.read(memoryview(header), 8)
    return bytes(header)


def _check_begin(header: bytes) -> int:
    """The number of the format. Raises: _BadHeadError."""
    begin = BEGIN.match(header)
    if begin is None:
        kind = "a safetensors file of another program" if header[:1] == b"{" else "no snapshot"
        raise _BadHeadError(f"it is {kind}")
    if digest(header) != begin[2]:
        raise _BadHeadError("its header has changed")
    return int(begin[1])


def _parse(header: bytes, number: int, nbytes: int) -> Head:
    data_begin = 8 + len(header)
    try:
        root = read_json(header.decode("ascii"))
    except UnicodeDecodeError:
        raise _BadHeadError("its header is no ASCII text") from None
    metadata = root.pop("__metadata__")
    if sorted(metadata) != METADATA or not all(isinstance(v, str) for v in metadata.values()):
        raise _BadHeadError("its metadata has other fields")
    manifest = read_json(metadata.pop("statekit.manifest"))
    if not isinstance(manifest, dict) or sorted(manifest) != MANIFEST:
        raise _BadHeadError("its manifest has other fields")
    entries = _check_entries(root, nbytes - data_begin)
    recipe, about = manifest["recipe"], manifest["about"]
    check_recipe(recipe, nbytes - data_begin)
    if not isinstance(about, dict) or find_unsayable(about, "about") is not None:
        raise _BadHeadError("it says nothing about itself")
    devices, storages = _match(manifest["storages"], recipe["storages"], entries, data_begin)
    return Head(
        format=number,
        version=metadata["statekit.version"],
        created_at=_date(manifest["created_at"]),
        about=about,
        entries=tuple(
            Entry(name, dtype, shape, size, devices[name])
            for name, (dtype, shape, _, size) in entries.items()
        ),
        recipe=recipe,
        storages=storages,
        nbytes=nbytes,
    )


_Placed = tuple[str, tuple[int, ...], int, int]
"""Dtype and shape of an entry, where its bytes begin, how many there are."""


def _check_entries(entries: dict[str, Any], nbytes: int) -> dict[str, _Placed]:
    """Entries that lie one behind the other and fill the data exactly. Raises: _BadHeadError."""
    placed: dict[str, _Placed] = {}
    end = 0
    for name, entry in entries.items():
        if not isinstance(entry, dict) or sorted(entry) != _ENTRY:
            raise _BadHeadError("an entry has other fields")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise _BadHeadError("an entry has no dtype of this format")
        if not isinstance(shape, list) or not all(map(is_count, shape)) or len(shape) > 64:
            raise _BadHeadError("an entry has no shape")
        if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_count, offsets)):
            raise _BadHeadError("an entry has no place")
        begin, begun = end, offsets[0]
        end = offsets[1]
        if begun != begin or not begin < end <= nbytes:
            raise _BadHeadError("entries overlap, leave gaps, or reach behind the end")
        if math.prod(shape) * DTYPES[dtype] != end - begin:
            raise _BadHeadError("an entry has another size than its dtype and shape say")
        placed[name] = (dtype, tuple(shape), begin, end - begin)
    if end != nbytes:
        raise _BadHeadError(f"it has {nbytes} bytes of data, its header speaks of {end}")
    return placed


def _match(
    named: Any, storages: list[list[Any]], entries: dict[str, _Placed], data_begin: int
) -> tuple[dict[str, str], tuple[Stored, ...]]:
    """The device of each entry, and where each storage is. Raises: _BadHeadError."""
    if not isinstance(named, list) or not len(named) == len(storages) == len(entries):
        raise _BadHeadError("it has not one entry for each storage")
    devices: dict[str, str] = {}
    found: list[Stored] = []
    for pair, (device, nbytes) in zip(named, storages, strict=True):
        good = isinstance(pair, list) and len(pair) == 2 and all(isinstance(t, str) for t in pair)
        if not good or pair[0] not in entries or pair[0] in devices:
            raise _BadHeadError("it has not one entry for each storage")
        _, _, begin, size = entries[pair[0]]
        if size != nbytes or not _CHECKSUM.fullmatch(pair[1]):
            raise _BadHeadError("a storage has another size than its entry, or no checksum")
        devices[pair[0]] = device
        found.append(Stored(pair[0], data_begin + begin, nbytes, int(pair[1], 16)))
    return devices, tuple(found)


def _date(text: Any) -> datetime:
    try:
        date = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        date = None
    if date is None or date.tzinfo is None:
        raise _BadHeadError("its date is none")
    return date
