"""The command line on a real pseudo-terminal: what a person would see."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["on_a_terminal"]


def on_a_terminal(
    columns: int, environment: Mapping[str, str], *argv: str, cwd: Path | None = None
) -> str:
    """What `statekit argv` writes to a terminal of so many columns; it must end with 0."""
    leader, follower = pty.openpty()
    chosen = {"COLUMNS": str(columns), "TERM": "xterm-256color", **environment}
    inherited = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-m", "statekit_codegen", *argv],
        stdin=follower,
        stdout=follower,
        env={**inherited, **chosen},
        cwd=cwd,
    )
    os.close(follower)
    written = b""
    while chunk := _read(leader):
        written += chunk
    os.close(leader)
    assert process.wait() == 0
    return written.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how the end of a pseudo-terminal shows on Linux
        return b""
