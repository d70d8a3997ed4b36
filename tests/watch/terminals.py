"""A terminal for tests: a program under a real pseudo-terminal, its keys, and all that it wrote."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["ALTERNATE", "NORMAL", "Terminal", "terminal"]

ALTERNATE, NORMAL = "\x1b[?1049h", "\x1b[?1049l"
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r")


class Terminal:
    """One program and its terminal."""

    def __init__(self, pid: int, file: int) -> None:
        self.pid, self.file = pid, file
        self.raw = ""
        self.seen = 0
        self.status: int | None = None

    @property
    def text(self) -> str:
        """What was written, without what only moves the cursor or sets colours."""
        return _CONTROLS.sub("", self.raw)

    def wait_for(self, text: str, within_s: float = 20) -> str:
        """Read on until `text` is there; what came since the last wait, up to its end."""
        start, until = self.seen, time.monotonic() + within_s
        while text not in self.text[start:]:
            assert time.monotonic() < until, f"no {text!r} in:\n{self.text[start:]}"
            self.read(0.2)
        end = self.text.index(text, start) + len(text)
        self.seen = end
        return self.text[start:end]

    def press(self, keys: str) -> None:
        """Keys, as a person's."""
        os.write(self.file, keys.encode())

    def read(self, wait_s: float) -> bool:
        """Take what comes within `wait_s`; False where the program has ended."""
        ready, _, _ = select.select([self.file], [], [], wait_s)
        if not ready:
            return True
        try:
            data = os.read(self.file, 65536)
        except OSError:  # Linux: the other end is closed
            data = b""
        self.raw += data.decode("utf-8", "replace")
        return bool(data)

    def end(self, within_s: float = 20) -> int:
        """The exit code, once the program has ended."""
        until = time.monotonic() + within_s
        while self.read(0.1):
            assert time.monotonic() < until, f"it goes on:\n{self.text[-2000:]}"
        _, status = os.waitpid(self.pid, 0)
        self.status = status
        return os.waitstatus_to_exitcode(status)

    def resize(self, lines: int, columns: int) -> None:
        """Another size, of which the program is told."""
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def echoes(self) -> bool:
        """Whether the terminal shows what is typed, as it does for a shell."""
        return bool(termios.tcgetattr(self.file)[3] & termios.ECHO)


@contextmanager
def terminal(
    *argv: str, lines: int = 24, columns: int = 80, environment: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Run a program of ours under a terminal of this size."""
    pid, file = pty.fork()
    if pid == 0:
        try:
            given = {"TERM": "xterm-256color", **(environment or {})}
            for name in ("COLUMNS", "LINES", "NO_COLOR"):
                os.environ.pop(name, None)
            os.execve(sys.executable, [sys.executable, *argv], {**os.environ, **given})
        finally:
            os._exit(127)
    fcntl.ioctl(file, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    one = Terminal(pid, file)
    try:
        yield one
    finally:
        if one.status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(file)
