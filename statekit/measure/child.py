"""Child: a process that records all its managers into a file, because its environment says so.

Owns the file: it is whole at all times, at most a moment behind, and named by the process, so that
a process that forks, or starts others, leaves one for each. What is killed leaves what had been
recorded until then.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from pathlib import Path

from statekit.measure.recorder import Recorder
from statekit.measure.registry import listen, managers

__all__ = ["record_from_now_on"]

_SHORTEST_S = 0.05
_SHARE = 20
"""Writing takes at most one part in so many of the time."""

_lock = threading.Lock()
_writer: _Writer | None = None


def record_from_now_on(folder: str) -> None:
    """Record all managers of this process, into a file in `folder`; once is enough."""
    global _writer
    with _lock:
        if _writer is not None:
            return
        _writer = _Writer(Path(folder))
    _writer.begin()


class _Writer:
    """Writes the recording down soon after each step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = os.getpid()
        self._recorder = Recorder(self._changed)
        self._new = threading.Event()
        self._thread: threading.Thread | None = None
        self._writing = threading.Lock()

    def begin(self) -> None:
        for manager in managers():
            self._recorder.attend(manager)
        listen(self._attend)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._go_on_as_a_child)
        self._write()

    def _attend(self, manager: object) -> None:
        self._recorder.attend(manager)  # type: ignore[arg-type]
        self._changed()

    def _changed(self) -> None:
        if self._thread is None:
            self._start()
        self._new.set()

    def _start(self) -> None:
        with self._writing:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._work, name="statekit-measure", daemon=True)
            self._thread.start()
        atexit.register(self._finish)
        if "multiprocessing.util" in sys.modules:  # its processes end without `atexit`
            from multiprocessing.util import Finalize

            Finalize(self, self._finish, exitpriority=0)

    def _work(self) -> None:
        while True:
            self._new.wait()
            self._new.clear()
            begun_at = time.perf_counter()
            self._write()
            time.sleep(max(_SHORTEST_S, _SHARE * (time.perf_counter() - begun_at)))

    def _write(self) -> None:
        self._recorder.safely(self._replace)  # whoever makes a manager must not pay for our faults

    def _replace(self) -> None:
        with self._writing, contextlib.suppress(OSError):
            text = self._recorder.recording().to_json()
            file = self._folder / f"{self._process}.json"
            new = file.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            os.replace(new, file)

    def _finish(self) -> None:
        """The process ends: the last step of each session is over."""
        if self._process == os.getpid():
            self._recorder.close()
            self._write()

    def _go_on_as_a_child(self) -> None:
        """What was measured before the fork is the parent's; threads did not come along."""
        self._process = os.getpid()
        self._writing = threading.Lock()
        self._new = threading.Event()
        self._thread = None
        self._recorder.begin_anew()
