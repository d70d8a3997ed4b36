"""Pending: a step that was submitted, and is on its way.

Owns its result and its end before its time. Not here: the way (`statekit.replicas.client`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from statekit.errors import (
    ReplicaDiedError,
    StaleEpochError,
    StepCancelledError,
    StepOrderError,
    StepUnknownError,
)
from statekit.replicas.client import Client, Known
from statekit.replicas.lane import Order, Outcome
from statekit.replicas.links import Answer
from statekit.replicas.reports import Place

__all__ = ["Pending"]


class Pending:
    """A step that was submitted. One thread at a time."""

    def __init__(
        self,
        client: Client,
        session_id: str,
        known: Known,
        key: str,
        order: Order,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        self.session_id = session_id
        self._client, self._known = client, known
        self._key, self._order = key, order
        self._args, self._kwargs = args, kwargs
        self._cancelled = self._settled = False
        self._output: Any = None
        self._error: Exception | None = None
        self._place = known.place
        self._answer: Answer | None = self._send(known.place)

    def _send(self, place: Place) -> Answer:
        if self._cancelled:
            raise StepCancelledError(self.session_id, "not run")
        self._place = place
        return self._client.link(place.owner).start(
            "step", self.session_id, place.epoch, self._key, self._order, self._args, self._kwargs
        )

    def done(self) -> bool:
        """Whether `result` returns at once, but for a session that has moved meanwhile."""
        return self._answer is None or self._answer.done()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the step; what its model returned, the same each time.

        Raises:
            TimeoutError: it has not ended within `timeout` seconds; ask again.
            StepCancelledError: it was cancelled; says whether it ran.
            StepOrderError: the step that was submitted before it did not run; nor did this one.
            Exception: as `Sessions.step` says.
        """
        if not self._settled:
            try:
                self._output = self._client.carried(
                    self.session_id, self._known, partial(self._wait, timeout),
                    self._place, self._order.number,
                )  # fmt: skip
            except _NotYetError:
                raise TimeoutError(f"no answer within {timeout} s") from None
            except StepUnknownError as error:
                self._error = error
            except Exception as error:
                due = error.due if isinstance(error, StepOrderError) else self._order.number
                self._known.go_back(self._order.line, due)
                self._error = error
            self._settled, self._answer = True, None
        if self._error is not None:
            raise self._error
        return self._output

    def _wait(self, timeout: float | None, place: Place) -> Any:
        answer = self._answer = self._answer or self._send(place)
        try:
            return answer.result(timeout)
        except TimeoutError as error:
            if not answer.done():
                raise _NotYetError from error
            raise
        except (StaleEpochError, ReplicaDiedError):
            self._answer = None  # to be sent again, if it may be
            raise

    def cancel(self) -> Outcome:
        """See to it that the step does not count, if there is time; what became of it.

        "not run": it waited, and will not run. "rolled back": it ran, and its session is as it was
        before it. "done": it was too late; `result` has its output. Waits for the end of a step
        that runs.

        Raises:
            Exception: its session has left its replica, or that has died, and `result` raises this.
        """
        link = self._client.link(self._place.owner)
        self._cancelled = True  # if its session moves now, it is not sent after it
        try:
            outcome: Outcome = link.call("cancel", self.session_id, self._place.epoch, self._key)
        except (StaleEpochError, ReplicaDiedError):
            try:
                self.result()
            except StepCancelledError:
                outcome = "not run"
            else:
                outcome = "done"
        if outcome != "done":
            self._known.go_back(self._order.line, self._order.number)
        return outcome


class _NotYetError(TimeoutError):
    """The answer is not there yet."""
