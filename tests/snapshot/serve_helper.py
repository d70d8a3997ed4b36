"""A process of its own for `test_crash_serving.py`: forks servers that step until they are killed.

    serve_helper.py FOLDER

Answers each line on stdin with a line on stdout: `serve` with the id of a child that goes on with
the sessions of FOLDER, saves them every few milliseconds, and steps without end; `reap ID` with its
exit code when that child is dead. A line in `FOLDER/log` for each step that has begun.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.capture.sessions import latents

SESSIONS = ("left", "right", "arm")


def serve(folder: Path) -> None:
    """Step all sessions in turn; each step leaves a counter and as many latents as it says."""
    manager = SessionStateManager()
    if (folder / "saved").exists():
        loaded = manager.load_all(folder / "saved", DreamZeroStateAdapter.SPEC)
        assert not loaded.failed, loaded.failed
    manager.save_every(folder / "saved", 0.005)
    with (folder / "log").open("a", encoding="ascii") as log:
        while True:
            for name in SESSIONS:
                begin = None if name in manager else DreamZeroStateAdapter.SPEC
                with manager.lease(name, begin=begin):
                    state = DreamZeroStateAdapter(name, manager)
                    log.write(f"{name} {state.call_count + 1}\n")
                    log.flush()
                    with state.step():
                        state.call_count += 1
                        state.append_video_latents(latents(float(state.call_count)))


def main(folder: Path) -> None:
    for line in sys.stdin:
        command, *number = line.split()
        if command == "reap":
            print(os.waitstatus_to_exitcode(os.waitpid(int(number[0]), 0)[1]), flush=True)
            continue
        pid = os.fork()
        if not pid:
            serve(folder)
        print(pid, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
