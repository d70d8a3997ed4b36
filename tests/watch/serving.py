"""A process that serves what is watched, told what to do by lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["Serving"]


class Serving:
    """The process, which has said where its socket is."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.socket = Path(self.line().partition(" ")[2])
        assert self.line() == "served"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def do(self, words: str) -> None:
        assert self.process.stdin is not None
        print(words, file=self.process.stdin, flush=True)
        assert self.line() == "done"
