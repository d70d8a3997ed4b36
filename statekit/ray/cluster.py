"""Cluster: a service on Ray: started, found again, and ended.

Owns the actors' names and lives. All of them are detached: a service outlives the program that
started it, and ends with `shutdown`. What a service has:

    NAME/directory        restarted by Ray where it dies
    NAME/keeper           snapshots in the object store, where no other store is given; restarted
    NAME/replica/REPLICA  never restarted

Clients find a service by its name, in any process that is connected to the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import ray

from statekit.errors import ReplicaDiedError, ServiceError
from statekit.ray.actors import (
    DirectoryActor,
    MakeReplica,
    ReplicaActor,
    named_actors,
    replica_link,
)
from statekit.ray.keeper import KeeperActor, ObjectStore
from statekit.ray.link import GROUPS, NAMESPACE, RayLink, actor_name
from statekit.replicas.fleet import Options
from statekit.replicas.lane import Limits
from statekit.replicas.saving import Saving, Store
from statekit.replicas.sessions import Sessions

__all__ = ["RaySessions", "connect", "start"]

_DIRECTORY_THREADS = 64
_PATIENCE_S = 30.0
_LOOKS = frozenset({"where", "status", "suspect", "check"})
"""What the directory can be asked twice."""


@attrs.frozen
class _Plan:
    """What is needed to start one more replica of a service."""

    make: MakeReplica
    limits: Limits
    saving: Saving | None
    actor: Mapping[str, Any]


def start(
    make: MakeReplica,
    replicas: Iterable[str],
    *,
    service: str = "statekit",
    save_every: int | None = None,
    store: Store | None = None,
    limits: Limits | None = None,
    options: Options | None = None,
    actor: Mapping[str, Any] | None = None,
    check_every_s: float = 5.0,
) -> RaySessions:
    """Start a service on the cluster that this process is connected to.

    What models take and return goes through Ray: it must be picklable, and arrays that come from
    the object store cannot be written to. A step whose output cannot be pickled is done and counted
    all the same.

    Args:
        make: makes a replica, in the process where it will live.
        replicas: their names.
        save_every: a snapshot after so many steps of a session; None takes none.
        store: keeps the snapshots; None keeps them in Ray's object store.
        limits: how many steps run and wait on each.
        options: what an operator decides.
        actor: Ray's options for each replica's actor, such as `{"num_gpus": 1}`.
        check_every_s: how often all replicas are asked whether they live.

    Raises:
        ServiceError: a service of that name runs already.
        ReplicaDiedError: a replica could not be made, and why; nothing is left running.
    """
    if named_actors(service):
        found = "one of that name runs on this cluster"
        raise ServiceError(f"service {service!r}", found, "connect to it, or shut it down first")
    if save_every is not None and store is None:
        store = ObjectStore(service)
    saving = None if save_every is None or store is None else Saving(store, save_every)
    sessions = RaySessions(service, _Plan(make, limits or Limits(), saving, actor or {}))
    try:
        if isinstance(store, ObjectStore):
            _start_actor(KeeperActor, actor_name(service, "keeper"), num_cpus=0, max_restarts=-1)
        _start_actor(
            DirectoryActor,
            actor_name(service, "directory"),
            service,
            store,
            options or Options(),
            check_every_s,
            num_cpus=0,
            max_restarts=-1,
            max_concurrency=_DIRECTORY_THREADS,
        )
        sessions.add(*replicas)
    except BaseException:
        sessions.shutdown()
        raise
    return sessions


def connect(service: str = "statekit") -> RaySessions:
    """The sessions of a service that runs on this cluster. Raises: ServiceError: there is none."""
    if actor_name(service, "directory") not in named_actors(service):
        found = "none of that name runs on this cluster"
        raise ServiceError(f"service {service!r}", found, "start it, or name another")
    return RaySessions(service, None)


class RaySessions(Sessions):
    """The sessions of a service on Ray; made by `start` and `connect`."""

    def __init__(self, service: str, plan: _Plan | None) -> None:
        self.service = service
        self._plan = plan
        super().__init__(_DirectoryLink(service), lambda name: replica_link(service, name))

    def add(self, *names: str) -> None:
        """More replicas serve from now on; they start side by side.

        Raises:
            ServiceError: one of that name runs already, or this is not who started the service.
            ReplicaDiedError: one could not be made, and why.
        """
        plan = self._plan
        if plan is None:
            todo = "add replicas where the service was started"
            raise ServiceError(f"service {self.service!r}", "this is only a client of it", todo)
        defaults = {
            "max_restarts": 0,
            "max_concurrency": plan.limits.parallel + plan.limits.queue + 1,  # one to be refused
        }
        for name in names:
            role = actor_name(self.service, "replica", name)
            given = {**defaults, **plan.actor}
            _start_actor(ReplicaActor, role, name, plan.make, plan.limits, plan.saving, **given)
        for name in names:
            self._service.call("add", name)

    def nodes(self) -> dict[str, str]:
        """The node of each replica that lives: what to drain before a node goes."""
        living = [one.facts.name for one in self.status().replicas if one.state != "dead"]
        return {name: self.link(name).call("node") for name in living}

    def shutdown(self) -> None:
        """End the service with all its sessions."""
        for name in named_actors(self.service):
            RayLink(name, name).kill()


class _DirectoryLink(RayLink):
    """A link to the directory, which may be restarted while it is asked."""

    def __init__(self, service: str) -> None:
        super().__init__("directory", actor_name(service, "directory"))

    def call(self, method: str, *args: Any) -> Any:
        """Call a method; what only looks is asked again until the directory is back.

        Raises:
            ServiceError: it died while it was asked to do something, or does not come back.
            Exception: what the method raised.
        """
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return super().call(method, *args)
            except ReplicaDiedError as error:
                if error.replica != "directory":
                    raise
                if method not in _LOOKS or time.monotonic() > until:
                    found = f"it died while it was asked to {method}, and may have done so"
                    todo = "ask where the session is, when it is back"
                    raise ServiceError("directory", found, todo) from error
            time.sleep(0.1)


def _start_actor(cls: type, name: str, *args: Any, **options: Any) -> Any:
    remote: Any = ray.remote
    made = remote(concurrency_groups=GROUPS)(cls) if cls is ReplicaActor else remote(cls)
    detached = {"name": name, "namespace": NAMESPACE, "lifetime": "detached", **options}
    return made.options(**detached).remote(*args)
