"""What several test modules share: the golden option, a project in a folder, the command line."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import settings

SCHEMA = """\
statekit: 1
model: toy
class: ToyState
doc: A toy.
values:
  steps:
    bucket: attrs
    doc: Steps so far.
    type: int
    default: 0
    coerce: int
    device: none
    decision: {operations: [], why: A counter.}
resets:
  session: {clears: all}
"""
PYPROJECT = '[tool.statekit]\nschemas = "schemas"\noutput = "src/toy/generated"\n'

# A machine that is busy with something else is no reason to fail.
settings.register_profile("statekit", deadline=None)
settings.load_profile("statekit")


@attrs.frozen
class Ran:
    """What a run of the command line left behind."""

    code: int
    stdout: str
    stderr: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden-update", action="store_true", help="write the goldens from what is generated now"
    )


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one schema; the working directory is its folder."""
    root = tmp_path / "project"
    (root / "schemas").mkdir(parents=True)
    (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (root / "schemas" / "toy.yaml").write_text(SCHEMA, encoding="utf-8")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def statekit() -> Callable[..., Ran]:
    """The command line, in this process."""
    from statekit_codegen.cli import main

    def run(*argv: str) -> Ran:
        stdout, stderr = io.StringIO(), io.StringIO()
        code = main(argv, stdout, stderr)
        return Ran(code, stdout.getvalue(), stderr.getvalue())

    return run


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch computes in one thread: sums in one order, and small ones without waiting."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
