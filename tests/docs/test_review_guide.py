"""The review guide: its shell blocks are run as they stand, and say what the guide shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "review.md"
TABLE = '[tool.statekit]\nschemas = "schemas"\noutput = "generated"\n'


def shell(folder: Path, script: str) -> str:
    """What a script writes to stdout; every command of it has to succeed."""
    scripts = str(Path(sys.executable).parent)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    environment = {**kept, "PATH": f"{scripts}{os.pathsep}{kept['PATH']}"}
    for name in ("COLUMNS", "FORCE_COLOR"):
        environment.pop(name, None)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    assert done.stderr == ""
    return done.stdout


def test_review_guide_when_run_then_every_block_holds(tmp_path: Path) -> None:
    """The schema loads, each command succeeds, and the text that is shown is what it prints."""
    schema = tmp_path / "schemas" / "toy.yaml"
    schema.parent.mkdir()
    (tmp_path / "pyproject.toml").write_text(TABLE, "utf-8")
    said, shown = "", 0
    guide = GUIDE.read_text("utf-8")
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL):
        if kind == "yaml" and block.startswith("statekit: 1"):
            schema.write_text(block, "utf-8")
            who = "-c user.name=a -c user.email=a@example.org -c commit.gpgsign=false"
            shell(tmp_path, f"git init -q -b main; git add .; git {who} commit -qm first")
        elif kind == "yaml":
            text = schema.read_text("utf-8")
            start = text.index(block.splitlines()[0])
            end = text.index("\nresets:", start)
            schema.write_text(text[:start] + block + text[end:], "utf-8")
        elif kind == "sh":
            said = shell(tmp_path, block)
        else:
            assert kind == "text"
            assert said == block
            shown += 1
    assert shown == 1
    assert (tmp_path / "comment.md").read_text("utf-8").count("<details>") == 1
    assert 'data-change="moved"' in (tmp_path / "change.html").read_text("utf-8")
