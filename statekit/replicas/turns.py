"""Turns: which step of which session runs next on one replica, and what waits.

Owns the queue: its bounds, the order within a session, what becomes of a step that is cancelled,
and the moment between two steps at which a session leaves. Not here: what a step does
(`statekit.replicas.replica`).

    U1  A session is in one step at a time, a replica in `parallel` of them.
    U2  What is refused or cancelled while it waits has not run, and its error says so.
    U3  A numbered step runs when exactly so many were done before it, or is refused; when one does
        not run, those that were submitted after it do not either, whenever they come.
    U4  After `freeze` no step of the session runs, and none is under way, until `thaw`.
    U5  A call under another epoch than the session's is refused.

Thread-safe: whoever calls `enter` waits in its own thread.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from statekit.errors import (
    QueueFullError,
    ServiceError,
    StaleEpochError,
    StepCancelledError,
    StepOrderError,
)
from statekit.replicas.lane import Call, Lane, Limits, Order, Outcome

__all__ = ["Turns"]

_REMEMBERED = 256
"""Keys of calls that have ended, or were cancelled before they came."""
_CLIENTS = 64
"""Clients of one session whose lines are remembered."""


class Turns:
    """The queue of one replica."""

    def __init__(self, replica: str, limits: Limits) -> None:
        self.replica, self.limits = replica, limits
        self.lock = threading.Lock()
        self._idle = threading.Condition(self.lock)
        self._lanes: dict[str, Lane] = {}
        self._waiting: list[Call] = []
        self._running = 0
        self._done = 0
        self._past: OrderedDict[str, Outcome] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many steps wait."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many steps run."""
        return self._running

    @property
    def done(self) -> int:
        """How many steps were done, also of sessions that have left."""
        return self._done

    def lanes(self) -> list[Lane]:
        """The sessions that are here, frozen ones too."""
        with self.lock:
            return list(self._lanes.values())

    def has(self, session_id: str) -> bool:
        """Whether the session is here."""
        return session_id in self._lanes

    def open(self, session_id: str, epoch: int, done: int = 0) -> Lane:
        """The session is here from now on, in place of what was here under that id."""
        with self.lock:
            self._shut(session_id)
            lane = self._lanes[session_id] = Lane(session_id, epoch, done)
            return lane

    def shut(self, session_id: str) -> None:
        """The session is not here any more; what waits for it is refused."""
        with self.lock:
            self._shut(session_id)

    def _shut(self, session_id: str) -> None:
        lane = self._lanes.pop(session_id, None)
        if lane is not None:
            lane.frozen = True
            for call in tuple(lane.waiting):
                self._refuse(call, StaleEpochError(session_id, self.replica, lane.epoch, None))

    def lane(self, session_id: str, epoch: int) -> Lane:
        """The session's place here. Raises: StaleEpochError."""
        lane = self._lanes.get(session_id)
        if lane is None or lane.epoch != epoch:
            present = None if lane is None else lane.epoch
            raise StaleEpochError(session_id, self.replica, epoch, present)
        return lane

    # -- a step ------------------------------------------------------------------------------------

    def enter(
        self, session_id: str, epoch: int, key: str | None = None, order: Order | None = None
    ) -> Call:
        """Return when it is the step's turn; end it with `leave`.

        Raises:
            StaleEpochError: the session is not here, or leaves while the step waits.
            QueueFullError: too many wait already.
            StepOrderError: it is not, or will not be, the next step of its session.
            StepCancelledError: it was cancelled before its turn.
        """
        with self.lock:
            lane = self.lane(session_id, epoch)
            if lane.frozen:
                raise StaleEpochError(session_id, self.replica, epoch, None)
            call = Call(self.lock, lane, key, order)
            if order is not None:
                self._follow(lane, order)
            if key is not None and self._past.pop(key, None) is not None:
                self._break(call, "the one before it was cancelled")
                raise StepCancelledError(session_id, "not run")
            if self._may_start(call):
                self._start(call)
                return call
            self._require_place(call)
            call.go = threading.Event()
            lane.waiting.append(call)
            self._waiting.append(call)
        while not call.go.wait(None if order is None else self.limits.order_wait_s):
            with self.lock:
                if order is not None and self._is_stranded(call):
                    why = f"the one before it did not come within {self.limits.order_wait_s} s"
                    self._refuse(call, StepOrderError(session_id, order.number, lane.done, why))
                    self._break(call, why)
        if call.error is not None:
            raise call.error
        return call

    def leave(self, call: Call, *, done: bool, counts: bool = True) -> None:
        """The step has ended; unless it is `done`, its session is as it was before it.

        Args:
            counts: whether it is a step; the beginning of a session is none.
        """
        with self.lock:
            lane = call.lane
            lane.running = None
            self._running -= 1
            call.outcome = "done" if done else "rolled back"
            if call.key is not None:
                self._remember(call.key, call.outcome)
            if call.ended is not None:
                call.ended.set()
            if done:
                lane.done += counts
                self._done += counts
            else:
                self._break(call, "the one before it did not succeed")
            if lane.frozen:
                self._idle.notify_all()
            if self._waiting:
                self._wake()

    def cancel(self, session_id: str, epoch: int, key: str) -> Outcome:
        """See to it that the step does not count, if there is time; what became of it.

        Waits for the end of one that runs: it is undone then, unless it was too late for that.

        Raises:
            StaleEpochError: the session is not here; the step does not run here any more.
        """
        with self.lock:
            lane = self.lane(session_id, epoch)
            for call in lane.waiting:
                if call.key == key:
                    self._refuse(call, StepCancelledError(session_id, "not run"))
                    self._break(call, "the one before it was cancelled")
                    return "not run"
            running = lane.running
            if running is None or running.key != key:
                return self._past.get(key) or self._remember(key, "not run")  # to come yet
            if running.outcome is None:
                running.cancelled = True
            running.ended = running.ended or threading.Event()
        running.ended.wait()
        assert running.outcome is not None
        return running.outcome

    # -- leaving -----------------------------------------------------------------------------------

    def freeze(self, session_id: str, epoch: int, wait_s: float) -> Lane | None:
        """Stop between two steps; None where the one under way did not end within `wait_s`.

        What waits is refused: it has not run, and may run where the session goes.

        Raises:
            StaleEpochError: the session is not here.
        """
        until = time.monotonic() + wait_s
        with self.lock:
            lane = self.lane(session_id, epoch)
            lane.frozen = True
            for call in tuple(lane.waiting):
                self._refuse(call, StaleEpochError(session_id, self.replica, epoch, None))
            while lane.running is not None:
                left = until - time.monotonic()
                if left <= 0:
                    return None
                self._idle.wait(left)
            return lane

    def thaw(self, session_id: str, epoch: int, new_epoch: int) -> int:
        """Go on with a session that stays after all, under another epoch; the steps it has done.

        Raises:
            StaleEpochError: the session is not here.
        """
        with self.lock:
            lane = self.lane(session_id, epoch)
            lane.epoch, lane.frozen = new_epoch, False
            return lane.done

    # -- with the lock held ------------------------------------------------------------------------

    def _may_start(self, call: Call) -> bool:
        lane = call.lane
        return (
            self._running < self.limits.parallel
            and lane.running is None
            and (call.number is None or call.number == lane.done)
        )

    def _start(self, call: Call) -> None:
        call.lane.running = call
        self._running += 1

    def _wake(self) -> None:
        for call in tuple(self._waiting):
            if self._running >= self.limits.parallel:
                return
            if self._may_start(call):
                self._take_out(call)
                self._start(call)
                assert call.go is not None
                call.go.set()

    def _take_out(self, call: Call) -> None:
        self._waiting.remove(call)
        call.lane.waiting.remove(call)

    def _refuse(self, call: Call, error: ServiceError) -> None:
        self._take_out(call)
        call.error = error
        assert call.go is not None
        call.go.set()

    def _break(self, call: Call, why: str) -> None:
        """A step of a line did not run: those after it do not, here or still to come."""
        lane, number = call.lane, call.number
        if number is None or call.line != lane.line:
            return
        lane.broken_at = number if lane.broken_at is None else min(number, lane.broken_at)
        for other in tuple(lane.waiting):
            if other.line == lane.line and (other.number or 0) > number:
                self._refuse_order(other, why)

    def _refuse_order(self, call: Call, why: str) -> None:
        lane = call.lane
        self._refuse(call, StepOrderError(lane.session_id, call.number or 0, lane.done, why))

    def _follow(self, lane: Lane, order: Order) -> None:
        """Refuse a numbered step that is out of line; what another line has left ends with it."""
        number, line, why = order.number, (order.client, order.line), ""
        if order.line <= lane.over.get(order.client, -1):
            why = "others were submitted instead"
        elif lane.line != line:
            self._begin_line(lane, line)
        elif lane.broken_at is not None and number > lane.broken_at:
            why = "the one before it did not run"
        running = lane.running is not None and lane.running.number == number
        if number < lane.done or running or any(one.number == number for one in lane.waiting):
            why = why or "one of this number has come before"
        if why:
            raise StepOrderError(lane.session_id, number, lane.done, why)

    def _begin_line(self, lane: Lane, line: tuple[str, int]) -> None:
        """From now on these steps are taken: those of any other line are over."""
        for client, last in (lane.line or line, (line[0], line[1] - 1)):
            if (client, last) != line:
                lane.over[client] = max(last, lane.over.pop(client, -1))
        while len(lane.over) > _CLIENTS:
            del lane.over[next(iter(lane.over))]
        lane.line, lane.broken_at = line, None
        for call in tuple(lane.waiting):
            if call.line not in (None, line):
                self._refuse_order(call, "others were submitted instead")

    def _require_place(self, call: Call) -> None:
        lane = call.lane
        for of, waiting, limit in (
            ("session", len(lane.waiting), self.limits.queue_per_session),
            ("replica", len(self._waiting), self.limits.queue),
        ):
            if waiting >= limit:
                self._break(call, "the one before it found the queue full")
                raise QueueFullError(lane.session_id, of, waiting, limit)

    def _is_stranded(self, call: Call) -> bool:
        """Whether what must run before a numbered step is not here."""
        if call.error is not None or call not in self._waiting or call.number is None:
            return False
        lane = call.lane
        if lane.running is not None or call.number == lane.done:
            return False
        return all(one.number != lane.done for one in lane.waiting)

    def _remember(self, key: str, outcome: Outcome) -> Outcome:
        self._past[key] = outcome
        while len(self._past) > _REMEMBERED:
            self._past.popitem(last=False)
        return outcome
