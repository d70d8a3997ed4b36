"""`statekit measure`: the command that is run is not disturbed, and all of it is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran
from tests.measure.toy import SCHEMA, measured

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RUN = [sys.executable, "-m", "tests.measure.scripts"]
OURS = [sys.executable, "-m", "statekit_codegen", "measure"]


SOAK = pytest.mark.soak  # each starts several processes that load torch


def outer(*argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command line as a process of its own."""
    return subprocess.run(
        [*OURS, *argv], cwd=ROOT, input=stdin, capture_output=True, text=True, check=False
    )


def sessions(output: str) -> dict[str, dict[str, int]]:
    """Steps by kind of each session in a JSON report."""
    (model,) = json.loads(output)["models"]
    return {one["session"]: one["steps"] for one in model["sessions"]}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording of the toy, saved by a context manager."""
    file = tmp_path / "run.json"
    measured().save(file)
    return file


def test_command_when_it_reads_and_prints_then_as_without_us() -> None:
    """Standard input, output and error pass through; the report comes after."""
    done = outer("--", *RUN, "echo", stdin="hello")
    assert done.returncode == 0
    assert done.stdout.startswith("HELLO")
    assert "Nothing contradicts the declarations" in done.stdout
    assert done.stderr == "to stderr\n"
    assert all(len(line) <= 80 and line == line.rstrip() for line in done.stdout.splitlines())


def test_command_when_it_fails_then_its_exit_code_is_ours_and_its_steps_are_told() -> None:
    """A run that ends badly is measured all the same."""
    done = outer("--format", "json", "--", *RUN, "fails")
    assert done.returncode == 3
    assert sessions(done.stdout) == {"robot": {"step": 6}}
    assert done.stderr == "statekit measure: the command ended with exit code 3\n"


def test_command_when_it_is_killed_then_what_was_recorded_until_then_is_told() -> None:
    """Not even SIGKILL loses what had been measured."""
    done = outer("--format", "json", "--", *RUN, "killed")
    assert done.returncode == 128 + signal.SIGKILL
    assert sessions(done.stdout) == {"robot": {"step": 6}}
    assert done.stderr == "statekit measure: the command was ended by SIGKILL\n"


@pytest.mark.parametrize(
    ("mood", "expected"),
    [
        ("forks", {"parent": {"step": 6}, "child": {"step": 3}}),
        pytest.param("pool", {"robot": {"step": 6}, "worker": {"step": 3}}, marks=SOAK),
        pytest.param("starts", {"robot": {"step": 6}}, marks=SOAK),
    ],
)
def test_command_when_it_has_children_then_each_is_told(
    mood: str, expected: dict[str, dict[str, int]]
) -> None:
    """Processes that are forked, of a pool, or started anew record themselves, once each."""
    done = outer("--format", "json", "--", *RUN, mood)
    assert done.returncode == 0, done.stderr
    assert sessions(done.stdout) == expected


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("none", "the command made no SessionStateManager"),
        pytest.param("idle", "took a step", marks=SOAK),
    ],
)
def test_command_when_there_is_nothing_to_measure_then_says_so(mood: str, words: str) -> None:
    """Without a manager, or without a step, the exit code is 2 and there is no report."""
    done = outer("--", *RUN, mood)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_command_when_we_are_told_to_stop_then_it_is_told() -> None:
    """A signal goes on to the command, whose own end decides."""
    with subprocess.Popen(
        [*OURS, "--", *RUN, "waits"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 7
    assert "Nothing contradicts the declarations" in rest


def test_command_when_it_cannot_be_started_then_says_so(statekit: Callable[..., Ran]) -> None:
    """A name that is no command is our failure, not the command's."""
    done = statekit("measure", "--", "no-such-command")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("no-such-command: cannot be run: ")


@pytest.mark.parametrize("argv", [(), ("--from", "run.json", "--", "true")])
def test_command_when_there_is_none_or_a_recording_too_then_usage(
    statekit: Callable[..., Ran], argv: tuple[str, ...]
) -> None:
    """There is one run to tell of."""
    done = statekit("measure", *argv)
    assert done.code == 2
    assert "name a command after --, or a recording with --from" in done.stderr


def test_options_when_the_command_has_its_own_then_they_are_the_command_s(
    statekit: Callable[..., Ran], capfd: pytest.CaptureFixture[str]
) -> None:
    """What stands after the command's name goes to the command, with or without `--`."""
    done = statekit("measure", sys.executable, "-c", "import sys; print(sys.argv)", "--format", "x")
    assert done.code == 2
    assert capfd.readouterr().out == "['-c', '--format', 'x']\n"


def test_recording_when_saved_then_told_of_again(
    statekit: Callable[..., Ran], recording: Path, tmp_path: Path
) -> None:
    """A recording of a context manager gives the report that a run would have given."""
    done = statekit("measure", "--from", str(recording))
    assert (done.code, done.stderr) == (0, "")
    assert "Nothing contradicts the declarations." in done.stdout
    again = tmp_path / "again.json"
    assert statekit("measure", "--from", str(recording), "--save", str(again)).code == 0
    assert json.loads(again.read_text()) == json.loads(recording.read_text())


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "statekit.recording/9"}', "\x00"])
def test_recording_when_it_is_none_then_says_so(
    statekit: Callable[..., Ran], tmp_path: Path, content: str
) -> None:
    """Another file is refused by name."""
    file = tmp_path / "other.json"
    file.write_text(content, encoding="utf-8")
    done = statekit("measure", "--from", str(file))
    assert done.code == 2
    assert "no recording; name a file that" in done.stderr
    assert statekit("measure", "--from", str(tmp_path / "absent.json")).code == 2


def test_schema_when_named_then_compared_with(
    statekit: Callable[..., Ran], recording: Path, tmp_path: Path
) -> None:
    """An edited schema is compared with, and its findings decide the exit code where asked for."""
    schema = tmp_path / "toy.yaml"
    schema.write_text(SCHEMA.replace("FRAMES - 1, H", "FRAMES - 2, H"), encoding="utf-8")
    argv = ("measure", "--from", str(recording), "--schema", str(schema))
    assert statekit(*argv).code == 0
    done = statekit(*argv, "--exit-code")
    assert done.code == 1
    assert "1 declaration is wrong." in done.stdout
    found = json.loads(statekit(*argv, "--format", "json").stdout)["findings"]
    assert [(one["rule"], one["value"]) for one in found] == [("MEASURED_BELOW", "pending")]
    schema.write_text(SCHEMA.replace("model: toy", "model: other"), encoding="utf-8")
    assert "name the schema of a model that ran: toy" in statekit(*argv).stderr


def test_numbers_when_set_then_used_and_unknown_ones_refused(
    statekit: Callable[..., Ran], recording: Path
) -> None:
    """`--set` says a number of the run."""
    done = statekit("measure", "--from", str(recording), "--set", "LAYERS=2", "--set", "TOKENS=6")
    assert "TOKENS=6, LAYERS=2 (given)" in " ".join(done.stdout.split())
    done = statekit("measure", "--from", str(recording), "--set", "LAYER=2")
    assert done.code == 2
    assert "LAYER" in done.stderr


def test_report_when_written_to_files_then_there(
    statekit: Callable[..., Ran], recording: Path, tmp_path: Path
) -> None:
    """Text and plots go where they are told to, and a folder that is not there is named."""
    text, svg, png = (tmp_path / name for name in ("report.txt", "plot.svg", "plot.png"))
    argv: list[Any] = ["measure", "--from", recording, "--output", text, "--svg", svg, "--png", png]
    done = statekit(*map(str, argv))
    assert (done.code, done.stdout) == (0, "")
    assert text.read_text(encoding="utf-8").startswith("toy")
    assert svg.read_text(encoding="utf-8").startswith("<svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    for option in ("--output", "--svg", "--png", "--save"):
        place = str(tmp_path / "absent" / "file")
        done = statekit("measure", "--from", str(recording), option, place)
        assert (done.code, "cannot be written" in done.stderr) == (2, True)


def test_run_when_it_cannot_be_told_of_then_its_recording_is_kept() -> None:
    """A slip in an option does not cost an hour of measuring."""
    done = outer("--set", "NONE=3", "--", *RUN, "serves")
    assert done.returncode == 2
    assert "no schema has a number 'NONE'" in done.stderr
    kept = done.stderr.split("go on with --from ")[1].split()[0]
    try:
        assert outer("--from", kept).returncode == 0
    finally:
        Path(kept).unlink()


def test_help_when_asked_for_then_fits_a_screen(statekit: Callable[..., Ran]) -> None:
    """24 lines of 80 columns, with an example."""
    done = statekit("measure", "--help")
    lines = done.stdout.splitlines()
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)
    assert "statekit measure --write -- python serve.py" in done.stdout
