"""A service of toys on the cluster, as tests see it."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import attrs
import ray

from statekit.ray.cluster import RaySessions, start
from statekit.ray.link import NAMESPACE, actor_name
from statekit.replicas.fleet import Options
from statekit.replicas.lane import Limits
from statekit.replicas.replica import Replica
from statekit.replicas.saving import Saving
from tests.replicas.toy import replica

__all__ = ["OnRay", "started"]

_names = (f"test{i}" for i in itertools.count())


@attrs.frozen
class OnRay:
    """A service on the cluster."""

    sessions: RaySessions

    def kill(self, name: str) -> None:
        """The process of a replica dies, without a word."""
        actor = ray.get_actor(actor_name(self.sessions.service, "replica", name), NAMESPACE)
        ray.kill(actor, no_restart=True)
        with suppress(ray.exceptions.RayActorError):  # ray.kill does not wait for the end
            while True:
                ray.get(actor.run.remote(["report"]))

    def add(self, name: str) -> None:
        self.sessions.add(name)

    def kill_directory(self) -> None:
        """The process of the directory dies; Ray starts another."""
        actor = ray.get_actor(actor_name(self.sessions.service, "directory"), NAMESPACE)
        ray.kill(actor, no_restart=False)


def started(
    *names: str,
    every: int | None = None,
    limits: Limits | None = None,
    options: Options | None = None,
    **manager: Any,
) -> OnRay:
    """A service of toys with replicas of these names."""

    def make(name: str, limits: Limits, saving: Saving | None) -> Replica:
        store = None if saving is None else saving.store
        return replica(name, store=store, every=every or 1, limits=limits, **manager)

    sessions = start(
        make,
        names,
        service=next(_names),
        save_every=every,
        limits=limits or Limits(queue=16),
        options=options,
        actor={"num_cpus": 0.5},
        check_every_s=3600,
    )
    return OnRay(sessions)
