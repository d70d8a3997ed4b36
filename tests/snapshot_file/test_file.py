"""Snapshot files: what is written is what is read. `statekit.snapshot_file.file`."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from hypothesis import HealthCheck, given, settings
from safetensors.torch import load_file

from statekit._version import __version__
from statekit.bulk.checksum import PART_NBYTES
from statekit.errors import IncompatibleSnapshotError, SnapshotError
from statekit.snapshot_file import reading, writing
from statekit.snapshot_file.file import open_snapshot, snapshot_bytes, write_snapshot
from tests.parking.trees import TENSOR_DTYPES, assert_same, trees
from tests.snapshot_file.files import ABOUT, DATE, forged, header_of, manifest_of, sample, value_of


def written(folder: Path, value: Any) -> Path:
    path = folder / "a.snap"
    assert write_snapshot(path, value, ABOUT) == path.stat().st_size
    return path


def without_generators(value: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in value["objects"].items() if k not in ("seeds", "legacy", "torch")}
    return {"attrs": value["attrs"], "objects": kept}


# --- round trips --------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(trees())
def test_snapshot_when_read_then_every_tree_is_the_same_bit_for_bit(tree: Any) -> None:
    """A random tree with random sharing comes back the same."""
    assert_same(tree, value_of(snapshot_bytes(tree, {})))


@pytest.mark.parametrize("dtype", TENSOR_DTYPES, ids=str)
def test_tensor_when_read_then_any_dtype_has_the_same_bits(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    """Every dtype comes back from a file with its bits, those of NaNs included."""
    value = {"x": torch.full((64,), 255, dtype=torch.uint8).view(dtype)}
    with open_snapshot(written(tmp_path, value)) as snapshot:
        assert_same(value, snapshot.read())


def test_file_when_read_then_all_kinds_are_the_same(tmp_path: Path) -> None:
    """A value with a bit of everything comes back from a file, and its generators go on."""
    value = sample()
    with open_snapshot(written(tmp_path, value)) as snapshot:
        back = snapshot.read()
    assert_same(without_generators(value), without_generators(back))
    old, new = value["objects"], back["objects"]
    assert new["seeds"][0].bit_generator is new["seeds"][1]._bit_generator
    for name, draw in {
        "legacy": lambda g: g.normal(size=9).tolist(),
        "torch": lambda g: torch.rand(9, generator=g).tolist(),
    }.items():
        assert draw(old[name]) == draw(new[name])
    for draw, a, b in zip(
        (lambda g: g.spawn(1)[0].random(), lambda g: g.rand(), lambda g: g.gauss(0, 1)),
        old["seeds"],
        new["seeds"],
        strict=True,
    ):
        assert draw(a) == draw(b)


def test_bytes_when_compared_with_the_file_then_they_are_the_same(tmp_path: Path) -> None:
    """`snapshot_bytes` gives what `write_snapshot` writes, byte for byte."""
    value = {**sample(), "large": torch.arange(1 << 20)}
    write_snapshot(tmp_path / "a", value, ABOUT, created_at=DATE)
    data = snapshot_bytes(value, ABOUT, created_at=DATE)
    assert (tmp_path / "a").read_bytes() == data
    assert snapshot_bytes(value, ABOUT, created_at=DATE) == data


def test_value_when_of_many_parts_then_it_is_the_same(tmp_path: Path) -> None:
    """Storages around the size of a part, written and read by several threads, come back."""
    sizes = [1, PART_NBYTES - 1, PART_NBYTES, PART_NBYTES + 1, 3 * PART_NBYTES + 17]
    value = {f"t{n}": torch.randint(0, 256, (n,), dtype=torch.uint8) for n in sizes}
    path = written(tmp_path, value)
    with open_snapshot(path) as snapshot:
        snapshot.verify()
        for verify in (True, False):
            back = snapshot.read(verify=verify)
            assert all(torch.equal(value[name], back[name]) for name in value)


def test_empty_value_when_written_then_it_is_the_same(tmp_path: Path) -> None:
    """A snapshot can hold nothing, and have no data."""
    with open_snapshot(written(tmp_path, {})) as snapshot:
        assert snapshot.entries == ()
        snapshot.verify()
        assert snapshot.read() == {}


def test_restored_value_when_the_file_changes_then_it_does_not(tmp_path: Path) -> None:
    """What was read lies in memory of its own, writable, and outlives the file."""
    path = written(tmp_path, {"x": torch.arange(1000)})
    with open_snapshot(path) as snapshot:
        back = snapshot.read()
        again = snapshot.read()
    with path.open("r+b") as file:
        file.write(b"\0" * path.stat().st_size)
    path.unlink()
    back["x"] += 1
    assert back["x"].tolist() == list(range(1, 1001))
    assert again["x"].tolist() == list(range(1000))


def test_file_when_replaced_while_open_then_the_old_one_is_read(tmp_path: Path) -> None:
    """Who has opened a snapshot reads it, whatever is written under its name meanwhile."""
    path = written(tmp_path, {"x": torch.zeros(9)})
    with open_snapshot(path) as snapshot:
        written(tmp_path, {"x": torch.ones(9)})
        assert snapshot.read()["x"].tolist() == [0] * 9


@pytest.mark.parametrize("wanted", [bytes, bytearray, memoryview])
def test_open_when_given_bytes_of_any_kind_then_they_are_read(wanted: Any) -> None:
    """Bytes, a bytearray and a memoryview are all sources."""
    with open_snapshot(wanted(snapshot_bytes({"x": 1}, {}))) as snapshot:
        assert snapshot.read() == {"x": 1}


def test_snapshot_when_several_threads_read_it_then_each_gets_the_value(tmp_path: Path) -> None:
    """One open snapshot may be read by several threads at once."""
    value = {"x": torch.arange(1 << 20)}
    found: list[bool] = []
    with open_snapshot(written(tmp_path, value)) as snapshot:
        threads = [
            threading.Thread(
                target=lambda: found.append(torch.equal(snapshot.read()["x"], value["x"]))
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [True] * 4


def test_snapshot_when_closed_then_reading_says_so(tmp_path: Path) -> None:
    """After `close` nothing is read, from a file or from bytes."""
    for source in (written(tmp_path, {"x": torch.ones(1)}), snapshot_bytes({"x": b"1"}, {})):
        snapshot = open_snapshot(source)
        snapshot.close()
        snapshot.close()
        with pytest.raises(SnapshotError, match="closed"):
            snapshot.read()


# --- the head -----------------------------------------------------------------------------------


def test_open_when_the_file_is_large_then_no_tensor_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening reads the length and the header, and nothing behind them."""
    path = written(tmp_path, {"x": torch.zeros(1 << 20)})
    read, ends = os.preadv, []

    def note(fd: int, parts: list[memoryview], offset: int) -> int:
        ends.append(offset + len(parts[0]))
        return read(fd, parts, offset)

    monkeypatch.setattr(os, "preadv", note)
    with open_snapshot(path) as snapshot:
        assert snapshot.nbytes == path.stat().st_size
        assert max(ends) == snapshot.nbytes - (4 << 20)


def test_open_when_read_then_it_says_what_was_written(tmp_path: Path) -> None:
    """`about`, the date, the versions and the entries are there without a tensor."""
    about = {"session_id": "é", "n": [1, 2.5, None, True, {"k": "\ud800"}]}
    value = {"attrs": {"x": torch.zeros(2, 3, dtype=torch.bfloat16)}, "b": b"12345"}
    write_snapshot(tmp_path / "a", value, about, created_at=DATE)
    with open_snapshot(tmp_path / "a") as snapshot:
        assert snapshot.about == about
        assert snapshot.created_at == DATE
        assert (snapshot.format, snapshot.version) == (1, __version__)
        assert snapshot.place == str(tmp_path / "a")
        first, second = snapshot.entries
        assert (first.name, first.dtype, first.shape) == ("attrs/x", "BF16", (2, 3))
        assert (first.nbytes, first.device) == (12, "cpu")
        assert (second.dtype, second.shape, second.nbytes) == ("U8", (5,), 5)
        assert second.name in ("storage/0", "storage/1")


def test_format_when_newer_then_it_is_refused_with_both_numbers() -> None:
    """A snapshot of a later format is not guessed at."""

    def newer(header: dict[str, Any]) -> None:
        header["__metadata__"]["statekit.format"] = "7"

    with pytest.raises(IncompatibleSnapshotError) as caught:
        open_snapshot(forged(snapshot_bytes({}, {}), newer))
    assert str(caught.value) == (
        f"the given bytes: it has format 7, this statekit ({__version__}) reads 1; "
        "read it with the statekit that wrote it, or a newer one"
    )


# --- other programs -----------------------------------------------------------------------------


def test_file_when_read_by_safetensors_then_its_tensors_are_there(tmp_path: Path) -> None:
    """`safe_open` and `load_file` read the file; whole tensors have their dtype, shape and path."""
    clip = torch.randn(2, 3).to(torch.bfloat16)
    latents = [torch.randn(4, 2), torch.randn(3, 3).to(torch.float8_e4m3fn)]
    value = {
        "attrs": {"clip_feas": clip, "flags": torch.tensor([True, False]), "n": np.arange(3)},
        "objects": {"video_latents": latents, "odd": torch.randn(4, 4)[:, 1:], "b": b"123"},
    }
    path = written(tmp_path, value)
    loaded = load_file(path)
    assert torch.equal(loaded["attrs/clip_feas"], clip)
    assert torch.equal(loaded["attrs/flags"], value["attrs"]["flags"])
    assert torch.equal(loaded["attrs/n"], torch.arange(3))
    assert torch.equal(loaded["objects/video_latents/0"], latents[0])
    assert torch.equal(
        loaded["objects/video_latents/1"].view(torch.uint8), latents[1].view(torch.uint8)
    )
    rest = {name: t for name, t in loaded.items() if name.startswith("storage/")}
    assert sorted((t.dtype, t.numel()) for t in rest.values()) == [
        (torch.uint8, 3),
        (torch.uint8, 64),
    ]
    assert len(loaded) == 7
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata()["statekit.format"] == "1"
        assert sorted(file.keys()) == sorted(loaded)


def test_complex_and_swapped_dtypes_when_written_then_they_are_plain_bytes(tmp_path: Path) -> None:
    """What safetensors has no word for in every version is an entry of bytes."""
    value = {"c": torch.randn(2, dtype=torch.complex64), "s": np.ones(3, ">i4"), "u": np.ones(2)}
    loaded = load_file(written(tmp_path, value))
    assert sorted((name.partition("/")[0], t.dtype) for name, t in loaded.items()) == sorted(
        [("storage", torch.uint8), ("storage", torch.uint8), ("u", torch.float64)],
        key=lambda item: item[0],
    )


HARMLESS = set("/ .:+=,()-_")


ODD_KEYS: list[Any] = [
    *("a/b", "..", "../../etc/passwd", ".", "", "a.b", "nul\0", "é", "\ud800", "😀", "x" * 10_000),
    *("__metadata__", "storage/0", "line\nbreak", '"quote', "\\", 3, -1, (1, "k"), b"raw", None),
]


@pytest.mark.parametrize("key", ODD_KEYS, ids=repr)
def test_key_when_odd_then_the_value_is_the_same_and_the_name_harmless(
    key: Any, tmp_path: Path
) -> None:
    """Any key comes back; the name of its tensor in the file leads nowhere."""
    value = {"attrs": {key: torch.arange(3.0), "plain": torch.ones(1)}, "storage": {0: b"1"}}
    path = written(tmp_path, value)
    with open_snapshot(path) as snapshot:
        assert_same(value, snapshot.read())
        names = [entry.name for entry in snapshot.entries]
    assert len(set(names)) == len(names) >= 3
    for name in names:
        assert all(letter.isalnum() or letter in HARMLESS for letter in name)
        assert all(step.strip(".") and len(step) <= 100 for step in name.split("/"))
    assert sorted(load_file(path)) == sorted(names)
    assert os.listdir(tmp_path) == ["a.snap"]


def test_names_when_keys_look_like_ours_then_they_stay_unique() -> None:
    """Entries of plain bytes find a name beside tensors whose path is one."""
    value = {"storage": [torch.ones(2), b"12", b"123"], "x": b"1"}
    with open_snapshot(snapshot_bytes(value, {})) as snapshot:
        names = [entry.name for entry in snapshot.entries]
        assert_same(value, snapshot.read())
    assert len(set(names)) == 4
    assert "storage/0" in names


def test_keys_when_very_many_then_they_come_back(tmp_path: Path) -> None:
    """Tens of thousands of keys are saved and restored."""
    value = {"attrs": {f"key {i}": i for i in range(30_000)}}
    with open_snapshot(written(tmp_path, value)) as snapshot:
        assert snapshot.read() == value


@pytest.mark.soak
def test_keys_when_a_million_then_they_come_back(tmp_path: Path) -> None:
    """A million keys are within the longest header that is read: saved, and restored."""
    value = {"attrs": {f"key {i}": i for i in range(1_000_000)}}
    path = written(tmp_path, value)
    assert path.stat().st_size < 100_000_000
    with open_snapshot(path) as snapshot:
        assert snapshot.read() == value


# --- devices ------------------------------------------------------------------------------------


def on_cuda(data: bytes) -> bytes:
    """As if its tensors had been on an accelerator."""

    def change(header: dict[str, Any]) -> None:
        recipe = manifest_of(header)["recipe"]
        for storage in recipe["storages"]:
            storage[0] = "cuda:7"
        for node in recipe["nodes"]:
            if node[0] == "tensor":
                node[1]["device"] = "cuda:7"
            if node[0] == "torch_generator":
                node[1] = "cuda:7"

    return forged(data, change)


def test_device_when_not_there_then_the_error_names_the_way_out() -> None:
    """A snapshot of an accelerator that is missing is refused, and read where it is wanted."""
    value = {"x": torch.arange(4), "empty": torch.empty(0, 2)}
    data = on_cuda(snapshot_bytes(value, {}))
    with open_snapshot(data) as snapshot:
        assert {entry.device for entry in snapshot.entries} == {"cuda:7"}
        snapshot.verify()
        with pytest.raises(IncompatibleSnapshotError) as caught:
            snapshot.read()
        assert str(caught.value) == (
            "the given bytes: a part of it was on cuda:7, and this machine has no cuda:7; "
            "pass devices={'cuda:7': 'cpu'}, or another device that is there"
        )
        assert_same(value, snapshot.read({"cuda:7": "cpu"}))
        for target in ("cuda:8", "meta", "nowhere", "cuda:999", ""):
            with pytest.raises(IncompatibleSnapshotError, match="this machine has no"):
                snapshot.read({"cuda:7": target})


def test_device_when_only_an_empty_tensor_was_there_then_it_counts_too() -> None:
    """A tensor without memory has a device as well."""
    with open_snapshot(on_cuda(snapshot_bytes({"empty": torch.empty(0, 2)}, {}))) as snapshot:
        with pytest.raises(IncompatibleSnapshotError, match="pass devices="):
            snapshot.read()
        assert snapshot.read({"cuda:7": "cpu"})["empty"].device.type == "cpu"


def test_generator_when_its_device_is_of_another_kind_then_it_is_refused() -> None:
    """The state of an accelerator's generator means nothing to a processor's."""
    with (
        open_snapshot(on_cuda(snapshot_bytes({"g": torch.Generator()}, {}))) as snapshot,
        pytest.raises(IncompatibleSnapshotError, match="means nothing on cpu"),
    ):
        snapshot.read({"cuda:7": "cpu"})


def test_storages_when_on_accelerators_then_they_go_there_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The host holds one storage at a time of those that go elsewhere, and no copy after that."""
    value = {"a": torch.arange(9), "b": torch.ones(5), "c": torch.zeros(3)}
    moved: list[tuple[str, int]] = []

    def move(buffer: torch.Tensor, device: str) -> torch.Tensor:
        moved.append((device, buffer.numel()))
        return buffer

    monkeypatch.setattr(reading, "find_targets", lambda *_: ["away:1", "cpu", "away:2"])
    monkeypatch.setattr(reading, "_moved", move)
    assert_same(value, value_of(snapshot_bytes(value, {})))
    assert moved == [("cpu", 20), ("away:1", 72), ("away:2", 12)]


class Away:
    """A storage of an accelerator that this machine has not."""

    device = torch.device("cuda:0")

    def __init__(self, memory: torch.Tensor, copied: list[int]) -> None:
        self.memory, self.copied = memory, copied

    def numel(self) -> int:
        return self.memory.numel()

    def __getitem__(self, part: slice) -> Away:
        return Away(self.memory[part], self.copied)

    def to(self, device: str) -> torch.Tensor:
        assert device == "cpu"
        self.copied.append(self.numel())
        return self.memory.clone()


def test_storage_when_on_an_accelerator_then_it_comes_in_bounded_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No more than a piece of an accelerator's storage is copied at once, when its turn comes."""
    monkeypatch.setattr(writing, "_PIECE_NBYTES", 1000)
    memory, copied = torch.arange(2500).to(torch.uint8), []
    pieces = writing._in_host(Away(memory, copied))  # type: ignore[arg-type]
    assert copied == []
    found = [next(pieces)]
    assert copied == [1000]
    assert torch.equal(torch.cat([*found, *pieces]), memory)
    assert copied == [1000, 1000, 500]


def test_date_when_it_has_no_zone_then_it_is_of_this_machine() -> None:
    """A date without a zone is taken as Python takes it, and written with one."""
    naive = DATE.astimezone().replace(tzinfo=None)
    with open_snapshot(snapshot_bytes({}, {}, created_at=naive)) as snapshot:
        assert snapshot.created_at == DATE


def test_head_when_torch_cannot_be_imported_then_it_is_read(tmp_path: Path) -> None:
    """A tool can look into a snapshot without loading torch or numpy."""
    path = written(tmp_path, sample())
    script = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from statekit.snapshot_file.head import read_head\n"
        "from statekit.snapshot_file.source import open_source\n"
        "print(len(read_head(open_source(sys.argv[1])).entries))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert int(done.stdout) == len(
        {s["data_offsets"][0] for k, s in header_of(path.read_bytes()).items() if k[0] != "_"}
    )


def test_generators_when_drawn_from_before_then_half_used_words_are_kept() -> None:
    """A second gaussian and a half-used word that wait are drawn next, before and after."""
    bits = np.random.default_rng(3)
    bits.integers(0, 9, dtype=np.uint32)
    old = np.random.RandomState(4)
    old.normal()
    twister = random.Random(5)
    twister.gauss(0, 1)
    value = {"bits": bits, "old": old, "twister": twister}
    back = value_of(snapshot_bytes(value, {}))
    assert (
        back["bits"].integers(0, 9, 5, np.uint32).tolist()
        == bits.integers(0, 9, 5, np.uint32).tolist()
    )
    assert back["old"].normal() == old.normal()
    assert back["twister"].gauss(0, 1) == twister.gauss(0, 1)
