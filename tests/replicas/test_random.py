"""Random operations of many threads on replicas that move, die, come and drain.

What a client is told is all it goes by; what it got, in the end, is what one process gives.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from statekit.errors import (
    MoveError,
    QueueFullError,
    ServiceError,
    SessionAdmissionError,
    SessionRewoundError,
    SessionStateLostError,
    StepCancelledError,
    StepUnknownError,
)
from statekit.replicas.lane import Limits
from statekit.replicas.saving import FolderStore, MemoryStore, Store
from statekit.replicas.sessions import EmbeddedSessions, Sessions
from tests.replicas.toy import ToyError, alone, replica

LIMITS = Limits(parallel=2, queue=6, queue_per_session=3, order_wait_s=0.2)


class Client(threading.Thread):
    """Begins sessions, steps, cancels and closes them, and keeps account."""

    def __init__(self, name: str, sessions: Sessions, seed: int, until: float) -> None:
        super().__init__(name=name)
        self.chance, self.until = random.Random(seed), until
        # A client of its own: what others know of sessions is not known to it.
        self.sessions = Sessions(sessions._service, sessions._link_to)
        self.outputs: dict[str, list[Any]] = {}
        self.ended: list[tuple[str, list[Any]]] = []
        self.lost = self.rewound = self.refused = self.unknown = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            count = 0
            while time.monotonic() < self.until:
                if len(self.outputs) < 4:
                    count += 1
                    self.begin(f"{self.name}-{count}")
                elif self.chance.random() < 0.05:
                    self.close(self.chance.choice(list(self.outputs)))
                else:
                    self.step(self.chance.choice(list(self.outputs)))
        except BaseException as error:
            self.error = error

    def begin(self, name: str) -> None:
        with suppress(SessionAdmissionError, QueueFullError):
            self.sessions.begin(name)
            self.outputs[name] = []

    def close(self, name: str) -> None:
        with suppress(ServiceError):
            self.sessions.close(name)
            self.ended.append((name, self.outputs.pop(name)))

    def step(self, name: str) -> None:
        outputs = self.outputs[name]
        kind = self.chance.random()
        x = len(outputs)
        try:
            if kind < 0.5:
                outputs.append(self.sessions.step(name, x))
            elif kind < 0.6:
                self.sessions.step(name, x, fail=True)
            elif kind < 0.9:
                pending = [self.sessions.submit(name, x + i) for i in range(3)]
                for one in pending:
                    outputs.append(one.result(30))
            else:
                one = self.sessions.submit(name, x)
                if one.cancel() == "done":
                    outputs.append(one.result(30))
        except SessionRewoundError as told:
            self.rewound += 1
            outputs[told.step :] = [None] * max(0, told.step - len(outputs))  # given, not received
        except SessionStateLostError:
            self.lost += 1
            self.ended.append((name, self.outputs.pop(name)))
        except (QueueFullError, StepCancelledError, ToyError):
            self.refused += 1
        except StepUnknownError:
            self.unknown += 1
            self.close(name)  # of no more use, as far as it came it was right


def everything(seed: int, seconds: float, store: Store | None) -> list[Client]:
    """Clients, an operator, and deaths, for some seconds; the clients and what they got."""
    chance = random.Random(seed)

    def make(name: str) -> Any:
        return replica(
            name, store=store, every=chance.randint(1, 4), limits=LIMITS, max_sessions=12
        )

    sessions: EmbeddedSessions = Sessions.embedded(map(make, "abc"), store=store)
    until = time.monotonic() + seconds
    clients = [Client(f"c{i}", sessions, seed + i, until) for i in range(3)]
    for client in clients:
        client.start()
    names = (f"r{i}" for i in range(10_000))
    while time.monotonic() < until:
        time.sleep(chance.random() * 0.02)
        kind = chance.random()
        living = [one.facts.name for one in sessions.status().replicas if one.state == "serving"]
        if kind < 0.8:
            known = [name for client in clients for name in list(client.outputs)]
            with suppress(MoveError, ServiceError, SessionStateLostError):
                sessions.move(chance.choice(known or ["none"]))
        elif kind < 0.9 and len(living) > 2:
            sessions.kill(chance.choice(living))
        elif len(living) > 2:
            name = chance.choice(living)
            with suppress(ServiceError):
                sessions.drain(name)
                sessions.remove(name)
        if len(living) < 4:
            sessions.add(make(next(names)))
    for client in clients:
        client.join(60)
        assert not client.is_alive()
        if client.error is not None:
            raise client.error
    assert sessions.service.settled(30)
    check_books(sessions)
    return clients


def check_books(sessions: EmbeddedSessions) -> None:
    """What the directory says is what replicas have: each session in one place."""
    sessions.service.check()
    held = [
        (one.session_id, name, one.epoch)
        for name, link in sessions._embedded.items()
        if not link._dead.is_set()
        for one in link.call("report").sessions
    ]
    assert len({session_id for session_id, _, _ in held}) == len(held)
    for session_id, name, epoch in held:
        place = sessions.where(session_id)
        assert (place.owner, place.epoch) == (name, epoch)
    assert sum(sessions.service._directory.counted().values()) == len(held)


def compare(clients: list[Client]) -> int:
    """Every output of every session, as far as it came; how many there are."""
    count = 0
    for client in clients:
        for _, outputs in [*client.ended, *client.outputs.items()]:
            expected = alone(0, list(range(len(outputs))))
            assert outputs == [
                got and wanted for got, wanted in zip(outputs, expected, strict=True)
            ]
            count += len(outputs)
    return count


def test_sessions_when_anything_happens_then_outputs_are_right_and_books_agree() -> None:
    """Some seconds of everything, with snapshots: what is told is enough to be right."""
    clients = everything(7, 3.0, MemoryStore())
    assert compare(clients) > 50
    assert sum(client.rewound for client in clients) > 0


def test_sessions_when_anything_happens_without_snapshots_then_losses_are_told() -> None:
    """The same with none: what a dead replica had is lost, and each client is told so."""
    clients = everything(8, 2.0, None)
    assert compare(clients) > 50
    assert sum(client.lost for client in clients) > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 106))
def test_sessions_when_anything_happens_for_long_then_outputs_are_right(
    seed: int, tmp_path: Path
) -> None:
    """The same for longer, with files."""
    compare(everything(seed, 20.0, FolderStore(tmp_path)))
