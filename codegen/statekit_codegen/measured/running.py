"""Running: a command that records itself, as if it had been run without us.

Owns the child process: its environment says where to write, all else is the caller's own: standard
input and output, the folder, the exit code. Signals that reach us go on to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from statekit.errors import GenerateError
from statekit.measure.registry import VARIABLE

__all__ = ["exit_words", "run"]

_FORWARDED = ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2")


def run(command: Sequence[str], folder: Path) -> int:
    """Run `command`, which records into `folder`; its exit code, 128 and the number of a signal.

    Raises:
        GenerateError: it cannot be started.
    """
    try:
        child = subprocess.Popen(command, env={**os.environ, VARIABLE: str(folder)})
    except OSError as error:
        found = f"cannot be run: {error.strerror or error}"
        raise GenerateError(
            command[0], found, "name a command, as in: -- python serve.py"
        ) from None
    with _signals_go_to(child):
        code = child.wait()
    return 128 - code if code < 0 else code


def exit_words(code: int) -> str:
    """How a command ended, where it did not end well; else empty."""
    if code > 128:
        try:
            return f"the command was ended by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"the command ended with exit code {code}" if code else ""


@contextmanager
def _signals_go_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hand signals on; those that a terminal sends it sends to the child as well."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hand_on(number: int, frame: object) -> None:
        by_keyboard = number in (signal.SIGINT, getattr(signal, "SIGQUIT", None))
        if child.poll() is None and not (by_keyboard and _in_front_of_a_terminal()):
            child.send_signal(number)

    numbers = [getattr(signal, name) for name in _FORWARDED if hasattr(signal, name)]
    before = {number: signal.signal(number, hand_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _in_front_of_a_terminal() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
