"""The directory dies, and Ray starts another: what it knew is with the replicas."""

from __future__ import annotations

import pytest

from statekit.errors import ServiceError, SessionExistsError, SessionStateLostError
from statekit.ray.cluster import connect
from tests.ray.on_ray import OnRay
from tests.replicas.contract import Deploy, eventually
from tests.replicas.toy import alone

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def test_directory_when_it_dies_then_steps_go_on_and_it_learns_anew(deploy: Deploy) -> None:
    """Steps need no directory; a new one asks the replicas, and sessions move, end and begin."""
    service = deploy("a", "b", every=1)
    assert isinstance(service, OnRay)
    sessions = service.sessions
    names = ["one", "two", "three"]
    for name in names:
        sessions.begin(name)
    sessions.move("one")
    before = {name: sessions.where(name) for name in names}
    service.kill_directory()
    outputs = {name: [sessions.step(name, 1)] for name in names}
    other = connect(sessions.service)
    after = {name: other.where(name) for name in names}
    assert {name: place.owner for name, place in after.items()} == {
        name: place.owner for name, place in before.items()
    }
    with pytest.raises(SessionExistsError):
        other.begin("one")
    moved = other.move("one")
    assert moved.epoch > max(place.epoch for place in before.values())
    for name in names:
        outputs[name].append(sessions.step(name, 2))
    assert outputs == {name: alone(0, [1, 2]) for name in names}
    service.kill(moved.owner)
    eventually(lambda: [one.state for one in sessions.status().replicas].count("dead") == 1)
    with pytest.raises((SessionStateLostError, ServiceError)):
        sessions.step("one", 3)
    assert sessions.step("one", 3) == alone(0, [1, 2, 3])[2]
