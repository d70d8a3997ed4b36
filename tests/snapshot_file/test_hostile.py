"""Files that are broken, foreign or lie: `statekit.snapshot_file.head` and what it guards.

Each is a typed error, or harmless; never a crash, never memory beyond a multiple of the file.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import os
import pickle
import socket
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from statekit.errors import DamagedSnapshotError, SnapshotError
from statekit.snapshot_file.file import open_snapshot, snapshot_bytes
from statekit.snapshot_file.layout import MAX_HEADER_NBYTES
from tests.snapshot_file.files import (
    DATE,
    body_of,
    forged,
    header_of,
    joined,
    manifest_of,
    sample,
    small,
    value_of,
)


def refused(data: bytes) -> str:
    """What the error says of it."""
    with pytest.raises(DamagedSnapshotError) as caught:
        value_of(data)
    assert caught.value.place == "the given bytes"
    return caught.value.found


# --- broken -------------------------------------------------------------------------------------


def test_file_when_cut_anywhere_then_it_is_refused() -> None:
    """Every length below the whole is seen, and so is every longer one."""
    data = small()
    for length in range(len(data)):
        refused(data[:length])
    for more in (b"\0", b" " * 8, data):
        refused(data + more)


def test_bit_when_any_flips_then_the_file_is_refused() -> None:
    """No single bit of a file can change unseen."""
    data = bytearray(small())
    for at in range(len(data)):
        for bit in range(8):
            data[at] ^= 1 << bit
            refused(bytes(data))
            data[at] ^= 1 << bit
    value_of(bytes(data))


def test_bytes_of_two_files_when_swapped_then_they_are_refused() -> None:
    """The head of one and the data of another do not pass, nor does data in another order."""
    a, b = (
        snapshot_bytes({"x": torch.full((9,), n), "y": torch.full((9,), n + 10)}, {})
        for n in (1, 2)
    )
    assert len(a) == len(b)
    assert "have changed" in refused(a[: -len(body_of(a))] + body_of(b))
    body = body_of(a)
    half = len(body) // 2
    assert "have changed" in refused(a[: -len(body)] + body[half:] + body[:half])


def test_data_when_zeroed_then_it_is_refused_unless_not_asked() -> None:
    """A file system that lost the data and kept the length is found out by `verify` and `read`."""
    data = small()
    lost = data[: -len(body_of(data))] + b"\0" * len(body_of(data))
    with open_snapshot(lost) as snapshot:
        with pytest.raises(DamagedSnapshotError, match="have changed"):
            snapshot.verify()
        with pytest.raises(DamagedSnapshotError, match="restore another snapshot"):
            snapshot.read()
        assert snapshot.read(verify=False)["attrs"]["b"] == b"\0" * 4


# --- foreign ------------------------------------------------------------------------------------


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a", b"\0" * 1_000_000)
    return buffer.getvalue()


def saved_by_torch() -> bytes:
    buffer = io.BytesIO()
    torch.save({"x": torch.ones(3)}, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "it has 0 bytes, less than any snapshot"),
        (b"\0" * 7, "it has 7 bytes, less than any snapshot"),
        (b"\0" * 8, "it is no snapshot"),
        (b"\0" * 800, "it is no snapshot"),
        (zipped(), "it is a zip file, no snapshot"),
        (saved_by_torch(), "it is a zip file, no snapshot"),
        (gzip.compress(small()), "it is a gzip file, no snapshot"),
        (pickle.dumps([1] * 100), "it is a pickle, no snapshot"),
        (b"hello, I am text and not a snapshot", "it was cut, or is no snapshot"),
        (save({"x": torch.ones(3)}), "it is a safetensors file of another program"),
        (save({"x": torch.ones(3)}, {"a": "b"}), "it is a safetensors file of another program"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_file_when_foreign_then_the_error_says_what_it_is(data: bytes, found: str) -> None:
    """Files of other programs are recognised, and nothing in them is unpacked or run."""
    assert refused(data).startswith(found)


def test_pickle_when_opened_then_nothing_of_it_runs(tmp_path: Path) -> None:
    """No file can make this process execute something."""
    mark = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (mark,))

    refused(pickle.dumps(Bomb()))
    assert not mark.exists()


@pytest.mark.parametrize("length", [0, 1, 2**16, MAX_HEADER_NBYTES + 8, 2**40, 2**63, 2**64 - 1])
def test_header_length_when_it_lies_then_nothing_is_allocated_for_it(length: int) -> None:
    """A length beyond the file or the limit is refused before memory is taken."""
    data = small()
    tracemalloc.start()
    refused(length.to_bytes(8, "little") + data[8:])
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_path_when_no_regular_file_then_it_is_refused_at_once(tmp_path: Path) -> None:
    """Links, pipes, folders, sockets and devices are not opened as snapshots; nothing waits."""
    (tmp_path / "a.snap").write_bytes(small())
    (tmp_path / "link").symlink_to("a.snap")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path, found in {
            tmp_path / "link": "it is a symbolic link; name the file that it leads to",
            tmp_path / "loop": "it is a symbolic link; name the file that it leads to",
            tmp_path / "pipe": "it is a pipe; name the file of a snapshot",
            tmp_path: "it is a folder; name the file of a snapshot",
            Path("/dev/zero"): "it is a device; name the file of a snapshot",
        }.items():
            with pytest.raises(DamagedSnapshotError) as caught:
                open_snapshot(path)
            assert str(caught.value) == f"{path}: {found}"
        with pytest.raises(SnapshotError):
            open_snapshot(tmp_path / "socket")


@pytest.mark.parametrize("name", ["missing", "a\0b", "x" * 300, "a.snap/b", "\udcff\ud800"])
def test_path_when_not_there_then_it_is_an_error_of_ours(name: str, tmp_path: Path) -> None:
    """A name that leads nowhere, or cannot be one, is a typed error."""
    (tmp_path / "a.snap").write_bytes(small())
    with pytest.raises(SnapshotError):
        open_snapshot(f"{tmp_path}/{name}")


# --- lies, with a checksum that is right --------------------------------------------------------


def test_json_when_nested_deep_then_it_is_refused() -> None:
    """Brackets without end are an error, not an overflow of the stack."""
    deep = "[" * 200_000 + "]" * 200_000
    header = header_of(small())
    header["__metadata__"]["statekit.manifest"] = deep
    assert "nested too deep" in refused(joined(header, body_of(small())))
    metadata = header_of(small())["__metadata__"] | {"statekit.manifest": ""}
    text = json.dumps(metadata, separators=(",", ":"))
    assert "nested too deep" in refused(joined(f'{{"__metadata__":{text},"x":{deep}}}', b""))


def test_about_when_nested_deep_then_it_is_refused() -> None:
    """What a writer could not have said of itself is not taken from a file either."""

    def change(header: dict[str, Any]) -> None:
        about: dict[str, Any] = {}
        manifest_of(header)["about"] = about
        for _ in range(200):
            about["x"] = about = {}

    assert refused(forged(small(), change)) == "it says nothing about itself"


@pytest.mark.parametrize("depth", ["header", "manifest"])
def test_key_when_twice_then_it_is_refused(depth: str) -> None:
    """Two readers could take a different one of them."""
    header = header_of(small())
    if depth == "header":
        text = joined(header, b"").decode("latin-1")[8:].rstrip()
        data = joined(text[:-1] + ',"storage/0":{}' * 2 + "}", body_of(small()))
    else:
        manifest = json.dumps(manifest_of(header))
        header["__metadata__"]["statekit.manifest"] = manifest[:-1] + ',"about":{}}'
        data = joined(header, body_of(small()))
    assert refused(data) == "its header is JSON with a key twice"


@pytest.mark.parametrize("word", ["NaN", "Infinity", "1" * 5000, "1" * 21, "-" + "9" * 30])
def test_number_when_json_has_none_such_then_it_is_refused(word: str) -> None:
    """Words that JSON has not, and numbers that take long to read, are refused as text."""
    header = header_of(small())
    manifest = json.dumps({**manifest_of(header), "about": {"x": 1}})
    header["__metadata__"]["statekit.manifest"] = manifest.replace('{"x": 1}', f'{{"x": {word}}}')
    assert "JSON with" in refused(joined(header, body_of(small())))


Change = Callable[[dict[str, Any]], Any]


def entry_of(header: dict[str, Any], number: int = 0) -> dict[str, Any]:
    return [entry for name, entry in header.items() if name != "__metadata__"][number]


def storage_of(header: dict[str, Any]) -> list[Any]:
    found: list[Any] = manifest_of(header)["recipe"]["storages"][0]
    return found


LIES: dict[str, Change] = {
    "an entry larger than its place": lambda h: entry_of(h).update(shape=[400]),
    "an entry of a negative shape": lambda h: entry_of(h).update(shape=[-3]),
    "an entry of a vast shape": lambda h: entry_of(h).update(shape=[2**62, 2**62, 0]),
    "an entry of another dtype": lambda h: entry_of(h).update(dtype="F64"),
    "an entry of an unknown dtype": lambda h: entry_of(h).update(dtype="F999"),
    "an entry that is none": lambda h: h.update({"more": 3}),
    "an entry without a storage": lambda h: h.update(
        {"more": {"dtype": "U8", "shape": [0], "data_offsets": [16, 16]}}
    ),
    "an entry too few": lambda h: h.pop([name for name in h if name != "__metadata__"][1]),
    "entries that overlap": lambda h: entry_of(h, 1).update(data_offsets=[8, 12]),
    "entries with a gap": lambda h: entry_of(h, 1).update(data_offsets=[13, 17]),
    "an entry beyond the end": lambda h: entry_of(h, 1).update(data_offsets=[12, 2**60]),
    "offsets that are none": lambda h: entry_of(h).update(data_offsets=[True, 12]),
    "offsets backwards": lambda h: entry_of(h).update(data_offsets=[12, 0]),
    "no manifest": lambda h: h["__metadata__"].pop("statekit.manifest"),
    "more metadata": lambda h: h["__metadata__"].update(more="x"),
    "metadata that is no text": lambda h: h["__metadata__"].update({"statekit.version": 3}),
    "a manifest that is none": lambda h: h["__metadata__"].update({"statekit.manifest": "3"}),
    "a manifest that is no JSON": lambda h: h["__metadata__"].update({"statekit.manifest": "{"}),
    "more in the manifest": lambda h: manifest_of(h).update(more=1),
    "no date": lambda h: manifest_of(h).update(created_at="yesterday"),
    "a date without a zone": lambda h: manifest_of(h).update(created_at="2026-01-02T03:04:05"),
    "a date that is a number": lambda h: manifest_of(h).update(created_at=3),
    "nothing about it": lambda h: manifest_of(h).update(about=None),
    "no checksums": lambda h: manifest_of(h).update(storages=[]),
    "checksums that are none": lambda h: manifest_of(h)["storages"][0].__setitem__(1, "zzzzzzzz"),
    "another checksum": lambda h: manifest_of(h)["storages"][0].__setitem__(1, "0" * 8),
    "a storage twice": lambda h: manifest_of(h)["storages"].__setitem__(
        0, manifest_of(h)["storages"][1]
    ),
    "storages that changed places": lambda h: manifest_of(h)["storages"].reverse(),
    "a storage of another size": lambda h: manifest_of(h)["recipe"]["storages"][0].__setitem__(
        1, 1
    ),
    "a storage nowhere": lambda h: manifest_of(h)["recipe"]["storages"][0].__setitem__(0, "meta"),
    "a recipe that is none": lambda h: manifest_of(h).update(recipe=[]),
    "a node that is kept": lambda h: manifest_of(h)["recipe"]["nodes"].__setitem__(0, ["kept", 0]),
}


@pytest.mark.parametrize("change", LIES.values(), ids=LIES)
def test_head_when_it_lies_then_it_is_refused(change: Change) -> None:
    """A head whose checksum is right is checked all the same."""
    refused(forged(small(), change))


def test_head_when_only_the_checksum_is_made_anew_then_it_is_taken() -> None:
    """The forging of these tests makes files that are read, where they do not lie."""
    assert value_of(forged(small(), lambda header: None))["attrs"]["b"] == b"four"


# --- memory -------------------------------------------------------------------------------------


@functools.cache
def bombs() -> dict[str, bytes]:
    """Files of some ten or hundred kilobytes that ask for as much as they can."""

    def nodes(nodes: list[Any], body: bytes = b"") -> bytes:
        base = snapshot_bytes({"x": body}, {}, created_at=DATE)

        def change(header: dict[str, Any]) -> None:
            manifest_of(header)["recipe"]["nodes"] += nodes

        return forged(base, change)

    count = 5_000
    return {
        "lists": nodes([["list", []]] * count),
        "deques": nodes([["deque", [], None]] * count),
        "sets": nodes([["set", []]] * count),
        "bounded deques": nodes([["deque", [], 2**61]] * count),
        "bytes of one place": nodes([["bytes", [0, 0, 200_000]]] * 200, b"1" * 200_000),
        "arrays of nothing": nodes(
            [
                ["array", {"dtype": "|V2000000000", "shape": [0], "strides": [1], "offset": 0,
                           "writeable": True}, None],
            ] * 1000
        ),
        "big sizes": nodes([["size", [2**60] * count]]),
        "one list of many": nodes([["list", [0] * (10 * count)]]),
        "text": nodes([["text", "c3a9" * 10 * count]]),
        "numbers": nodes([["int", "0x" + "f" * 100 * count]]),
        "nested": forged(
            small(), lambda h: manifest_of(h).update(about={"x": [[] for _ in range(5 * count)]})
        ),
        "objects": forged(
            small(), lambda h: manifest_of(h).update(about={"x": [{} for _ in range(5 * count)]})
        ),
        "entries": forged(small(), lambda h: h.update({f"e{i}": {} for i in range(count)})),
    }  # fmt: skip


@pytest.mark.parametrize("name", bombs())
def test_file_when_it_asks_for_memory_then_it_gets_a_multiple_of_its_size(name: str) -> None:
    """Whatever a file says, reading it takes no more than 60 times its bytes."""
    data = bombs()[name]
    tracemalloc.start()
    try:
        with open_snapshot(data) as snapshot:
            snapshot.read()
    except SnapshotError:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * len(data) + (1 << 20)


def test_sample_when_forged_without_a_lie_then_it_is_read() -> None:
    """The large sample of these tests passes every check; its arrays are what they were."""
    back = value_of(forged(snapshot_bytes(sample(), {}), lambda header: None))
    assert np.array_equal(back["objects"]["frames"][0], sample()["objects"]["frames"][0])
