"""What replicas and their directory say of themselves: plain records, fit to cross processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from statekit.replicas.placement import ReplicaFacts

__all__ = [
    "Begun",
    "CountName",
    "Done",
    "Drained",
    "Held",
    "LostSession",
    "MemberState",
    "Place",
    "ReplicaStatus",
    "Report",
    "ServiceStatus",
    "SessionStateName",
]

SessionStateName = Literal["beginning", "placed", "moving", "closing"]
"""Of a session that lives: it is being begun, is served, changes its replica, is being closed."""

MemberState = Literal["serving", "draining", "dead"]

CountName = Literal["begun", "came", "went", "restored", "lost", "refused"]
"""What becomes of sessions at a replica: they begin there, come or go by a move, come out of a
snapshot, are lost with it, or find no room there."""


@attrs.frozen
class Begun:
    """A session has begun: what its model's `begin` returned, and its replica's facts now."""

    output: Any
    facts: ReplicaFacts


@attrs.frozen
class Done:
    """A step was done: what the model returned, and how many steps its session has done now."""

    output: Any
    step: int


@attrs.frozen
class Held:
    """One session of a replica.

    Attributes:
        step: how many steps it has done.
        frozen: it is about to leave, or to be told that it stays.
        busy: a step runs or waits.
        saved_step: that of its last snapshot; None without one.
        unsaved: why its last snapshot could not be taken; empty where it could.
        begun, rewound: the epochs at which it began, and was last restored from an older snapshot.
    """

    session_id: str
    epoch: int
    model: str
    overrides: Mapping[str, int]
    declared: Mapping[str, int]
    step: int
    frozen: bool
    busy: bool
    saved_step: int | None
    unsaved: str
    begun: int
    rewound: int


@attrs.frozen
class Report:
    """What a replica says of itself.

    Attributes:
        models: the models that it serves.
        waiting, running: steps.
        departed: sessions that left without having been closed, with how and why.
        steps: how many it has done.
        host, pid: the process that it lives in.
        snapshot_age_s: of the oldest among its sessions' last snapshots; None where there is none.
    """

    facts: ReplicaFacts
    models: tuple[str, ...]
    sessions: tuple[Held, ...]
    waiting: int
    running: int
    departed: Mapping[str, tuple[str, str]]
    steps: int
    host: str
    pid: int
    snapshot_age_s: float | None


@attrs.frozen
class Place:
    """Where a session is.

    Attributes:
        owner: the replica that has it.
        epoch: under which it has it; rises whenever the session begins, moves or is restored.
        rewound: the epoch at which it was last restored from an older snapshot; 0 for never.
        step: how many steps it had done when it came there.
    """

    session_id: str
    owner: str
    epoch: int
    rewound: int
    step: int


@attrs.frozen
class LostSession:
    """A session that was lost with its replica; `saved_step` is of its last snapshot."""

    session_id: str
    replica: str
    model: str
    reason: str
    saved_step: int | None


@attrs.frozen
class ReplicaStatus:
    """One replica, as the directory knows it.

    Attributes:
        unsaved: sessions whose last snapshot could not be taken, with why.
        unsaved_steps: what would be lost if it died now.
        counts: what became of sessions there, by `CountName`; each only rises.
    """

    facts: ReplicaFacts
    state: MemberState
    models: tuple[str, ...]
    sessions: int
    waiting: int
    running: int
    unsaved: Mapping[str, str]
    steps: int
    host: str
    pid: int
    snapshot_age_s: float | None
    unsaved_steps: int
    counts: Mapping[str, int]


@attrs.frozen
class ServiceStatus:
    """All replicas, how many sessions are in which state, and those that were lost.

    Attributes:
        refused: how often a session that was to begin fitted nowhere.
    """

    replicas: tuple[ReplicaStatus, ...]
    sessions: Mapping[str, int]
    lost: tuple[LostSession, ...]
    refused: int


@attrs.frozen
class Drained:
    """What became of the sessions of a replica that drains."""

    moved: Mapping[str, str]
    """Session to where it went."""
    stayed: Mapping[str, str]
    """Session to why it is still there."""
