"""`statekit inspect` and `statekit verify`: snapshot files seen from the command line."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from statekit._version import __version__
from statekit.snapshot_file.file import write_snapshot
from statekit.snapshot_file.head import read_head
from statekit.snapshot_file.outline import Form, outline
from statekit.snapshot_file.source import open_source
from tests.conftest import Ran
from tests.snapshot_file.files import ABOUT, DATE, forged

Run = Callable[..., Ran]

SHARED = torch.zeros(256, 1024)


def value() -> dict[str, Any]:
    """A session as snapshots hold it: attrs by name, objects by their saved form."""
    maps = [torch.zeros(1, 96, 2, 44, 80) for _ in range(3)]
    form = {"kind": "LatentBuffer", "settings": {}, "held": [*maps, SHARED[:2]], "staged": []}
    return {
        "attrs": {
            "step": 3,
            "clip": SHARED.to(torch.bfloat16),
            "language": None,
            "part": SHARED[4:6],
            "array": np.zeros((2, 3), np.uint8),
        },
        "objects": {"vae_enc_feat_map": form},
    }


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A snapshot in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    write_snapshot("a.statekit", value(), ABOUT, created_at=DATE)
    return tmp_path / "a.statekit"


def test_inspect_when_in_a_pipe_then_a_table_of_80_columns(file: Path, statekit: Run) -> None:
    """The session, its model, totals, and a line or more for each value; nothing is cut off."""
    ran = statekit("inspect", "a.statekit")
    assert (ran.code, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[:7] == [
        "file     a.statekit",
        "session  a",
        "model    toy (schema f00d)",
        "created  2026-01-02 03:04:05+00:00",
        f"format   1, by statekit {__version__}",
        "holds    9.23 MiB on cpu",
        f"on disk  {lines[6][9:]}",
    ]
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    assert [line.split() for line in lines[8:]] == [
        ["bucket", "value", "kind", "tensors", "bytes"],
        [lines[9]],
        ["attrs", "step", "int"],
        ["attrs", "clip", "Tensor", "bfloat16", "256×1024", "0.50", "MiB"],
        ["attrs", "language", "None"],
        ["attrs", "part", "Tensor", "float32", "2×1024", "1.00", "MiB"],
        ["attrs", "array", "ndarray", "uint8", "2×3", "6", "B"],
        [
            *("objects", "vae_enc_feat_map", "LatentBuffer"),
            *("3", "×", "float32", "1×96×2×44×80", "7.73", "MiB"),
        ],
        ["float32", "2×1024"],
    ]


def test_inspect_when_asked_for_json_then_a_document(file: Path, statekit: Run) -> None:
    """The same for programs, with exact numbers."""
    ran = statekit("inspect", "--format", "json", "a.statekit")
    assert (ran.code, ran.stderr) == (0, "")
    found = json.loads(ran.stdout)
    maps = 3 * 96 * 2 * 44 * 80 * 4
    assert found | {"values": None} == {
        "schema": "statekit.inspect/1",
        "file": "a.statekit",
        "session_id": "a",
        "models": [{"model": "toy", "fingerprint": "f00d"}],
        "created_at": "2026-01-02T03:04:05.678901+00:00",
        "format": 1,
        "version": __version__,
        "nbytes": file.stat().st_size,
        "nbytes_by_device": {"cpu": maps + 256 * 1024 * 6 + 6},
        "values": None,
    }
    assert [one["nbytes"] for one in found["values"]] == [0, 2**19, 0, 2**20, 6, maps]
    assert found["values"][-1] == {
        "bucket": "objects",
        "name": "vae_enc_feat_map",
        "kind": "LatentBuffer",
        "tensors": [
            {"dtype": "float32", "shape": [1, 96, 2, 44, 80], "count": 3},
            {"dtype": "float32", "shape": [2, 1024], "count": 1},
        ],
        "nbytes": maps,
    }


def test_inspect_when_the_data_is_damaged_then_the_head_is_shown(file: Path, statekit: Run) -> None:
    """No tensor is read; that is what `verify` is for."""
    with file.open("r+b") as opened:
        opened.seek(-5, 2)
        opened.write(b"xxxxx")
    assert statekit("inspect", "a.statekit").code == 0
    assert statekit("verify", "a.statekit").code == 1


def test_inspect_when_no_session_then_what_there_is(file: Path, statekit: Run) -> None:
    """A snapshot that says nothing of itself, and is no tree of buckets, is shown as it is."""
    write_snapshot("b.statekit", [torch.zeros(2), b"123"], {"models": [3, {}], "session_id": 4})
    ran = statekit("inspect", "b.statekit")
    assert ran.code == 0
    assert "session  none\nmodel    ?\n" in ran.stdout
    assert ran.stdout.splitlines()[-2].split() == ["list", "float32", "2", "11", "B"]
    write_snapshot("c.statekit", {}, {})
    assert "holds    no bytes" in statekit("inspect", "c.statekit").stdout


def test_inspect_when_names_hold_signs_for_terminals_then_they_are_escaped(
    file: Path, statekit: Run
) -> None:
    """Nothing in a file reaches the terminal but what can be printed."""
    odd = "a\x1b[31m\x07\n[bold]x[/bold]\ud800\u202e"
    write_snapshot("b.statekit", {"attrs": {odd: 1}}, {"session_id": odd})
    ran = statekit("inspect", "--width", "120", "b.statekit")
    assert ran.code == 0
    shown = "a\\x1b[31m\\x07\\n[bold]x[/bold]\\ud800\\u202e"
    assert f"session  {shown}" in ran.stdout
    assert ["attrs", shown, "int"] in [line.split() for line in ran.stdout.splitlines()]
    assert json.loads(statekit("inspect", "--format", "json", "b.statekit").stdout)["values"]


@pytest.mark.parametrize("name", ["missing", ".", "text"])
def test_inspect_when_no_snapshot_then_exit_2_and_why(name: str, file: Path, statekit: Run) -> None:
    """The reason goes to stderr, and nothing to stdout."""
    Path("text").write_text("no snapshot, just text")
    ran = statekit("inspect", name)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"{name}: ")


def test_inspect_when_torch_cannot_be_imported_then_it_still_runs(file: Path) -> None:
    """A machine without torch can look into snapshots."""
    script = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from statekit_codegen.cli import main\n"
        "sys.exit(main(['inspect', 'a.statekit'], sys.stdout, sys.stderr))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"vae_enc_feat_map" in done.stdout


def test_verify_when_all_are_good_then_exit_0(file: Path, statekit: Run) -> None:
    """One line for each snapshot of a folder, and a sum."""
    write_snapshot("b.statekit", {}, {})
    Path("notes.txt").write_text("not ours")
    Path("link.statekit").symlink_to("b.statekit")
    ran = statekit("verify", ".")
    assert (ran.code, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["ok", "a.statekit"], ["ok", "b.statekit"]]
    assert lines[2:] == ["2 snapshots, all good"]


def test_verify_when_some_are_not_then_each_is_named_and_exit_1(file: Path, statekit: Run) -> None:
    """Damaged ones, those of a later format, and what a dead writer left; not what is written."""
    data = file.read_bytes()
    Path("bad.statekit").write_bytes(data[:-1])
    Path("later.statekit").write_bytes(
        forged(data, lambda header: header["__metadata__"].update({"statekit.format": "9"}))
    )
    dead, living = f".a.{'0' * 32}.tmp", f".a.{'1' * 32}.tmp"
    Path(dead).write_bytes(data[:100])
    with Path(living).open("wb") as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        ran = statekit("verify", ".")
    assert ran.code == 1
    lines = ran.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["ok", "a.statekit"],
        ["damaged", "bad.statekit:"],
        ["incompatible", "later.statekit:"],
        ["unfinished", f"{dead}:"],
    ]
    assert lines[-1] == "3 snapshots, 1 damaged, 1 incompatible, 1 unfinished"
    assert Path(dead).exists()


def test_verify_when_a_place_cannot_be_read_then_the_others_are_and_exit_2(
    file: Path, statekit: Run
) -> None:
    """What could not be looked at is not called good."""
    ran = statekit("verify", "missing", "a.statekit")
    assert ran.code == 2
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["unread", "ok", "2"]
    assert statekit("verify").code == 2


def test_verify_when_a_folder_is_empty_then_it_says_so(tmp_path: Path, statekit: Run) -> None:
    """No snapshot is no fault, and is not called good."""
    ran = statekit("verify", str(tmp_path))
    assert (ran.code, ran.stdout) == (0, "0 snapshots, none named *.statekit\n")


def test_outline_when_values_share_memory_then_it_is_counted_once(file: Path) -> None:
    """The bytes of all values are the bytes of all storages."""
    source = open_source(file)
    head = read_head(source)
    source.close()
    values = outline(head)
    assert sum(one.nbytes for one in values) == sum(entry.nbytes for entry in head.entries)
    assert values[1].forms == (Form("bfloat16", (256, 1024), 1),)
