"""Replica: a manager and the models that it serves, behind calls that may come late or twice.

Owns what one replica does with its sessions: it begins, steps, saves, gives away and takes in. Not
here: which replica has which session (`statekit.replicas.service`), what runs next
(`statekit.replicas.turns`). Knows nothing of the other replicas, nor of how calls come to it.

    V1  A session is served under one epoch; what comes under another is refused, nothing is done.
    V2  A step is done whole and counted once, or its session is as it was and its caller is told.
    V3  A session that has been given away is not served here again, whatever comes late.
    V4  A session that could not begin, or not be taken in, has left nothing.

Thread-safe. An output must not be memory that a later step of its session writes into: the next
step may run before the output is on its way.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from statekit.errors import (
    ServiceError,
    SessionStateLostError,
    SnapshotError,
    StaleEpochError,
    StatekitError,
)
from statekit.manager import SessionStateManager
from statekit.replicas.inventory import Inventory
from statekit.replicas.lane import Lane, Limits, Order, Outcome
from statekit.replicas.placement import ReplicaFacts
from statekit.replicas.reports import Begun, Done
from statekit.replicas.saving import Saved, Saving
from statekit.replicas.serving import Serves, Turn

__all__ = ["Replica"]


class Replica(Inventory):
    """Serves sessions out of one manager.

    Args:
        manager: holds them; nobody else begins or ends sessions in it.
        serves: the models, told apart by their schemas' names.
        limits: how many steps run and wait.
        saving: when snapshots are taken, and where they are kept; None takes none.
        devices: where what lay on another replica's device goes, such as `{"cuda:1": "cuda:0"}`.

    Raises:
        ServiceError: two schemas have one name, or there is none.
    """

    def __init__(
        self,
        name: str,
        manager: SessionStateManager,
        serves: Iterable[Serves],
        *,
        limits: Limits | None = None,
        saving: Saving | None = None,
        devices: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, manager, serves, limits or Limits())
        self.saving = saving
        self._devices = devices

    def begin(
        self,
        session_id: str,
        epoch: int,
        model: str,
        overrides: Mapping[str, int],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Begun:
        """Begin a session, with what its model's `begin` does where it has one.

        Raises:
            StaleEpochError: the session was here under this epoch or a later one.
            SessionAdmissionError: it does not fit.
            QueueFullError: too many steps wait.
            Exception: what the model raised; nothing of the session is left.
        """
        serves = self._model(model)
        self._require_new(session_id, epoch)
        first = getattr(serves.model, "begin", None)
        if first is None and (args or kwargs):
            found, todo = "its model takes nothing to begin with", "give its model a begin method"
            raise ServiceError(f"session {session_id!r}", found, todo)
        self._keep(session_id, serves, overrides, epoch, 0)
        self._turns.open(session_id, epoch)
        begun, output = False, None
        try:
            call = self._turns.enter(session_id, epoch)
            try:
                lease = self.manager.lease(session_id, begin=serves.spec, overrides=overrides)
                with lease as session:
                    begun = True
                    if first is not None:
                        with session.step():
                            output = first(Turn(call, self.manager, session), *args, **kwargs or {})
                self._save(call.lane, always=True)
            finally:
                self._turns.leave(call, done=True, counts=False)
        except BaseException:
            self._end(session_id, drop=begun)
            raise
        return Begun(output, self.facts())

    def step(
        self,
        session_id: str,
        epoch: int,
        key: str | None = None,
        order: Order | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Done:
        """Do a step when its turn comes.

        Args:
            key: names it for `cancel`.
            order: its place among those that were submitted; None takes it as it comes.

        Raises:
            StaleEpochError: the session is not here under this epoch.
            QueueFullError, StepOrderError, StepCancelledError: it did not run, or was undone.
            SessionStateLostError: the session is gone from the manager.
            Exception: what the model raised; the session is as it was before the step.
        """
        call = self._turns.enter(session_id, epoch, key, order)
        done, count = False, call.lane.done + 1
        try:
            kept = self._kept.get(session_id)
            if kept is None:
                raise StaleEpochError(session_id, self.name, epoch, None)
            with self.manager.lease(session_id) as session:
                with session.step():
                    turn = Turn(call, self.manager, session)
                    output = kept.serves.model.step(turn, *args, **kwargs or {})
                    call.close()
                done = True
            self._save(call.lane)
        except SessionStateLostError as error:
            if error.session_id != session_id or session_id in self.manager:
                raise  # the model's own affair
            self._departed[session_id] = (error.how, error.reason)
            self._end(session_id, drop=False)
            raise
        finally:
            self._turns.leave(call, done=done)
        return Done(output, count)

    def count(self, session_id: str, epoch: int) -> Done:
        """How many steps a session has done. Raises: StaleEpochError."""
        return Done(None, self._turns.lane(session_id, epoch).done)

    def cancel(self, session_id: str, epoch: int, key: str) -> Outcome:
        """See to it that a step does not count, if there is time; what became of it.

        Raises:
            StaleEpochError: the session is not here; the step has not run here.
        """
        return self._turns.cancel(session_id, epoch, key)

    def close(self, session_id: str, epoch: int) -> ReplicaFacts:
        """End a session: what waits is refused, what runs may end; the facts since.

        Refused under this epoch for good; nothing where it is not here.

        Raises:
            Exception: what the end of one of its objects raised; it is gone all the same.
        """
        self._refuse_up_to(session_id, epoch)
        with contextlib.suppress(StaleEpochError):
            self._turns.lane(session_id, epoch)
            self._end(session_id, drop=True)
        return self.facts()

    # -- moving ------------------------------------------------------------------------------------

    def freeze(self, session_id: str, epoch: int, wait_s: float) -> Saved:
        """Stop serving a session, between two steps, and return a snapshot of it.

        It stays, untouched, until `forget` or `thaw`.

        Raises:
            StaleEpochError: it is not here.
            SnapshotError: a step did not end within `wait_s`, or a value cannot be saved; it still
                has to be thawed.
            ParkError: a parked value cannot be read now.
        """
        lane = self._turns.freeze(session_id, epoch, wait_s)
        if lane is None:
            found = f"its step did not end within {wait_s} s"
            raise SnapshotError(f"session {session_id!r}", found, "wait longer")
        return Saved(epoch, lane.done, self.manager.to_bytes(session_id, wait_s=wait_s))

    def thaw(self, session_id: str, epoch: int, new_epoch: int) -> int:
        """Go on with a frozen session under another epoch; the steps it has done.

        Raises:
            StaleEpochError: it is not here.
        """
        return self._turns.thaw(session_id, epoch, new_epoch)

    def restore(
        self,
        session_id: str,
        epoch: int,
        model: str,
        overrides: Mapping[str, int],
        saved: Saved,
        begun: int = 0,
        rewound: int = 0,
    ) -> ReplicaFacts:
        """Take in a session with what a snapshot holds, as one that has done so many steps.

        Args:
            begun: what the directory knows of it, for one that has lost its books.
            rewound: the same.

        Raises:
            StaleEpochError: the session was here under this epoch or a later one.
            DamagedSnapshotError, IncompatibleSnapshotError, SessionAdmissionError: it is not taken.
        """
        serves = self._model(model)
        self._require_new(session_id, epoch)
        # Before the manager has it, so that what it says of its end is heard.
        self._keep(session_id, serves, overrides, begun, rewound)
        try:
            self.manager.restore(
                bytes(saved.data), serves.spec, session_id=session_id, devices=self._devices
            )
        except BaseException:
            self._end(session_id, drop=False)
            raise
        self._turns.open(session_id, epoch, saved.step)
        if self.saving is not None:
            self._put(session_id, self.saving, attrs.evolve(saved, epoch=epoch))
        return self.facts()

    def forget(self, session_id: str, epoch: int) -> ReplicaFacts:
        """Give up a session that is somewhere else now. Raises: as `close`."""
        return self.close(session_id, epoch)

    # -- snapshots ---------------------------------------------------------------------------------

    def _save(self, lane: Lane, *, always: bool = False) -> None:
        """Take a snapshot if one is due; the step that was done counts, whatever comes of it."""
        saving = self.saving
        if saving is None:
            return
        step = lane.done if always else lane.done + 1  # the one that runs is counted when it ends
        if not always and step % saving.every:
            return
        try:
            data = self.manager.to_bytes(lane.session_id, wait_s=0)
        except StatekitError as error:
            self._say_unsaved(lane.session_id, error)
        else:
            self._put(lane.session_id, saving, Saved(lane.epoch, step, data))

    def _put(self, session_id: str, saving: Saving, saved: Saved) -> None:
        try:
            saving.store.put(session_id, saved)
        except Exception as error:  # a store is the operator's; the state is whole without it
            self._say_unsaved(session_id, error)
            return
        kept = self._kept.get(session_id)
        if kept is not None:
            kept.saved_step, kept.saved_at, kept.unsaved = saved.step, time.monotonic(), ""

    def _say_unsaved(self, session_id: str, error: Exception) -> None:
        kept = self._kept.get(session_id)
        if kept is not None:
            kept.unsaved = str(error)
