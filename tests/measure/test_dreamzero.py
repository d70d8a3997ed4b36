"""DreamZero at full size, measured: the shipped schema is true, and a published figure is not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Ran

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "schemas" / "dreamzero.yaml"
FRAME = 3 * 352 * 640 * 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of ten forwards, by the command as a user runs it."""
    file = tmp_path_factory.mktemp("measured") / "dreamzero.json"
    command = [sys.executable, "-m", "tests.measure.dreamzero_run"]
    ours = [sys.executable, "-m", "statekit_codegen", "measure", "--save", str(file), "--exit-code"]
    done = subprocess.run([*ours, "--", *command], cwd=ROOT, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing contradicts the declarations." in done.stdout
    return file


def test_shipped_schema_when_dreamzero_runs_at_full_size_then_clean(
    statekit: Callable[..., Ran], run: Path
) -> None:
    """Not even a note: every value holds what it is declared with, to the byte."""
    report = json.loads(
        statekit("measure", "--from", str(run), "--schema", str(SCHEMA), "--format", "json").stdout
    )
    assert report["findings"] == []
    (model,) = report["models"]
    peaks = {one["value"]: one.get("peak_nbytes", 0) for one in model["values"]}
    assert peaks["vae_pending_body_frames"] == 3 * FRAME
    assert f"{peaks['vae_pending_body_frames'] / 2**20:.3f}" == "3.867"
    assert f"{peaks['vae_enc_feat_map'] / 2**20:.3f}" == "603.281"
    for one in model["values"]:
        if one["device"] != "none":
            assert one["peak_nbytes"] == one["declared_nbytes"], one["value"]
    (session,) = model["sessions"]
    pending = session["values"]["vae_pending_body_frames"]["cpu"]
    assert [nbytes // FRAME for nbytes in pending] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_schema_with_the_published_figure_when_compared_then_pending_frames_are_found(
    statekit: Callable[..., Ran], run: Path, tmp_path: Path
) -> None:
    """A table said 2.6 MiB for the pending frames: two of them. They are three, 3.867 MiB."""
    text = SCHEMA.read_text(encoding="utf-8")
    mistaken = tmp_path / "dreamzero.yaml"
    mistaken.write_text(text.replace("FRAMES_PER_CHUNK - 1, H", "FRAMES_PER_CHUNK - 2, H"))
    argv = ("measure", "--from", str(run), "--schema", str(mistaken), "--exit-code")
    done = statekit(*argv)
    assert done.code == 1
    words = " ".join(done.stdout.split())
    assert "it held 3.867 MiB, declared 2.578 MiB" in words
    assert "-> write extent 2 as 3, where `FRAMES_PER_CHUNK - 2` stands" in words
    (finding,) = json.loads(statekit(*argv, "--format", "json").stdout)["findings"]
    assert (finding["rule"], finding["value"]) == ("MEASURED_BELOW", "vae_pending_body_frames")
    assert (finding["measured_nbytes"], finding["declared_nbytes"]) == (3 * FRAME, 2 * FRAME)
    line = mistaken.read_text().splitlines()[finding["line"] - 1]
    assert "FRAMES_PER_CHUNK - 2" in line


def test_write_when_dreamzero_was_measured_then_every_value_has_its_figure(
    statekit: Callable[..., Ran], run: Path, tmp_path: Path
) -> None:
    """The blocks go into the file that people read, and it still passes vet."""
    schema = tmp_path / "dreamzero.yaml"
    schema.write_bytes(SCHEMA.read_bytes())
    argv = ("measure", "--from", str(run), "--schema", str(schema), "--write")
    done = statekit(*argv, "--hardware", "CPU, a stand-in encoder")
    assert "measured blocks of 9 values written" in " ".join(done.stdout.split())
    assert "not written" not in done.stdout
    assert statekit("vet", str(schema)).code == 0
    text = schema.read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if "a stand-in encoder" not in line]
    before = SCHEMA.read_text(encoding="utf-8").splitlines()
    added = [line for line in kept if line == "    measured:"]
    assert len(kept) - len(before) == len(added) - before.count("    measured:")
