"""`statekit scaffold`: what is written where, and never over something else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codegen.terminal import on_a_terminal
from tests.conftest import Ran

Run = Callable[..., Ran]

SOURCE = """\
import torch


class ToyState:
    def __init__(self):
        self.steps = 0
        self.frames: list[torch.Tensor] = []

    def push(self, frame: torch.Tensor) -> None:
        self.frames.append(frame)
        self.steps += 1

    def reset(self):
        self.steps = 0
        self.frames = []
"""


@pytest.fixture
def project(toy: Path) -> Path:
    """A project with a hand-rolled class beside its schemas; the tests run in its folder."""
    (toy / "toy").mkdir()
    (toy / "toy" / "state.py").write_text(SOURCE, "utf-8")
    return toy


def test_scaffold_when_no_file_is_named_then_the_draft_is_the_output(
    project: Path, statekit: Run
) -> None:
    """The draft goes to stdout, what to do next to stderr."""
    ran = statekit("scaffold", "toy/state.py:ToyState")
    assert ran.code == 0
    assert ran.stdout.startswith("# Drafted by `statekit scaffold` from toy/state.py:ToyState\n")
    assert "\nmodel: toy\n" in ran.stdout
    assert ran.stderr == (
        "ToyState: 2 values, 1 reset, 5 questions; answer them, then run: statekit vet\n"
    )
    assert sorted(path.name for path in project.iterdir()) == ["pyproject.toml", "schemas", "toy"]


def test_scaffold_when_files_are_named_then_both_are_written(project: Path, statekit: Run) -> None:
    """The model is called as the file, and the subclass imports what `generate` will write."""
    arguments = ("-o", "schemas/reef.yaml", "--subclass", "toy/adapters/reef.py")
    ran = statekit("scaffold", "toy/state.py:ToyState", *arguments)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("wrote      schemas/reef.yaml\nwrote      toy/adapters/reef.py\n")
    assert "\nmodel: reef\n" in (project / "schemas" / "reef.yaml").read_text("utf-8")
    text = (project / "toy" / "adapters" / "reef.py").read_text("utf-8")
    assert "\nfrom toy.generated.reef import ToyState\n" in text
    vetted = statekit("vet", "schemas/reef.yaml")
    assert vetted.code == 1
    assert vetted.stdout.count("OPEN_QUESTION") == 5


def test_scaffold_when_a_file_is_there_then_nothing_is_written(
    project: Path, statekit: Run
) -> None:
    """No file is overwritten, and none is written if one is in the way, but by --force."""
    before = (project / "schemas" / "toy.yaml").read_bytes()
    arguments = ("scaffold", "toy/state.py:ToyState", "-o", "schemas/toy.yaml")
    ran = statekit(*arguments, "--subclass", "adapter.py")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == "schemas/toy.yaml: a file is there; use another name, or --force\n"
    assert (project / "schemas" / "toy.yaml").read_bytes() == before
    assert not (project / "adapter.py").exists()
    assert statekit(*arguments, "--force").code == 0
    assert b"Drafted" in (project / "schemas" / "toy.yaml").read_bytes()
    assert [path.name for path in (project / "schemas").iterdir()] == ["toy.yaml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("toy/state.py",), "write the file, a colon and the class in it"),
        (("toy/none.py:A",), "toy/none.py: unreadable: No such file or directory"),
        (("toy/state.py:ToyStat",), "did you mean ToyState?"),
        (("toy/state.py:ToyState", "--model", "A B"), "--model A B"),
        (("toy/state.py:ToyState", "-o", "toy/state.py/x.yaml"), "toy/state.py/x.yaml: "),
        ((), "Missing argument"),
    ],
)
def test_scaffold_when_it_cannot_run_then_it_says_why(
    project: Path, statekit: Run, arguments: tuple[str, ...], said: str
) -> None:
    """Every mistake of a call is one message on stderr and exit code 2."""
    ran = statekit("scaffold", *arguments)
    assert (ran.code, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert "internal" not in ran.stderr


def test_scaffold_when_a_class_keeps_nothing_then_it_says_so(project: Path, statekit: Run) -> None:
    """A class without state gives no empty schema."""
    (project / "toy" / "none.py").write_text("class A:\n    def f(self):\n        pass\n", "utf-8")
    ran = statekit("scaffold", "toy/none.py:A")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("toy/none.py:1: A keeps nothing; name the class")


def test_scaffold_when_there_is_no_project_then_a_draft_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statekit: Run
) -> None:
    """Only the subclass needs to know where adapters go."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state.py").write_text(SOURCE, "utf-8")
    assert statekit("scaffold", "state.py:ToyState").code == 0
    ran = statekit("scaffold", "state.py:ToyState", "--subclass", "adapter.py")
    assert ran.code == 2
    assert "add [tool.statekit]" in ran.stderr


@pytest.mark.parametrize("command", ["scaffold", "audit"])
def test_help_when_printed_then_it_fits_a_screen_and_has_an_example(
    command: str, statekit: Run
) -> None:
    """Help is at most 24 lines of 80 columns."""
    ran = statekit(command, "--help")
    lines = ran.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert f"$ statekit {command} reef/state.py:ReefState" in ran.stdout


def test_scaffold_when_on_a_terminal_then_it_prints_what_it_prints_in_a_pipe(
    project: Path, statekit: Run
) -> None:
    """A draft is a file: no colour, no wrapping, wherever it goes."""
    piped = statekit("scaffold", "toy/state.py:ToyState").stdout
    shown = on_a_terminal(40, {}, "scaffold", "toy/state.py:ToyState", cwd=project)
    assert shown == piped


def test_scaffold_when_run_then_neither_torch_nor_numpy_is_loaded(project: Path) -> None:
    """A file about tensors is read by a machine that has none."""
    script = (
        "import sys; from statekit_codegen.cli import main\n"
        "code = main(['scaffold', 'toy/state.py:ToyState'], sys.stdout, sys.stderr)\n"
        "sys.exit(code or ('torch' in sys.modules or 'numpy' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
