"""What the tests of the command run: one small server in many moods."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time

from statekit.manager import SessionStateManager
from tests.measure.toy import Toy, good_step

STEPS = 6


def serve(name: str = "robot", steps: int = STEPS) -> None:
    manager = SessionStateManager()
    state = Toy(name, manager)
    for step in range(steps):
        with state.step():
            good_step(state, step)


def rest() -> None:
    """So long that the recording is written down."""
    time.sleep(1)


def main(mood: str) -> int:
    """Be a server; the exit code."""
    if mood == "none":
        return 0
    if mood == "idle":
        SessionStateManager()
        return 0
    if mood == "echo":
        sys.stdout.write(sys.stdin.read().upper())
        print("to stderr", file=sys.stderr)
    if mood == "waits":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        serve()
        print("ready", flush=True)
        time.sleep(60)
    if mood == "forks":
        serve("parent")
        child = os.fork()
        if not child:
            serve("child", 3)
            rest()
            os._exit(0)
        os.waitpid(child, 0)
        return 0
    if mood == "pool":
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.apply(serve, ("worker", 3))
            rest()
    if mood == "starts":
        subprocess.run([sys.executable, "-m", "tests.measure.scripts", "serves"], check=True)
    serve()
    if mood == "killed":
        rest()
        os.kill(os.getpid(), signal.SIGKILL)
    if mood == "fails":
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
