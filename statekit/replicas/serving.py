"""Serving: what a user gives a replica to serve, and what a step gives the user's model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from statekit.manager import SessionStateManager
from statekit.replicas.lane import Call
from statekit.session import SessionState
from statekit.spec import ModelSpec

__all__ = ["Kept", "Model", "Serves", "Turn"]


class Turn:
    """One step of one session, as its model sees it."""

    __slots__ = ("_call", "manager", "session")

    def __init__(self, call: Call, manager: SessionStateManager, session: SessionState) -> None:
        self._call = call
        self.manager = manager
        """To make an adapter: `Adapter(turn.session_id, turn.manager)`."""
        self.session = session

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.session.session_id

    @property
    def number(self) -> int:
        """How many steps the session has done before this one."""
        return self._call.lane.done

    def check(self) -> None:
        """Return if the step is still wanted; a long one asks between its parts.

        Raises:
            StepCancelledError: it was cancelled; let it pass, and the session is as it was.
        """
        self._call.check()


class Model(Protocol):
    """What a user serves. Where it has a `begin`, of the same form, that runs when one begins."""

    def step(self, turn: Turn, /, *args: Any, **kwargs: Any) -> Any:
        """One forward, in a lease and a step of its session: whole, or undone where it raises."""


@attrs.frozen
class Serves:
    """A model, and the schema of its sessions' state."""

    spec: ModelSpec
    model: Model


class Kept:
    """What a replica knows of one of its sessions beside its lane."""

    __slots__ = (
        "begun",
        "declared",
        "overrides",
        "rewound",
        "saved_at",
        "saved_step",
        "serves",
        "unsaved",
    )

    def __init__(
        self,
        serves: Serves,
        overrides: Mapping[str, int],
        declared: Mapping[str, int],
        begun: int,
        rewound: int,
    ) -> None:
        self.serves, self.overrides, self.declared = serves, overrides, declared
        self.begun, self.rewound = begun, rewound
        self.saved_step: int | None = None
        self.saved_at: float | None = None
        self.unsaved = ""
