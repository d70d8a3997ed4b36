"""The guide on measuring: its commands run, print what it shows, and draw its picture."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from statekit.measure.finding import RULES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "measure.md"
TEXT = GUIDE.read_text(encoding="utf-8")

BLOCKS = re.findall(r"^```(sh|text|python)\n(.*?)^```$", TEXT, re.M | re.S)


def shown(languages: str) -> Iterator[tuple[str, list[str]]]:
    """Each block of a language, with the texts that are shown below it."""
    found: list[tuple[str, str, list[str]]] = []
    for kind, text in BLOCKS:
        if kind == "text":
            found[-1][2].append(text)
        else:
            found.append((kind, text, []))
    return ((text, texts) for kind, text, texts in found if kind == languages)


def anywhere(text: str) -> str:
    """`text` without the lines of schemas, which are edited for other reasons."""
    return re.sub(r"\.yaml:[0-9]+", ".yaml:LINE", text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands need of this repository."""
    folder = tmp_path_factory.mktemp("measure")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name in ("schemas", "tests"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def test_measure_guide_when_commands_are_run_then_they_print_what_is_shown(project: Path) -> None:
    """Each command ends well, in order; each text below it is a part of its output."""
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        environment.pop(name, None)
    for command, texts in shown("sh"):
        run = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.returncode, run.stderr) == (0, ""), command
        for text in texts:
            assert anywhere(text.rstrip("\n")) in anywhere(run.stdout)
    picture = (project / "measure.svg").read_bytes()
    assert picture == (GUIDE.parent / "measure.svg").read_bytes()


def test_measure_guide_when_its_code_is_run_then_it_holds_and_prints_what_is_shown() -> None:
    """The blocks run in one namespace, and what the first one prints is on the page."""
    names: dict[str, Any] = {}
    for number, (block, texts) in enumerate(shown("python"), 1):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(block, f"measure.md, block {number}", "exec"), names)
        assert anywhere(printed.getvalue()) == anywhere("".join(texts))


def test_measure_guide_when_rules_are_added_then_its_table_has_them() -> None:
    """Every rule with its words, in the order of the rules; notes are told apart."""
    rows = [
        f"| `{rule}` | {'Note: ' if kind == 'note' else ''}{purpose} |"
        for rule, (kind, purpose) in RULES.items()
    ]
    assert "\n".join(["| rule | what it finds |", "|---|---|", *rows]) in TEXT
