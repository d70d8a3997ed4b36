"""Walks through a page: writes its files and runs its commands, in order, in one folder.

A block with a title (```` ```toml title="pyproject.toml" ````) is a file. Of a block of `console`,
the lines after `$ ` are run, and what they print must be what the page shows, where `...` stands
for anything, whole lines too; a command that was used wrongly fails. A block of `sh`
is run as it stands, and must succeed. A block after which the page says
`*Not run by the tests: REASON*` is left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import attrs

__all__ = ["SHELLS", "Block", "blocks", "walk"]

SHELLS = ("bash", "console", "sh", "shell", "shell-session", "zsh")
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]+)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^(?P=indent)```$\n*(?:(?P=indent)\*Not run by the tests: (?P<reason>[^*]+)\*)?",
    re.MULTILINE | re.DOTALL,
)


@attrs.frozen
class Block:
    """One fenced block of a page.

    Attributes:
        language: the word after the fence.
        title: the file that it is, or None.
        text: what is in it, without the indentation of the fence.
        reason: why it cannot be run, as the page says, or None.
    """

    language: str
    title: str | None
    text: str
    reason: str | None


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(
            found["language"],
            found["title"],
            re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            found["reason"],
        )
        for found in _BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


def walk(page: Path, folder: Path, **environment: str) -> None:
    """Do in `folder` what the page says.

    Raises:
        AssertionError: a command failed, or printed something else than the page shows.
    """
    for block in blocks(page):
        if block.reason is not None:
            continue
        if block.title is not None:
            file = folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for command, shown in _commands(block.text):
                done = _run(command, folder, environment)
                said = done.stdout
                assert not said.startswith("Usage: "), f"$ {command}\n{said}"
                assert _as_shown(said, shown), f"$ {command}\n{said}\n--- the page shows:\n{shown}"
        elif block.language in SHELLS:
            done = _run(block.text, folder, environment)
            assert done.returncode == 0, f"{block.text}\n{done.stdout}"


def _commands(text: str) -> list[tuple[str, str]]:
    """Each command of a `console` block, and what is shown below it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0], f"before the first command: {parts[0]!r}"
    pairs = []
    for part in parts[1:]:
        lines = part.splitlines(keepends=True)
        end = next(i for i, line in enumerate(lines) if not line.endswith("\\\n")) + 1
        pairs.append(("".join(lines[:end]), "".join(lines[end:])))
    return pairs


def _as_shown(said: str, shown: str) -> bool:
    pattern = re.escape(shown).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, said, re.DOTALL) is not None


def _run(
    command: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: text for name, text in os.environ.items() if name != "FORCE_COLOR"}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env={**kept, "PATH": path, "COLUMNS": "80", "PYTHONPATH": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
