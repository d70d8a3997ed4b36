"""Recorder: looks at the sessions of managers after each of their steps.

Owns when it looks: at the end of an outermost `step()`, of a lease, or, where a session is used
with neither, at the next look-up of it (which is when the step before has ended), and before it is
dropped or leaves the table. And how it is told: by events, by visits (`SessionState.visitors`), and
by standing in for two methods of a manager, so that without a recorder nothing is any slower.

    R1  Nothing that a recorder does or fails to do changes what a session holds or a caller gets.
    R2  It keeps no session and no value of one alive.
    R3  Its memory is bounded, however many steps and sessions there are: of sessions that are gone,
        those are let go of in which no value held more, or was otherwise, than in others.

Thread-safe; looks at different sessions wait for each other only while numbers are written down.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, ref

from statekit.events import Created, Departed, Event, Leased
from statekit.measure.crowd import Crowd
from statekit.measure.hardware import hardware, today
from statekit.measure.log import SessionLog
from statekit.measure.recording import Recording
from statekit.measure.standing_in import stand_in
from statekit.measure.thinning import Hall
from statekit.measure.visitor import Visitor
from statekit.session import SessionState
from statekit.spec import ModelSpec
from statekit.table import key_of

if TYPE_CHECKING:
    from statekit.manager import SessionStateManager

__all__ = ["Recorder"]

SESSIONS = 64
"""So many sessions that are gone are told of, and all that live."""

_POINTS, _FEW_POINTS, _IN_FULL = 128, 16, 16
"""Points of a curve at least, for the first sessions and for later ones, and how many are first."""

_MOST_TROUBLES = 20


class Recorder:
    """What is being measured; make one with `statekit.measure.record`.

    Args:
        told: called after each step, with nothing; for who writes the recording down.
    """

    def __init__(self, told: Callable[[], None] | None = None) -> None:
        self._told = told
        self._lock = threading.Lock()
        self._watches: WeakKeyDictionary[SessionState, Visitor] = WeakKeyDictionary()
        self._by_id: dict[tuple[int, str], ref[SessionState]] = {}
        self._logs: dict[SessionLog, None] = {}  # of sessions that live
        self._hall = Hall(SESSIONS)
        self._begun = 0
        self._specs: dict[str, ModelSpec] = {}
        self._crowd = Crowd()
        self._managers: WeakSet[SessionStateManager] = WeakSet()
        self._manager_count = 0
        self._troubles: dict[str, None] = {}
        self._undo: list[Callable[[], None]] = []
        self.open = True
        """Whether it goes on."""

    # -- what it is told of ------------------------------------------------------------------------

    def attend(self, manager: SessionStateManager) -> None:
        """Record the sessions of `manager`, those that live already too."""
        with self._lock:
            if not self.open or manager in self._managers:
                return
            self._managers.add(manager)
            self._manager_count += 1
        weakly = ref(manager)
        self._undo.append(manager.subscribe(partial(self._on_event, weakly)))
        self._undo.append(stand_in(manager, "get_or_create_session", self._finding))
        self._undo.append(stand_in(manager, "drop_session", self._dropping))
        for session in manager._table.live():
            self._watch(session, manager.model_device)

    def attend_all(self, managers: Iterable[SessionStateManager | None]) -> None:
        """Record the sessions of these managers, as far as they live."""
        for manager in managers:
            if manager is not None:
                self.attend(manager)

    def close(self) -> None:
        """Look a last time at those whose last step has no other end, and stop recording."""
        with self._lock:
            if not self.open:
                return
            watches = list(self._watches.items())
        for session, watch in watches:
            watch.close(session)
        with self._lock:
            self.open = False
        while self._undo:
            self._undo.pop()()

    def _finding(
        self, manager: SessionStateManager, method: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        session = method(*args, **kwargs)
        if self.open:
            self.safely(lambda: self._watch(session, manager.model_device).looked_up(session))
        return session

    def _dropping(
        self, manager: SessionStateManager, method: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        if self.open:
            session_id = args[0] if args else kwargs.get("session_id")
            self.safely(partial(self._leaves, manager, session_id))
        return method(*args, **kwargs)

    def _on_event(self, manager: ref[SessionStateManager], event: Event) -> None:
        here = manager()
        if here is not None and self.open and isinstance(event, (Created, Leased, Departed)):
            self.safely(partial(self._heed, here, event))

    def _heed(self, manager: SessionStateManager, event: Event) -> None:
        if isinstance(event, Departed):
            self._leaves(manager, event.session_id)
            self._departed(manager, event)
            return
        record = manager._table.holds(event.session_id)
        session = None if record is None else record.session
        if session is not None:
            watch = self._watch(session, manager.model_device)
            if isinstance(event, Leased):
                watch.leased(session)

    def _leaves(self, manager: SessionStateManager, session_id: object) -> None:
        """A session is about to be emptied, or to be let go of."""
        found = self._by_id.get((id(manager._table), key_of(session_id)), lambda: None)()
        watch = None if found is None else self._watches.get(found)
        if found is not None and watch is not None:
            watch.leaves(found)

    def _departed(self, manager: SessionStateManager, event: Departed) -> None:
        """A session is out of the table; one that was evicted may come back."""
        found = self._by_id.pop((id(manager._table), event.session_id), lambda: None)()
        watch = None if found is None else self._watches.get(found)
        if watch is None:
            return
        with self._lock:
            self._crowd.leaves(watch.log)
            if event.how != "evicted":
                self._retire(watch.log)

    def _retire(self, log: SessionLog) -> None:
        """Its session is gone for good; call with the lock held."""
        if log in self._logs:
            del self._logs[log]
            self._crowd.leaves(log)
            self._hall.take(log)

    def _sweep(self) -> None:
        """Retire the logs of sessions that went without a word; call with the lock held."""
        alive = {watch.log for watch in self._watches.values()}
        for log in [log for log in self._logs if log not in alive]:
            self._retire(log)

    # -- what comes of it --------------------------------------------------------------------------

    def recording(self) -> Recording:
        """What has been measured until now."""
        with self._lock:
            logs = [*self._hall.kept, *(log for log in self._logs if log.steps)]
        sessions = []
        for log in sorted(logs, key=lambda log: log.number):
            with self._lock:  # for one at a time: who serves waits for it
                sessions.append(log.measured())
        with self._lock:
            together = self._crowd.most()
            specs, troubles = dict(self._specs), tuple(self._troubles)
            managers, left_out = self._manager_count, self._hall.left_out
        return Recording(
            specs=specs,
            sessions=tuple(sessions),
            left_out=left_out,
            together=together,
            managers=managers,
            hardware=hardware({one for log in sessions for one in log.peak_by_device}),
            date=today(),
            troubles=troubles,
        )

    def begin_anew(self) -> None:
        """Forget all that was measured: this is another process now, which goes on by itself."""
        self._lock = threading.Lock()
        self._logs, self._hall, self._crowd = {}, Hall(SESSIONS), Crowd()
        old = list(self._watches.items())
        self._watches = WeakKeyDictionary()
        for session, watch in old:  # without its lock: there is one thread, and some other had it
            session.visitors = [one for one in session.visitors if one is not watch]
            self._watch_in(session, watch.table(), watch.model_device)

    def _watch(self, session: SessionState, model_device: str) -> Visitor:
        house = None if session.record is None else session.record._house
        table = None if house is None else house()
        watch = self._watch_in(session, table, model_device)
        watch.come_along(session)
        self._by_id[id(table), session.session_id] = ref(session)
        return watch

    def _watch_in(self, session: SessionState, table: Any, model_device: str) -> Visitor:
        with self._lock:
            watch = self._watches.get(session)
            if watch is None:
                self._begun += 1
                if self._begun % SESSIONS == 0:
                    self._sweep()
                points = _POINTS if self._begun <= _IN_FULL else _FEW_POINTS
                log = SessionLog(session.session_id, os.getpid(), model_device, points, self._begun)
                watch = self._watches[session] = Visitor(self, log, table, model_device)
                self._logs[log] = None
                session.visitors.append(watch)
                if session.record is not None and session.record.leases:
                    watch.leased(session)
        return watch

    def note(self, session: SessionState, log: SessionLog) -> None:
        """Write down beside the steps what the session's adapters brought; with the lock held."""
        specs = session.adopted.specs
        if len(specs) != len(log.models):
            log.models = tuple(spec.model for spec in specs)
            log.forget_before()
            for spec in specs:
                self._specs.setdefault(spec.model, spec)
        if session.parameters:
            log.parameters = session.parameters
        if session.record is not None and session.record.overrides:
            log.overrides = dict(session.record.overrides)

    def write_down(self, log: SessionLog, entry: Callable[[], None]) -> None:
        """Carry out `entry`, which changes a log, and tell who waits for that."""
        with self._lock:
            if not self.open:
                return
            entry()
            self._crowd.holds(log, log.models[:1], log.now)
        if self._told is not None:
            self._told()

    def safely(self, work: Callable[[], object]) -> None:
        """Do `work`; what goes wrong is told in the recording, not to the one who serves."""
        try:
            work()
        except Exception as error:
            self.trouble(error)

    def trouble(self, error: Exception) -> None:
        """Say in the recording that something could not be measured."""
        with self._lock:
            if len(self._troubles) < _MOST_TROUBLES:
                self._troubles[f"{type(error).__name__}: {error}"] = None
