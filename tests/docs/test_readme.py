"""The README's walk through is run as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text of one second-level section."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.M | re.S)
    assert found is not None, f"README has no section {title!r}"
    return found[1]


def test_walk_through_when_run_as_written_then_it_ends_as_the_text_says(tmp_path: Path) -> None:
    """The shell block runs and ends with the line that is quoted below it."""
    text = section("Describe a model of your own")
    script = re.search(r"^```sh\n(.*?)^```$", text, re.M | re.S)
    promised = re.search(r"It ends with `([^`]+)`", text)
    assert script is not None
    assert promised is not None

    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script[1]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == promised[1]
    assert "tidepool" in run.stdout


def test_links_when_relative_then_their_files_exist() -> None:
    """No relative link of the README or of the pages under docs/ leads nowhere."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []
