"""Services to watch: of toys in this process, and ones that say whatever a test wants."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from statekit.replicas.placement import ReplicaFacts
from statekit.replicas.reports import LostSession, ReplicaStatus, ServiceStatus
from statekit.replicas.saving import MemoryStore
from statekit.replicas.sessions import EmbeddedSessions, Sessions
from tests.replicas.toy import FRAME_NBYTES, replica

__all__ = ["ONE", "Says", "lost", "of_replica", "of_service", "toys"]

ONE = 4 * FRAME_NBYTES
"""Bytes that one session of a toy declares."""


def toys(*names: str, every: int | None = 2, room: int = 3) -> EmbeddedSessions:
    """A service of toys, with room for so many sessions on each replica."""
    store = None if every is None else MemoryStore()
    replicas = [
        replica(name, store=store, every=every or 1, budgets={"cpu": room * ONE}, max_sessions=8)
        for name in names
    ]
    return Sessions.embedded(replicas, store=store)


class Says:
    """A service that says what it is told to say."""

    def __init__(self, status: ServiceStatus | Exception) -> None:
        self.answer = status
        self.go_on = threading.Event()
        self.go_on.set()
        self.asked = 0

    def status(self) -> ServiceStatus:
        self.asked += 1
        assert self.go_on.wait(10)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def of_replica(name: str, **more: Any) -> ReplicaStatus:
    """What a directory knows of a replica: an idle one, unless told otherwise."""
    budgets: Mapping[str, int] = more.pop("budgets", {"cpu": 1000})
    promised: Mapping[str, int] = more.pop("promised", {"cpu": 100})
    sessions = more.get("sessions", 1)
    facts = ReplicaFacts(name, budgets, promised, sessions, more.pop("max_sessions", 4))
    given: dict[str, Any] = {
        "facts": facts,
        "state": "serving",
        "models": ("toy",),
        "sessions": sessions,
        "waiting": 0,
        "running": 0,
        "unsaved": {},
        "steps": 0,
        "host": "node-1",
        "pid": 7,
        "snapshot_age_s": None,
        "unsaved_steps": 0,
        "counts": {},
        **more,
    }
    return ReplicaStatus(**given)


def of_service(*replicas: ReplicaStatus, **more: Any) -> ServiceStatus:
    """What a directory says."""
    placed = sum(one.sessions for one in replicas)
    given: dict[str, Any] = {"sessions": {"placed": placed}, "lost": (), "refused": 0, **more}
    return ServiceStatus(replicas, **given)


def lost(session_id: str, replica: str = "a", saved_step: int | None = None) -> LostSession:
    """A session that was lost."""
    return LostSession(session_id, replica, "toy", "no snapshot of it was taken", saved_step)
