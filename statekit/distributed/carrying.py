"""Carrying: what a plan of the group becomes on all ranks at once.

Owns the two phases of it: each rank copies what is to be parked and says whether it could; what one
could not is left in place by all. Evictions and releases cannot fail, and need no vote. In the same
meeting ranks find out whether they planned the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from statekit.accounting import merge_bytes
from statekit.distributed.council import Council
from statekit.distributed.hands import Batch, Hands, Prepared, batches_of
from statekit.distributed.table import GroupTable
from statekit.errors import PolicyError, RanksDifferError, StatekitError
from statekit.pressure.plan import Plan

__all__ = ["Carrying", "Course", "Weigh"]

Weigh = Callable[[Plan], dict[str, Any] | None]
"""What a call comes to with a plan, where that is not to be carried out."""


@attrs.define
class Course:
    """What became of parks in one call, as (session, value).

    Attributes:
        alone: to be parked each for itself: together with others it failed.
        hopeless: not to be parked: it failed on some rank.
    """

    alone: set[tuple[str, str]] = attrs.field(factory=set)
    hopeless: set[tuple[str, str]] = attrs.field(factory=set)


class Carrying:
    """One rank's part in carrying out what the group has decided."""

    def __init__(self, council: Council, table: GroupTable, hands: Hands) -> None:
        self._council = council
        self._table = table
        self._hands = hands

    def carry_out(self, planned: Plan | PolicyError, course: Course, weigh: Weigh) -> bool:
        """Do what all ranks do, in the plan's order; whether the call is done without that.

        Args:
            planned: what the policy made of the facts.
            weigh: the outcome of the call where the plan is not to be carried out, else None.

        Raises:
            StatekitError: what `planned` is, or `weigh` raises, on all ranks.
            RanksDifferError: the plans are not the same; nothing was done.
            GroupError: this rank could not; the group decides no more.
        """
        ends, raised = None, None
        try:
            if isinstance(planned, PolicyError):
                raise planned
            ends = weigh(planned)
        except StatekitError as error:  # which the others must have, too
            raised = error
        batches: list[Batch] = []
        if isinstance(planned, Plan) and ends is None and raised is None:
            batches = batches_of(planned.decisions, course.alone)
        prepared = [self._hands.prepare(one) if one[0].tier else Prepared() for one in batches]
        said = {
            "plan": _digest(batches, ends, raised),
            "failed": [one.failed for one in prepared],
        }

        def decide(bodies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
            if any(one["plan"] != bodies[0]["plan"] for one in bodies):
                todo = "give all ranks the same policy, one that depends on its facts alone"
                raise RanksDifferError("the policy decided differently on some of them", todo)
            if raised is not None:
                raise raised
            return ends or _count(bodies)

        try:
            heard = self._council.meet("votes", said, decide)
        except BaseException:
            for one in prepared:
                self._hands.abort(one)
            raise
        votes = (heard.outcome or {}).get("votes")
        if votes is None:
            return True
        try:
            for batch, ready, possible in zip(batches, prepared, votes, strict=True):
                self._do(batch, ready, possible, course)
        except Exception as error:
            raise self._council.fail(f"this rank fell out of step: {error}", error) from error
        return False

    def _do(self, batch: Batch, ready: Prepared, possible: bool, course: Course) -> None:
        first = batch[0]
        entry = self._table.get(first.session_id)
        if entry is None:
            return
        if first.action == "evict":
            self._table.remove(entry.key)
            if not self._hands.evict(entry.key, first.reason, "bytes"):
                raise RuntimeError(f"session {entry.key!r} is used here, and cannot be evicted")
        elif first.action == "release":
            self._hands.release(batch)
            for one in batch:
                merge_bytes(entry.released, one.frees)
        elif possible:
            entry.away = True
            self._hands.finish(ready, batch)
        else:
            self._hands.abort(ready)
            values = {(entry.key, one.value or "") for one in batch}
            (course.alone if len(batch) > 1 else course.hopeless).update(values)


def _count(bodies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    votes: Iterable[tuple[str, ...]] = zip(*(one["failed"] for one in bodies), strict=True)
    return {"votes": [not any(one) for one in votes]}


def _digest(batches: Iterable[Batch], ends: object, raised: Exception | None) -> str:
    said = [[one.action, one.session_id, one.value, one.tier] for batch in batches for one in batch]
    found = type(raised).__name__ if isinstance(raised, PolicyError) else str(raised or "")
    text = json.dumps([said, ends, found])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
