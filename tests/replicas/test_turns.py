"""Turns: order, bounds and ends of steps on one replica, whatever threads do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from statekit.errors import (
    QueueFullError,
    StaleEpochError,
    StepCancelledError,
    StepOrderError,
)
from statekit.replicas.lane import Call, Limits, Order
from statekit.replicas.turns import Turns


class Entering:
    """Enters in a thread of its own."""

    def __init__(self, turns: Turns, session_id: str, epoch: int, *args: Any) -> None:
        self.call: Call | None = None
        self.error: Exception | None = None
        self._args = turns, session_id, epoch, *args
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        turns, *args = self._args
        try:
            self.call = turns.enter(*args)
        except Exception as error:
            self.error = error

    def ended(self) -> Entering:
        self.thread.join(10)
        assert not self.thread.is_alive()
        return self


def until(claim: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not claim():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_steps_when_several_wait_then_in_the_order_in_which_they_came() -> None:
    """First come, first served, one at a time."""
    turns = Turns("a", Limits())
    for name in "xyz":
        turns.open(name, 1)
    first = turns.enter("x", 1)
    waiting = []
    for name in "zyx":
        waiting.append(Entering(turns, name, 1))
        until(lambda: turns.waiting == len(waiting))
    order = []
    turns.leave(first, done=True)
    for _ in waiting:
        until(lambda: turns.running == 1)
        running = next(one for one in waiting if one.ended().call is not None)
        assert running.call is not None
        order.append(running.call.lane.session_id)
        waiting.remove(running)
        if waiting:
            turns.leave(running.call, done=True)
            break
    assert order == ["z"]
    for one in waiting:
        call = one.ended().call
        assert call is not None
        order.append(call.lane.session_id)
        turns.leave(call, done=True)
    assert order == ["z", "y", "x"]


def test_steps_when_parallel_is_two_then_one_session_still_has_one_at_a_time() -> None:
    """Two sessions side by side; the second step of one waits, that of another does not."""
    turns = Turns("a", Limits(parallel=2))
    for name in "xy":
        turns.open(name, 1)
    first = turns.enter("x", 1)
    second = Entering(turns, "x", 1)
    until(lambda: turns.waiting == 1)
    other = turns.enter("y", 1)
    assert turns.running == 2
    turns.leave(first, done=True)
    call = second.ended().call
    assert call is not None
    turns.leave(call, done=True)
    turns.leave(other, done=True)
    assert [lane.done for lane in turns.lanes()] == [2, 1]


def test_numbered_steps_when_they_come_out_of_order_then_they_run_in_order() -> None:
    """A later one waits for the one before it to come."""
    turns = Turns("a", Limits(order_wait_s=10))
    turns.open("x", 1)
    late = Entering(turns, "x", 1, None, Order(1, "client", 0))
    until(lambda: turns.waiting == 1)
    first = turns.enter("x", 1, None, Order(0, "client", 0))
    turns.leave(first, done=True)
    call = late.ended().call
    assert call is not None
    assert call.number == 1
    turns.leave(call, done=True)


def test_numbered_step_when_the_one_before_never_comes_then_refused() -> None:
    """It waits no longer than it is told to; the next one that is due runs."""
    turns = Turns("a", Limits(order_wait_s=0.02))
    turns.open("x", 1)
    with pytest.raises(StepOrderError) as refused:
        turns.enter("x", 1, None, Order(3, "client", 0))
    assert (refused.value.number, refused.value.due) == (3, 0)
    turns.leave(turns.enter("x", 1, None, Order(0, "client", 0)), done=True)


def test_numbered_step_when_it_was_done_or_is_here_then_refused() -> None:
    """No number runs twice: not after it was done, not while it runs, not while it waits."""
    turns = Turns("a", Limits())
    turns.open("x", 1)
    turns.leave(turns.enter("x", 1, None, Order(0, "client", 0)), done=True)
    running = turns.enter("x", 1, None, Order(1, "client", 0))
    waiting = Entering(turns, "x", 1, None, Order(2, "client", 0))
    until(lambda: turns.waiting == 1)
    for number in (0, 1, 2):
        with pytest.raises(StepOrderError):
            turns.enter("x", 1, None, Order(number, "client", 0))
    turns.leave(running, done=True)
    call = waiting.ended().call
    assert call is not None
    turns.leave(call, done=True)


def test_step_when_another_epoch_or_no_lane_then_refused() -> None:
    """Older, newer, unknown: refused, and the present epoch is told."""
    turns = Turns("a", Limits())
    turns.open("x", 5)
    for epoch in (4, 6):
        with pytest.raises(StaleEpochError) as stale:
            turns.enter("x", epoch)
        assert stale.value.present == 5
    with pytest.raises(StaleEpochError) as stale:
        turns.enter("y", 5)
    assert stale.value.present is None
    assert turns.running == turns.waiting == 0


def test_freeze_when_steps_run_and_wait_then_those_that_wait_are_refused() -> None:
    """It returns when the one that runs has ended; none begins until it is thawed, elsewhere in
    time."""
    turns = Turns("a", Limits())
    turns.open("x", 1)
    running = turns.enter("x", 1)
    waiting = Entering(turns, "x", 1)
    until(lambda: turns.waiting == 1)
    frozen: list[Any] = []
    thread = threading.Thread(target=lambda: frozen.append(turns.freeze("x", 1, 10)))
    thread.start()
    assert isinstance(waiting.ended().error, StaleEpochError)
    assert not frozen
    with pytest.raises(StaleEpochError):
        turns.enter("x", 1)
    turns.leave(running, done=True)
    thread.join(10)
    assert frozen[0].done == 1
    assert turns.thaw("x", 1, 7) == 1
    with pytest.raises(StaleEpochError):
        turns.enter("x", 1)
    turns.leave(turns.enter("x", 7), done=True)


def test_freeze_when_the_step_does_not_end_then_none() -> None:
    """It waits no longer than it is told to, and stays frozen until it is thawed."""
    turns = Turns("a", Limits())
    turns.open("x", 1)
    running = turns.enter("x", 1)
    assert turns.freeze("x", 1, 0.02) is None
    turns.thaw("x", 1, 2)
    turns.leave(running, done=True)
    turns.leave(turns.enter("x", 2), done=True)


def test_queue_when_full_then_refused_and_others_undisturbed() -> None:
    """The bound of a session, then that of the replica."""
    turns = Turns("a", Limits(queue=2, queue_per_session=1))
    for name in "xyz":
        turns.open(name, 1)
    running = turns.enter("x", 1)
    waiting = [Entering(turns, "x", 1)]
    until(lambda: turns.waiting == 1)
    with pytest.raises(QueueFullError, match="1 steps wait for its session"):
        turns.enter("x", 1)
    waiting.append(Entering(turns, "y", 1))
    until(lambda: turns.waiting == 2)
    with pytest.raises(QueueFullError, match="2 steps wait for its replica"):
        turns.enter("z", 1)
    turns.leave(running, done=True)
    for one in waiting:
        call = one.ended().call
        assert call is not None
        turns.leave(call, done=True)


def test_cancel_when_it_comes_before_the_step_then_the_step_does_not_run() -> None:
    """A cancel may overtake what it cancels."""
    turns = Turns("a", Limits())
    turns.open("x", 1)
    assert turns.cancel("x", 1, "key") == "not run"
    with pytest.raises(StepCancelledError):
        turns.enter("x", 1, "key")
    turns.leave(turns.enter("x", 1, "other"), done=True)
    assert turns.cancel("x", 1, "other") == "done"


def test_cancel_when_the_step_is_about_to_end_then_done() -> None:
    """Once a step is closed it counts, and a cancel waits for its end to say so."""
    turns = Turns("a", Limits())
    turns.open("x", 1)
    call = turns.enter("x", 1, "key")
    call.close()
    told: list[str] = []
    thread = threading.Thread(target=lambda: told.append(turns.cancel("x", 1, "key")))
    thread.start()
    until(lambda: call.ended is not None)
    assert not told
    turns.leave(call, done=True)
    thread.join(10)
    assert told == ["done"]


def test_cancel_when_the_step_runs_then_it_is_told_and_rolled_back() -> None:
    """The step learns of it at its next check, or at its end at the latest."""
    turns = Turns("a", Limits())
    turns.open("x", 1)
    call = turns.enter("x", 1, "key")
    told: list[str] = []
    thread = threading.Thread(target=lambda: told.append(turns.cancel("x", 1, "key")))
    thread.start()
    until(lambda: call.cancelled)
    for ask in (call.check, call.close):
        with pytest.raises(StepCancelledError):
            ask()
    turns.leave(call, done=False)
    thread.join(10)
    assert told == ["rolled back"]
    assert turns.lanes()[0].done == 0


def test_line_when_one_step_did_not_run_then_none_after_it_does_whenever_it_comes() -> None:
    """Refused for want of room, failed, cancelled: those submitted after it are refused at once,
    also when somebody has begun another line meanwhile and their number would be due."""
    turns = Turns("a", Limits(queue=1, order_wait_s=10))
    turns.open("x", 1)
    running = turns.enter("x", 1, None, Order(0, "client", 0))
    waiting = Entering(turns, "x", 1, None, Order(1, "client", 0))
    until(lambda: turns.waiting == 1)
    with pytest.raises(QueueFullError):
        turns.enter("x", 1, None, Order(2, "client", 0))
    turns.leave(running, done=True)
    call = waiting.ended().call
    assert call is not None
    with pytest.raises(StepOrderError, match="did not run"):
        turns.enter("x", 1, None, Order(3, "client", 0))
    turns.leave(call, done=True)
    turns.leave(turns.enter("x", 1, None, Order(2, "client", 1)), done=True)
    with pytest.raises(StepOrderError, match="instead"):
        turns.enter("x", 1, None, Order(3, "client", 0))
    turns.leave(turns.enter("x", 1, None, Order(3, "client", 1)), done=False)
    with pytest.raises(StepOrderError, match="did not run"):
        turns.enter("x", 1, None, Order(4, "client", 1))


def test_line_when_another_begins_then_what_waits_of_it_is_refused() -> None:
    """A step that waits for one that will not come does not run after another client's."""
    turns = Turns("a", Limits(order_wait_s=10))
    turns.open("x", 1)
    late = Entering(turns, "x", 1, None, Order(1, "client", 0))
    until(lambda: turns.waiting == 1)
    turns.leave(turns.enter("x", 1, None, Order(0, "client", 1)), done=True)
    assert isinstance(late.ended().error, StepOrderError)


def test_line_when_its_first_step_comes_late_then_it_runs_in_order_all_the_same() -> None:
    """Nobody knows which step of a new line arrives first; an old one is told by its number."""
    turns = Turns("a", Limits(order_wait_s=10))
    turns.open("x", 1)
    turns.leave(turns.enter("x", 1, None, Order(0, "client", 4)), done=False)
    late = Entering(turns, "x", 1, None, Order(1, "client", 5))
    until(lambda: turns.waiting == 1)
    with pytest.raises(StepOrderError, match="instead"):
        turns.enter("x", 1, None, Order(0, "client", 4))
    turns.leave(turns.enter("x", 1, None, Order(0, "client", 5)), done=True)
    call = late.ended().call
    assert call is not None
    turns.leave(call, done=True)


def test_lines_when_two_clients_submit_then_the_last_to_come_counts() -> None:
    """A session belongs to one client at a time: the other's line is over, its next one is not."""
    turns = Turns("a", Limits())
    turns.open("x", 1)
    turns.leave(turns.enter("x", 1, None, Order(0, "one", 0)), done=True)
    turns.leave(turns.enter("x", 1, None, Order(1, "two", 7)), done=True)
    with pytest.raises(StepOrderError, match="instead"):
        turns.enter("x", 1, None, Order(2, "one", 0))
    turns.leave(turns.enter("x", 1, None, Order(2, "one", 1)), done=True)
    with pytest.raises(StepOrderError, match="instead"):
        turns.enter("x", 1, None, Order(3, "two", 7))
