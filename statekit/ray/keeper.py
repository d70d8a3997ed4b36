"""Keeper: snapshots in the object store, owned by an actor of their own.

Owns the actor and the store that goes with it. An object lives as long as the process that put it,
so what a replica puts would die with it; the keeper puts a copy. Its objects lie on its node, and
are spilled to disk as Ray sees fit: they outlive any replica, but not the keeper, nor its node. For
that, keep snapshots in a folder on a shared file system (`statekit.replicas.saving.FolderStore`).
"""

from __future__ import annotations

import threading
from typing import Any

import attrs
import numpy as np
import ray

from statekit.errors import SnapshotError
from statekit.ray.link import RayLink, actor_name
from statekit.replicas.saving import Saved

__all__ = ["KeeperActor", "ObjectStore"]


class KeeperActor:
    """Holds the newest snapshot of each session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, Saved] = {}

    def run(self, packed: list[Any]) -> Any:
        """Call a method."""
        method, *args = packed
        return getattr(self, method)(*args)

    def put(self, session_id: str, saved: Saved) -> None:
        """Keep a copy of a snapshot, whose data is an array, unless a newer one is there."""
        if not self._is_newest(session_id, saved):
            return
        ref: Any = ray.put(saved.data)
        copy = attrs.evolve(saved, data=ref)
        with self._lock:
            if self._is_newest(session_id, saved):
                self._kept[session_id] = copy

    def get(self, session_id: str) -> Saved | None:
        """The newest one; its data is a reference to an array."""
        return self._kept.get(session_id)

    def drop(self, session_id: str) -> None:
        """Forget it."""
        with self._lock:
            self._kept.pop(session_id, None)

    def _is_newest(self, session_id: str, saved: Saved) -> bool:
        kept = self._kept.get(session_id)
        return kept is None or kept.age <= saved.age


class ObjectStore:
    """The store of a service whose snapshots its keeper has."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._link = RayLink("keeper", actor_name(service, "keeper"))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._service,)

    def put(self, session_id: str, saved: Saved) -> None:
        """Keep it, unless a newer one is there.

        Raises:
            SnapshotError: the keeper cannot be reached.
        """
        data: Any = np.frombuffer(saved.data, np.uint8)
        self._call("put", session_id, attrs.evolve(saved, data=data))

    def get(self, session_id: str) -> Saved | None:
        """The newest one; its data stays in the object store until it is read.

        Raises:
            SnapshotError: the keeper cannot be reached.
        """
        saved: Saved | None = self._call("get", session_id)
        return saved

    def drop(self, session_id: str) -> None:
        """Forget it, when the keeper comes to that."""
        self._link.start("drop", session_id)

    def _call(self, method: str, *args: Any) -> Any:
        try:
            return self._link.call(method, *args)
        except Exception as error:
            todo = "snapshots go on when its actor has been restarted"
            raise SnapshotError("keeper of snapshots", f"it failed: {error}", todo) from error
