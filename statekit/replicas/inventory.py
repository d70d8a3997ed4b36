"""Inventory: what a replica has: its models, its sessions, and what is over.

Owns the bookkeeping beside the manager's, and what is said of it. Not here: what is done with a
session (`statekit.replicas.replica`).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from statekit.accounting import merge_bytes
from statekit.errors import ServiceError, StaleEpochError
from statekit.events import Departed, Event
from statekit.manager import SessionStateManager
from statekit.pressure.promise import promise
from statekit.replicas.lane import Limits
from statekit.replicas.placement import ReplicaFacts
from statekit.replicas.reports import Held, Report
from statekit.replicas.serving import Kept, Serves
from statekit.replicas.turns import Turns

__all__ = ["Inventory"]

_REMEMBERED = 4096
"""Sessions that have left, by the epoch that is over."""


class Inventory:
    """The sessions of one replica, which `statekit.replicas.replica.Replica` serves."""

    def __init__(
        self, name: str, manager: SessionStateManager, serves: Iterable[Serves], limits: Limits
    ) -> None:
        self.name, self.manager = name, manager
        every = tuple(serves)
        self._serves = {one.spec.model: one for one in every}
        if not every or len(self._serves) != len(every):
            found = "it serves no model, or two of one name"
            raise ServiceError(f"replica {name!r}", found, "name each model once")
        self._turns = Turns(name, limits)
        self._kept: dict[str, Kept] = {}
        self._over: OrderedDict[str, int] = OrderedDict()
        self._departed: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        manager.subscribe(self._heard)

    def declared(self, model: str, overrides: Mapping[str, int]) -> Mapping[str, int]:
        """Bytes by device that a session of a model declares here. Raises: ServiceError."""
        return promise(self._model(model).spec, self.manager.model_device, overrides).by_device

    def facts(self) -> ReplicaFacts:
        """What placement goes by: what sessions declare on each device, or hold if that is more."""
        declared: dict[str, int] = {}
        for kept in tuple(self._kept.values()):
            merge_bytes(declared, kept.declared)
        held = self.manager.nbytes_by_device()
        promised = {
            device: max(declared.get(device, 0), held.get(device, 0))
            for device in declared.keys() | held.keys()
        }
        sessions = max(len(self._kept), len(self.manager))
        budgets, most = dict(self.manager.budgets), self.manager.max_sessions
        return ReplicaFacts(self.name, budgets, promised, sessions, most)

    def report(self) -> Report:
        """All that the replica says of itself; who has left is told once."""
        sessions = []
        for lane in self._turns.lanes():
            kept = self._kept.get(lane.session_id)
            if kept is not None:
                busy = lane.running is not None or bool(lane.waiting)
                model = kept.serves.spec.model
                sessions.append(
                    Held(
                        lane.session_id, lane.epoch, model, dict(kept.overrides),
                        dict(kept.declared), lane.done, lane.frozen, busy,
                        kept.saved_step, kept.unsaved, kept.begun, kept.rewound,
                    )
                )  # fmt: skip
        departed, self._departed = self._departed, {}
        saved = [one.saved_at for one in tuple(self._kept.values()) if one.saved_at is not None]
        return Report(
            self.facts(),
            tuple(self._serves),
            tuple(sessions),
            self._turns.waiting,
            self._turns.running,
            departed,
            self._turns.done,
            socket.gethostname(),
            os.getpid(),
            time.monotonic() - min(saved) if saved else None,
        )

    # -- for the replica ---------------------------------------------------------------------------

    def _model(self, model: str) -> Serves:
        try:
            return self._serves[model]
        except KeyError:
            known = ", ".join(self._serves)
            found = f"it does not serve {model}"
            raise ServiceError(f"replica {self.name!r}", found, f"ask for one of {known}") from None

    def _require_new(self, session_id: str, epoch: int) -> None:
        """Refuse what comes late; give up what an older epoch has left here."""
        present = self._over.get(session_id)
        if present is not None and present >= epoch:
            raise StaleEpochError(session_id, self.name, epoch, None)
        for lane in self._turns.lanes():
            if lane.session_id == session_id:
                if lane.epoch >= epoch:
                    raise StaleEpochError(session_id, self.name, epoch, lane.epoch)
                self._end(session_id, drop=True)

    def _keep(
        self,
        session_id: str,
        serves: Serves,
        overrides: Mapping[str, int],
        begun: int,
        rewound: int,
    ) -> None:
        declared = promise(serves.spec, self.manager.model_device, overrides).by_device
        self._departed.pop(session_id, None)
        self._kept[session_id] = Kept(serves, dict(overrides), declared, begun, rewound)

    def _end(self, session_id: str, *, drop: bool) -> None:
        self._kept.pop(session_id, None)
        self._turns.shut(session_id)
        if drop:
            self.manager.drop_session(session_id)

    def _heard(self, event: Event) -> None:
        """The manager let a session go: it is not served any more."""
        if isinstance(event, Departed) and event.session_id in self._kept:
            self._departed[event.session_id] = (event.how, event.reason)
            self._end(event.session_id, drop=False)

    def _refuse_up_to(self, session_id: str, epoch: int) -> None:
        """Refuse the session under this epoch and those before it, for good."""
        with self._lock:
            self._over[session_id] = max(epoch, self._over.pop(session_id, 0))
            while len(self._over) > _REMEMBERED:
                self._over.popitem(last=False)
