"""Council: one meeting of all ranks, in which they hear each other and agree on one outcome.

Owns the order of things in a meeting: the calls are compared, everybody's word is heard, the
outcome that follows is written where all find it. Not here: what is said, and what follows from it
(`statekit.distributed.deciding`).

    C1  An outcome is acted on only after it is in the register, so that a rank which did not hear
        the others finds it there, or nobody acts.
    C2  After a meeting that failed, or ranks that were called differently, the council is closed:
        every further call is refused with the reason. A rank that found the outcome of a meeting in
        the register alone closes with the next meeting, as those do that heard it.
    C3  The last meeting of a call has an outcome, so that no rank is done where another one fails.
    C4  A meeting ends within `timeout_s` and a second; where the host of the store hangs as well,
        within twice that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import attrs

from statekit import errors
from statekit.distributed.calls import Calls, first_difference
from statekit.distributed.exchange import Exchange, ExchangeError
from statekit.distributed.register import Register, StoreError
from statekit.errors import GroupError, RankLostError, RanksDifferError, StatekitError

__all__ = ["Council", "Heard"]

Body = dict[str, Any]
"""What one rank says in a meeting: plain data."""


@attrs.frozen
class Heard:
    """What a meeting has come to.

    `bodies` is by rank, and empty where the register alone told this rank the outcome; without an
    outcome nothing was decided.
    """

    bodies: Sequence[Body] = ()
    outcome: Body | None = None


def _nothing(bodies: Sequence[Body]) -> Body | None:
    return None


class Council:
    """The meetings of one group."""

    def __init__(self, exchange: Exchange, register: Register, calls: Calls) -> None:
        self._exchange = exchange
        self._register = register
        self._calls = calls
        self._closed: Callable[[], GroupError] | None = None
        self._doomed: tuple[Sequence[int], str] | None = None
        self.meetings = 0
        exchange.given_up = register.has_failed

    def close(self) -> None:
        """Decide no more on this rank."""
        todo = "make a new group on all ranks"
        self._closed = partial(GroupError, "a call", "the group was closed on this rank", todo)

    def require_open(self) -> None:
        """Refuse to go on after a failure.

        Raises:
            GroupError: as the failure did.
        """
        if self._closed is not None:
            raise self._closed()

    def meet(
        self,
        topic: str,
        body: Body,
        decide: Callable[[Sequence[Body]], Body | None] = _nothing,
    ) -> Heard:
        """Say `body`, hear all ranks, and agree on what `decide` makes of it.

        `decide` is the same pure function on all ranks. What it raises is an outcome too, which all
        ranks raise. Only a meeting after which the same call meets again may have none.

        Raises:
            RankLostError: a rank did not answer; nothing was decided.
            RanksDifferError: the ranks were not called alike; nothing was decided.
        """
        self.require_open()
        call = self._calls.last
        if self._doomed is not None:
            raise self._lost(call, *self._doomed)
        self.meetings += 1
        head = [topic, self._calls.digest()]
        try:
            said = self._exchange.gather(json.dumps([head, body]).encode())
        except ExchangeError as error:
            return Heard((), self._outcome_nevertheless(call, error))
        except BaseException:  # half a meeting: this rank is out of step
            self._give_up(call, "it was interrupted")
            raise
        words = [json.loads(one) for one in said]
        if any(one[0] != head for one in words):
            raise self._differ(words)
        self._calls.agreed()
        bodies = [one[1] for one in words]
        raised: StatekitError | None = None
        try:
            mine = decide(bodies)
        except StatekitError as error:  # which all ranks must come to
            mine, raised = {"raised": [type(error).__name__, *error.args]}, error
        if mine is None:
            return Heard(bodies)
        try:
            outcome = self._register.settle(self.meetings, mine)
        except StoreError as error:
            self._give_up(call, str(error))
            raise self._lost(call, [], f"{error}, so nobody can tell what was decided") from error
        if outcome is None:
            self._give_up(call, "another rank did not hear all of them")
            raise self._lost(call, self._register.unheard(), "another rank has given up")
        if "raised" in outcome:
            raise raised or _error(outcome)
        return Heard(bodies, outcome)

    def fail(self, found: str, error: BaseException) -> GroupError:
        """The error for what this rank alone could not carry out; nothing is decided any more."""
        call = self._calls.last
        self._give_up(call, found)
        self._closed = partial(GroupError, call, found, _GO_ON)
        wrong = self._closed()
        wrong.__cause__ = error
        return wrong

    def _outcome_nevertheless(self, call: str, error: ExchangeError) -> Body:
        """What others have heard and written; else the error for a rank that is lost."""
        try:
            outcome: Body | None = self._register.give_up(self.meetings)
        except StoreError as gone:
            found = f"{error}; {gone}, so nobody can tell what was decided"
            raise self._lost(call, [], found) from error
        missing = self._register.unheard()
        if outcome is None:
            raise self._lost(call, missing, str(error)) from error
        # The others go on until they meet again, so this rank does, too.
        self._doomed = missing, str(error)
        if "raised" in outcome:
            raise _error(outcome)
        return outcome

    def _differ(self, words: Sequence[Any]) -> RanksDifferError:
        """The error for ranks that were not called alike; all of them come here, and say how."""
        try:
            said = self._exchange.gather(json.dumps(self._calls.told()).encode())
            found = first_difference([json.loads(one) for one in said])
        except ExchangeError as error:
            topics = sorted({str(one[0][0]) for one in words})
            found = f"they met about {' and '.join(topics)} ({error})"
        self._give_up(self._calls.last, found)
        self._closed = partial(RanksDifferError, found, _SAME_CALLS)
        return RanksDifferError(found, _SAME_CALLS)

    def _give_up(self, call: str, found: str) -> None:
        with suppress(StoreError):  # else the others find no store either
            self._register.give_up(self.meetings + 1)
        self._closed = partial(RankLostError, call, (), found)

    def _lost(self, call: str, ranks: Sequence[int], found: str) -> RankLostError:
        self._closed = partial(RankLostError, call, tuple(ranks), found)
        return RankLostError(call, ranks, found)


def _error(outcome: Body) -> StatekitError:
    """What another rank has raised, and written."""
    name, *args = outcome["raised"]
    error: StatekitError = getattr(errors, name)(*args)
    return error


_GO_ON = "end the processes of this model, or go on with those that live by survivors(group)"
_SAME_CALLS = "call every rank alike and in the same order, from one thread; then begin a new group"
