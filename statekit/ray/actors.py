"""Actors: what runs in the processes of a service.

Owns how a replica and the directory live in an actor, and how a session's snapshot travels: by
reference, from the object store of one node to that of the other, past whoever asked for it.

    A1  A replica's actor is never restarted: it would be empty. Its sessions are restored
        elsewhere.
    A2  The directory's is: it asks the replicas what they have. Steps go on meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np
import ray

from statekit.errors import ReplicaDiedError, SnapshotError
from statekit.ray.link import NAMESPACE, RayLink, actor_name
from statekit.replicas.fleet import Options
from statekit.replicas.lane import Limits, Order
from statekit.replicas.saving import Saved, Saving, Store
from statekit.replicas.service import Service

if TYPE_CHECKING:
    from statekit.replicas.replica import Replica

__all__ = ["DirectoryActor", "MakeReplica", "ReplicaActor", "named_actors", "replica_link"]


class MakeReplica(Protocol):
    """Makes a replica in the process where it will live: loads the model, makes the manager."""

    def __call__(self, name: str, limits: Limits, saving: Saving | None, /) -> Replica:
        """The replica of this name."""


def named_actors(service: str, role: str = "") -> list[str]:
    """The names of a service's actors that live, of one role or all."""
    prefix = f"{actor_name(service, role)}/" if role else f"{service}/"
    every = ray.util.list_named_actors(all_namespaces=True)
    names = [one["name"] for one in every if one["namespace"] == NAMESPACE]
    return sorted(name for name in names if name.startswith(prefix))


def replica_link(service: str, name: str) -> RayLink:
    """A link to a replica of a service."""
    return RayLink(name, actor_name(service, "replica", name), grouped=True)


class ReplicaActor:
    """One replica."""

    def __init__(self, name: str, make: MakeReplica, limits: Limits, saving: Saving | None) -> None:
        self._replica = make(name, limits, saving)
        self._own = {
            "step": self._step,
            "count": self._count,
            "freeze": self._freeze,
            "restore": self._restore,
            "node": self._node,
        }

    def run(self, packed: list[Any]) -> Any:
        """Call a method of the replica."""
        method, *args = packed
        call: Any = self._own.get(method) or getattr(self._replica, method)
        return call(*args)

    def _step(
        self, session_id: str, epoch: int, key: str | None, place: Any, args: Any, kwargs: Any
    ) -> list[Any]:
        order = None if place is None else Order(*place)
        done = self._replica.step(session_id, epoch, key, order, args, kwargs)
        return [done.output, done.step]

    def _count(self, session_id: str, epoch: int) -> list[Any]:
        return [None, self._replica.count(session_id, epoch).step]

    def _freeze(self, session_id: str, epoch: int, wait_s: float) -> Saved:
        saved = self._replica.freeze(session_id, epoch, wait_s)
        data: Any = ray.put(np.frombuffer(saved.data, np.uint8))
        return attrs.evolve(saved, data=data)

    def _restore(
        self, session_id: str, epoch: int, model: str, overrides: Any, saved: Saved, *since: int
    ) -> Any:
        data: Any = saved.data
        if isinstance(data, ray.ObjectRef):
            try:
                data = ray.get(data)
            except Exception as error:
                found = f"its bytes are gone with who had them ({type(error).__name__})"
                place = f"snapshot of session {session_id!r}"
                raise SnapshotError(place, found, "restore an older one") from None
        whole = attrs.evolve(saved, data=bytes(data))
        return self._replica.restore(session_id, epoch, model, overrides, whole, *since)

    def _node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())


class DirectoryActor:
    """The directory of a service.

    Args:
        name: the service's.
        check_every_s: how often all replicas are asked whether they live.
    """

    def __init__(
        self, name: str, store: Store | None, options: Options, check_every_s: float
    ) -> None:
        self._name, self._every_s = name, check_every_s
        self._service = Service(store=store, options=options)
        if ray.get_runtime_context().was_current_actor_reconstructed:
            for one in named_actors(name, "replica"):
                with contextlib.suppress(ReplicaDiedError):
                    self._add(one.removeprefix(f"{actor_name(name, 'replica')}/"))
            self._service.learn()
        threading.Thread(target=self._watch, name="statekit-check", daemon=True).start()

    def run(self, packed: list[Any]) -> Any:
        """Call a method of the service."""
        method, *args = packed
        call: Any = self._add if method == "add" else getattr(self._service, method)
        return call(*args)

    def _add(self, name: str) -> None:
        self._service.add(replica_link(self._name, name))

    def _watch(self) -> None:
        while True:
            time.sleep(self._every_s)
            try:
                self._service.check()
            except Exception as error:  # what a replica says of itself is its manager's affair
                warnings.warn(f"replicas could not be checked: {error!r}", stacklevel=1)
