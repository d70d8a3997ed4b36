"""The guide on plans: its commands run, print what it shows, and draw its picture."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from statekit_codegen.plan.document import FIELDS

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "plan.md"
TEXT = GUIDE.read_text(encoding="utf-8")

BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```$", TEXT, re.M | re.S)


def commands() -> list[tuple[str, list[str]]]:
    """Every shell block, and the texts that are shown below it."""
    found: list[tuple[str, list[str]]] = []
    for kind, text in BLOCKS:
        if kind == "sh":
            found.append((text, []))
        else:
            found[-1][1].append(text)
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with this repository's schemas."""
    folder = tmp_path_factory.mktemp("plan")
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    return folder


@pytest.mark.parametrize(("command", "shown"), commands())
def test_plan_guide_when_a_command_is_run_then_it_prints_what_is_shown(
    project: Path, command: str, shown: list[str]
) -> None:
    """Each command ends well, and each text below it is a part of its output, line by line."""
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        environment.pop(name, None)
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    for text in shown:
        assert text.rstrip("\n") in run.stdout
    picture = project / "plan.svg"
    if "--svg" in command:
        assert picture.read_bytes() == (GUIDE.parent / "plan.svg").read_bytes()


def test_plan_guide_when_fields_are_added_then_its_tables_have_them() -> None:
    """Every field of the document is there with its meaning, in the order of the document."""
    lines: list[str] = []
    for what, fields in FIELDS.items():
        lines += [f"Fields of a {what}:", "", "| field | meaning |", "|---|---|"]
        lines += [*(f"| `{name}` | {meaning} |" for name, meaning in fields.items()), ""]
    assert "\n".join(lines) in TEXT
