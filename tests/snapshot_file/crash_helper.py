"""A process of its own for `test_crash.py`: forks children that write snapshots until they die.

    crash_helper.py FOLDER

Answers each line on stdin with a line on stdout: `loop FIRST` with the id of a child that writes
snapshots numbered from FIRST on, without end, into the files of the folder in turn; `share FIRST`
with that of a child that writes one file twenty times and ends; `reap ID` with its exit code when
that child is dead. One import of torch serves all children.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path
from typing import Any

import torch

from statekit.snapshot_file.file import write_snapshot

FILES = 5
SHARED = "shared.snap"


def value_of(number: int) -> dict[str, Any]:
    """What snapshot `number` holds: more in some than in others, nothing the same in two."""
    many = torch.arange(number, number + 200_000 + 97 * (number % 50), dtype=torch.int32)
    return {"attrs": {"n": number, "few": torch.tensor([number]), "many": many, "b": b"x" * 100}}


def loop(folder: Path, first: int) -> None:
    """Write until killed; a line in `done` for each that is finished."""
    with (folder / "done").open("a", encoding="ascii") as done:
        for number in count(first):
            path = folder / f"{number % FILES}.snap"
            write_snapshot(path, value_of(number), {"n": number}, fsync=number % 4 == 0)
            done.write(f"{number}\n")
            done.flush()


def share(folder: Path, first: int) -> None:
    """Write one file, as others do at the same time."""
    for number in range(first, first + 20):
        write_snapshot(folder / SHARED, value_of(number), {"n": number}, fsync=False)


def main(folder: Path) -> None:
    for line in sys.stdin:
        command, number = line.split()
        if command == "reap":
            print(os.waitstatus_to_exitcode(os.waitpid(int(number), 0)[1]), flush=True)
            continue
        pid = os.fork()
        if not pid:
            {"loop": loop, "share": share}[command](folder, int(number))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
