"""`statekit simulate`: what it prints, for whom, what it writes, and where it cannot run."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from statekit_codegen.cli import main
from statekit_codegen.simulated.page import table
from statekit_codegen.simulated.report import from_json, to_json
from statekit_codegen.simulated.svg import over, sessions
from statekit_codegen.simulated.words import assumptions, share
from tests.codegen.terminal import on_a_terminal

ROOT = Path(__file__).parents[2]
SMALL = ("--replicas", "2", "--sessions", "120", "--mix", "dreamzero=2,sana_wm=1", "--load", "2,6")
FILES = ["over.svg", "report.json", "sessions.svg", "table.md"]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this project, with no wishes about colour and width."""
    monkeypatch.chdir(ROOT)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `statekit simulate`."""
    out, err = io.StringIO(), io.StringIO()
    return main(["simulate", *args], out, err), out.getvalue(), err.getvalue()


def test_text_when_it_goes_into_a_pipe_then_it_is_plain_and_80_columns_wide() -> None:
    """A block for each load: bars of letters, the figures of each policy side by side."""
    code, out, err = run(*SMALL)
    assert (code, err) == (0, "")
    assert out.isascii()
    assert max(map(len, out.splitlines())) <= 80
    assert all(line == line.rstrip() for line in out.splitlines())
    lines = out.splitlines()
    assert "Load 2" in lines
    assert "Load 6" in lines
    assert sum("by count  by bytes  with parking" in line for line in lines) == 2
    assert "# finished   - refused   x interrupted" in out
    assert "A step takes 1 s." in " ".join(out.split())


def test_text_when_it_goes_to_a_terminal_then_bars_are_coloured_unless_not_wanted() -> None:
    """Blocks in colour; with NO_COLOR the same without colour."""
    args = ("simulate", "--replicas", "1", "--sessions", "9", "--mix", "dreamzero=1")
    coloured = on_a_terminal(80, {}, *args, cwd=ROOT)
    plain = on_a_terminal(80, {"NO_COLOR": "1"}, *args, cwd=ROOT)
    assert "\x1b[32m█" in coloured
    assert "█" in plain
    assert "\x1b[32m" not in plain
    assert "of 9 sessions" not in coloured.splitlines()[-1]


def test_json_when_it_is_read_back_then_is_the_same_report() -> None:
    """For programs: every figure, and how to make it again."""
    code, out, _ = run(*SMALL, "--format", "json")
    document = json.loads(out)
    report = from_json(out, "report.json")
    assert code == 0
    assert document["schema"] == "statekit.simulate/1"
    assert document["command"] == f"statekit simulate {' '.join(SMALL)}"
    assert [run["load"] for run in document["runs"]] == [2.0] * 3 + [6.0] * 3
    assert to_json(report) + "\n" == out
    assert report.declared["dreamzero"]["cuda:0"] > 600_000_000


def test_command_when_it_is_repeated_as_told_then_gives_the_same_figures() -> None:
    """The command of a report makes it again, whatever was asked for."""
    asked = ("--replicas", "2", "--sessions", "60", "--seed", "3", "--drains", "1")
    asked += ("--mix", "sana_wm=1", "--policy", "parking,bytes", "--budget", "cuda=20GiB")
    _, out, _ = run(*asked, "--format", "json")
    first = from_json(out, "first")
    _, out, _ = run(*first.command.split()[2:], "--format", "json")
    assert from_json(out, "second") == first
    assert first.budgets["cuda:0"] == 20 << 30


def test_out_when_a_folder_is_named_then_report_table_and_drawings_are_there(
    tmp_path: Path,
) -> None:
    """What is written follows from the report alone; the drawings are sound XML."""
    folder = tmp_path / "new" / "folder"
    assert run(*SMALL, "--out", str(folder))[0] == 0
    assert sorted(path.name for path in folder.iterdir()) == FILES
    report = from_json((folder / "report.json").read_text("utf-8"), "report.json")
    assert (folder / "table.md").read_text("utf-8") == table(report)
    assert (folder / "sessions.svg").read_text("utf-8") == sessions(report)
    assert (folder / "over.svg").read_text("utf-8") == over(report)
    for name in ("sessions.svg", "over.svg"):
        drawing = ElementTree.fromstring((folder / name).read_text("utf-8"))
        width = float(drawing.attrib["width"])
        for bar in drawing.iter("{http://www.w3.org/2000/svg}rect"):
            assert float(bar.attrib["x"]) + float(bar.attrib["width"]) <= width
        assert "prefers-color-scheme: dark" in (folder / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--sessions", "0"), "there is nothing to simulate without replicas and sessions"),
        (("--replicas", "-1"), "'-1'; write a whole number up to 10,000,000"),
        (("--load", "0"), "'0'; write numbers up to 1,000, as in 1,2,4.5"),
        (("--load", "1,x"), "'x'; write numbers up to 1,000, as in 1,2,4.5"),
        (("--load", "nan"), "'nan'; write numbers up to 1,000, as in 1,2,4.5"),
        (("--policy", "luck"), "'luck'; choose from count,bytes,parking"),
        (("--mix", "dreamzro=1"), "did you mean dreamzero?"),
        (("--budget", "cuda=1MiB"), "cuda:0"),
        (("--budget", "cuda"), "write a device and an amount"),
        (("--out", "README.md/x", "--replicas", "1", "--sessions", "1"), "cannot be written"),
    ],
)
def test_command_when_it_cannot_run_then_says_what_to_do(args: tuple[str, ...], said: str) -> None:
    """Exit code 2, nothing on stdout, and the cure."""
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert said in err
    assert "internal error" not in err


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": "statekit.simulate/0"}', '{"schema": "statekit.simulate/1"}'],
)
def test_report_when_it_is_no_such_document_then_is_refused(text: str) -> None:
    """A file that is no report is named, with what to do."""
    with pytest.raises(Exception, match="name a file that `statekit simulate --out` wrote"):
        from_json(text, "x.json")


def test_help_when_it_is_asked_for_then_fits_a_terminal_and_has_an_example() -> None:
    """24 lines of 80 columns."""
    done = subprocess.run(
        [sys.executable, "-m", "statekit_codegen", "simulate", "-h"],
        capture_output=True,
        encoding="utf-8",
        check=True,
        cwd=ROOT,
        env={"COLUMNS": "80", "PATH": "/usr/bin"},
    )
    lines = done.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "Example:" in done.stdout


@pytest.mark.parametrize(
    ("part", "said"),
    [(0, "0 %"), (1, "100 %"), (0.5, "50 %"), (1e-6, "< 0.01 %"), (0.12345, "12.35 %")],
)
def test_share_when_something_is_there_then_is_never_nothing(part: float, said: str) -> None:
    """Percent with two digits, and none where they say nothing."""
    assert share(part) == said


def test_assumptions_when_a_report_is_told_then_name_all_that_was_assumed() -> None:
    """Load, arrivals, lengths, pauses, steps and bandwidths."""
    _, out, _ = run("--replicas", "1", "--sessions", "1", "--mix", "sana_wm=1", "--format", "json")
    said = " ".join(assumptions(from_json(out, "x")))
    for words in ("Poisson", "geometrically", "exponential", "20 GB/s", "cuda:0", "10 steps"):
        assert words in said
