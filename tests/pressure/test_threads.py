"""Real threads on one manager with tight budgets and real files: nothing lost, nobody stuck."""

from __future__ import annotations

import contextlib
import faulthandler
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from statekit.errors import SessionAdmissionError, SessionStateLostError
from statekit.manager import SessionStateManager
from statekit.parking.parked_file import HEAD_NBYTES
from tests.pressure.toys import DECLARED, KEPT, REBUILT, VALUES, read, same, write

THREADS, IDS = 8, 64


class Traffic:
    """Users who begin, continue, read, write and drop; each id has one user at a time."""

    def __init__(self, manager: SessionStateManager, seconds: float) -> None:
        self.manager = manager
        self.until = time.monotonic() + seconds
        self.users = [threading.Lock() for _ in range(IDS)]
        self.expected: list[dict[str, Any] | None] = [None] * IDS
        self.counts = {"began": 0, "refused": 0, "continued": 0, "dropped": 0, "read": 0}
        self.errors: list[BaseException] = []

    def serve(self, seed: int) -> None:
        dice = random.Random(seed)
        try:
            while time.monotonic() < self.until and not self.errors:
                number = dice.randrange(IDS)
                if self.users[number].acquire(blocking=False):
                    try:
                        self.use(number, dice)
                    finally:
                        self.users[number].release()
        except BaseException as error:
            self.errors.append(error)

    def use(self, number: int, dice: random.Random) -> None:
        key, expected = str(number), self.expected[number]
        if expected is None:
            with pytest.raises(SessionStateLostError):
                self.manager.lease(key).begin()
            self.begin(number, key, dice)
        elif dice.random() < 0.1:
            assert self.manager.drop_session(key)
            self.expected[number] = None
            self.counts["dropped"] += 1
        else:
            lease = self.manager.lease(key)
            session = lease.begin()
            for name, want in expected.items():
                self.check(session, name, want)
            self.change(session, expected, dice)
            if dice.random() < 0.9:  # else the client goes away without a word
                lease.end()
            if dice.random() < 0.3:
                name = dice.choice(sorted(expected))
                self.check(session, name, expected[name])
                self.counts["read"] += 1
            self.counts["continued"] += 1

    def begin(self, number: int, key: str, dice: random.Random) -> None:
        try:
            with self.manager.lease(key, begin=KEPT) as session:
                self.expected[number] = expected = {}
                self.change(session, expected, dice)
        except SessionAdmissionError:
            self.counts["refused"] += 1
        else:
            self.counts["began"] += 1

    def check(self, session: Any, name: str, want: Any) -> None:
        got = read(session, name)
        if got is not None or name not in REBUILT:
            assert same(got, want), f"{name} of {session.session_id}"

    def change(self, session: Any, expected: dict[str, Any], dice: random.Random) -> None:
        for name in dice.sample(sorted(VALUES), 3):
            expected[name] = write(session, name, dice.randrange(1000))

    def watch(self) -> None:
        """An operator who polls."""
        try:
            while time.monotonic() < self.until and not self.errors:
                self.manager.stats()
                for key in list(self.manager._table)[:1]:
                    with contextlib.suppress(SessionStateLostError):  # dropped meanwhile
                        self.manager.explain(key)
        except BaseException as error:
            self.errors.append(error)


def run(folder: Path, seconds: float) -> Traffic:
    """Drive a manager for so long; returns what came of it, after a look at every value."""
    manager = SessionStateManager(
        max_sessions=IDS,
        budgets={"cpu": 14 * DECLARED, "disk": 64 * DECLARED},
        park_folder=folder,
    )
    traffic = Traffic(manager, seconds)
    threads = [
        threading.Thread(target=traffic.serve, args=(seed,), daemon=True) for seed in range(THREADS)
    ]
    threads.append(threading.Thread(target=traffic.watch, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback(sys.__stderr__, all_threads=True)
        pytest.fail("a deadlock; the stacks are on stderr")
    for error in traffic.errors:
        raise error
    for number, expected in enumerate(traffic.expected):
        if expected is not None:
            with manager.lease(str(number)) as session:
                for name, want in expected.items():
                    traffic.check(session, name, want)
    stats = manager.stats()
    assert stats["leases"] == 0
    files = list(folder.glob("owner-*/*.park"))
    parked = sum(len(session.parked) for session in manager._table.live())
    assert len(files) == parked
    assert stats.get("nbytes:disk", 0) >= len(files) * HEAD_NBYTES
    manager.relieve()
    assert manager.relieve().decisions == ()
    assert manager.stats()["nbytes:cpu"] <= manager.budgets["cpu"]
    manager.close()
    assert not list(folder.glob("owner-*"))
    return traffic


def test_threads_when_they_share_a_manager_then_no_write_is_lost(tmp_path: Path) -> None:
    """8 threads, 64 ids, budgets for 14: what a user reads is what was written last."""
    assert run(tmp_path, 2.5).counts["continued"] > 0


@pytest.mark.soak
def test_threads_when_they_run_for_a_minute_then_no_write_is_lost(tmp_path: Path) -> None:
    """The same for a minute."""
    run(tmp_path, 60)
