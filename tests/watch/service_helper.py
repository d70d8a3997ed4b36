"""A process with an embedded service that is watched, until it is told to end.

Run as `python -m tests.watch.service_helper SOCKET`; prints `ready SOCKET` and `served`, and then
does what each line of its input says: `begin ID`, `step ID`, `move ID`, `drain REPLICA`,
`kill REPLICA`.
"""

from __future__ import annotations

import contextlib
import sys

from statekit.errors import StatekitError
from statekit.watch.service import serve_service
from tests.watch.service_scenes import toys


def main(socket: str) -> None:
    sessions = toys("a", "b", "c", every=None)
    place = None if socket == "-" else socket
    with serve_service(sessions, place, name="toys", every_s=0.05) as server:
        print(f"ready {server.path}", flush=True)
        for number in range(3):
            sessions.begin(f"robot-{number}", number)
            sessions.step(f"robot-{number}", 1)
        print("served", flush=True)
        for line in sys.stdin:
            word, _, key = line.strip().partition(" ")
            key = key.encode().decode("unicode_escape")
            with contextlib.suppress(StatekitError):
                if word == "begin":
                    sessions.begin(key, 0)
                elif word == "step":
                    sessions.step(key, 1)
                elif word == "move":
                    sessions.move(key)
                elif word == "drain":
                    sessions.drain(key)
                elif word == "kill":
                    sessions.kill(key)
            print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
