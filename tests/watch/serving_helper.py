"""A process with a manager that is watched: sessions under pressure, until it is told to end.

Run as `python -m tests.watch.serving_helper SOCKET FOLDER [SESSIONS]`; prints `ready`, and then
does what each line of its input says: `begin ID`, `go_on ID`, `drop ID`.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from statekit.errors import StatekitError
from statekit.manager import SessionStateManager
from statekit.watch.server import serve
from tests.pressure.toys import DECLARED, KEPT, VALUES, write


def main(socket: str, folder: str, sessions: str = "3") -> None:
    manager = SessionStateManager(
        max_sessions=20_000,
        budgets={"cpu": 2 * DECLARED + int(sessions) * DECLARED // 4, "disk": "64MiB"},
        park_folder=Path(folder),
    )
    with serve(manager, None if socket == "-" else socket, name="toys") as server:
        print(f"ready {server.path}", flush=True)
        for number in range(int(sessions)):
            begin(manager, f"robot-{number}")
        print("served", flush=True)
        for line in sys.stdin:
            word, _, key = line.strip().partition(" ")
            with contextlib.suppress(StatekitError):
                if word == "begin":
                    begin(manager, key.encode().decode("unicode_escape"))
                elif word == "go_on":
                    manager.lease(key).end()
                    with manager.lease(key):
                        pass
                elif word == "drop":
                    manager.drop_session(key)
            print("done", flush=True)


def begin(manager: SessionStateManager, key: str) -> None:
    with manager.lease(key, begin=KEPT) as session:
        for name in VALUES:
            write(session, name, len(key))


if __name__ == "__main__":
    main(*sys.argv[1:])
