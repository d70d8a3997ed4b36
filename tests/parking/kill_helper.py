"""A process of its own for `test_folder.py`: owns parked values, and forks children that die.

    kill_helper.py FOLDER

Parks a value, then answers each line on stdin with a line on stdout: `fork` with the id of a child
that parks without end, `reap ID` when that child is dead, `check` with `good` if its own parked
value is what it was. At the end of stdin it ends as any program does. One import of torch serves
all children.
"""

from __future__ import annotations

import os
import sys

import torch

from statekit.image.taking import take_image
from statekit.parking.disk import DiskTier


def park_without_end(folder: str) -> None:
    """Say so with the first file finished, then park until killed."""
    tier = DiskTier(folder)
    value = [torch.full((1 << 20,), n, dtype=torch.uint8) for n in range(4)]
    kept = [tier.begin_park(take_image(value)).finish()]
    print(os.getpid(), flush=True)
    while True:
        kept.append(tier.begin_park(take_image(value)).finish())
        if len(kept) > 3:
            kept.pop(0).discard()


def main(folder: str) -> None:
    mine = torch.arange(1000)
    tier: DiskTier | None = None
    parked = None
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "fork" and os.fork() == 0:
            park_without_end(folder)
        elif command == "reap":
            os.waitpid(int(rest[0]), 0)
            print("reaped", flush=True)
        elif command == "own":  # not before the forks: threads and forks do not mix
            tier = DiskTier(folder)
            parked = tier.begin_park(take_image(mine)).finish()
            print(tier._folder.path, flush=True)
        elif command == "check":
            assert parked is not None
            good = torch.equal(parked.begin_restore().finish(), mine)
            print("good" if good else "bad", flush=True)


main(sys.argv[1])
