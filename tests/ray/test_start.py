"""Services on Ray begin whole or not at all, and are found by name."""

from __future__ import annotations

from typing import Any

import pytest

from statekit.errors import ReplicaDiedError, ServiceError
from statekit.ray.actors import named_actors
from statekit.ray.cluster import connect, start
from tests.ray.on_ray import OnRay

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def broken(name: str, limits: Any, saving: Any) -> Any:
    raise ValueError("the weights are not there")


def test_service_when_a_replica_cannot_be_made_then_error_says_why_and_nothing_is_left(
    cluster: Any,
) -> None:
    """What `make` raised is told in a line; no actor of the service runs on."""
    with pytest.raises(ReplicaDiedError, match="ValueError: the weights are not there"):
        start(broken, ["a"], service="broken", save_every=1, actor={"num_cpus": 0})
    assert named_actors("broken") == []


def test_service_when_there_is_one_of_that_name_then_refused_and_found(
    shared_service: OnRay,
) -> None:
    """One service a name; a client finds it, and cannot add replicas to it."""
    name = shared_service.sessions.service
    with pytest.raises(ServiceError, match="connect to it"):
        start(broken, ["a"], service=name)
    client = connect(name)
    assert set(client.nodes()) == {"a", "b"}
    with pytest.raises(ServiceError, match="only a client"):
        client.add("c")
    with pytest.raises(ServiceError, match="none of that name runs"):
        connect("nowhere")
