"""Random operations of several clients on replicas that are processes: moves, deaths, cancels."""

from __future__ import annotations

import random
import time
from contextlib import suppress

import pytest

from statekit.errors import MoveError, ServiceError, SessionStateLostError
from statekit.replicas.lane import Limits
from tests.ray.on_ray import OnRay
from tests.replicas.contract import Deploy
from tests.replicas.test_random import Client, compare

pytestmark = [pytest.mark.ray, pytest.mark.soak]


@pytest.mark.parametrize("seed", range(3))
def test_sessions_when_anything_happens_on_ray_then_outputs_are_right(
    deploy: Deploy, seed: int
) -> None:
    """Steps that are sent side by side arrive in any order: what is told is enough to be right."""
    chance = random.Random(seed)
    limits = Limits(parallel=2, queue=6, queue_per_session=3, order_wait_s=0.5)
    service = deploy("a", "b", "c", every=2, limits=limits)
    assert isinstance(service, OnRay)
    sessions = service.sessions
    until = time.monotonic() + 40
    clients = [Client(f"c{i}", sessions, seed * 10 + i, until) for i in range(3)]
    for client in clients:
        client.start()
    victims = ["a", "b"]
    while time.monotonic() < until:
        time.sleep(chance.random() * 0.1)
        known = [name for client in clients for name in list(client.outputs)]
        with suppress(MoveError, ServiceError, SessionStateLostError):
            sessions.move(chance.choice(known or ["none"]))
        if victims and chance.random() < 0.02:
            service.kill(victims.pop())
            service.add(f"d{len(victims)}")
    for client in clients:
        client.join(120)
        assert not client.is_alive()
        if client.error is not None:
            raise client.error
    assert compare(clients) > 50
    assert sum(client.rewound for client in clients) > 0
