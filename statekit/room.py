"""Room: when budgets are looked at, and for whom room is made.

Owns the occasions: a session grew, a new one begins, one comes back. Not here: what is given up
and how (`statekit.pressure`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from statekit.books.record import Record
from statekit.byte_sums import merge_bytes
from statekit.errors import SessionAdmissionError
from statekit.events import Events, OverBudget
from statekit.pressure.admission import promised, refuse, returning
from statekit.pressure.plan import Decision, Plan
from statekit.pressure.relief import Relief
from statekit.roll import Roll

__all__ = ["Room"]

_ROUNDS = 8
"""How often a plan is made anew, as long as something comes of it: facts change meanwhile."""


class Room:
    """The budgets of one manager, kept."""

    def __init__(
        self, roll: Roll, relief: Relief, events: Events, clock: Callable[[], float]
    ) -> None:
        self._roll = roll
        self._relief = relief
        self._events = events
        self._clock = clock
        self._over: set[str] = set()

    @property
    def tiers(self) -> Collection[str]:
        """Where values can be parked."""
        return self._relief.tiers

    def relieve(self, cause: str) -> Plan:
        """Look at the budgets and give up what is over them; `cause` is the session that grew.

        Raises:
            PolicyError: the policy failed; nothing was given up.
        """
        if not self._relief.budgets:
            return Plan()
        self._roll.bury()
        if not self._relief.over(self._relief.used()):
            self._over = set()
            return Plan()
        decisions: list[Decision] = []
        for _ in range(_ROUNDS):
            records = self._roll.call()
            plan = self._relief.plan(records)
            outcome = self._relief.carry_out(plan, records, wait=False)
            decisions += plan.decisions
            if not outcome.done:
                break
        self._roll.bury()
        used = self._relief.used()
        over = self._relief.over(used)
        if outcome.busy:  # another thread is at it
            self._over &= over.keys()
            return Plan(tuple(decisions), over)
        new, self._over = over.keys() - self._over, set(over)
        for device in sorted(new):
            limit = self._relief.budgets[device]
            self._events.publish(OverBudget(cause, self._clock(), device, used[device], limit))
        return Plan(tuple(decisions), over)

    def for_a_new_one(self, key: str, declared: Mapping[str, int]) -> SessionAdmissionError | None:
        """Give up what has to be, or say why that is not enough.

        What was planned may turn out not to happen (a disk that is full, a session that came into
        use), so the room is looked at again before it is promised.
        """
        if not self._relief.budgets:
            return None
        records = self._roll.refreshed(used=True)  # enough where there is room
        extra = merge_bytes(promised(records, self._relief.tiers), declared)
        if not self._relief.over(merge_bytes(self._relief.used(), extra)):
            return None
        for _ in range(_ROUNDS):
            records = self._roll.refreshed()
            extra = merge_bytes(promised(records, self._relief.tiers), declared)
            plan = self._relief.plan(records, extra)
            mine = {d: n for d, n in plan.still_over.items() if declared.get(d)}
            if not mine and not plan.decisions:
                return None
            if mine or self._relief.carry_out(plan, records).failed:
                break
        over = self._relief.over(merge_bytes(self._relief.used(), extra))
        mine = mine or {d: n for d, n in over.items() if declared.get(d)}
        return refuse(key, declared, mine, self._relief.budgets, records) if mine else None

    def for_the_return_of(self, record: Record) -> None:
        """Give up what others hold, as far as that is possible, for what the session will hold.

        Raises:
            PolicyError: the policy failed; nothing was given up.
        """
        coming = returning(record)
        if coming and self._relief.over(merge_bytes(self._relief.used(), coming)):
            records = self._roll.call()
            self._relief.carry_out(self._relief.plan(records, coming), records, wait=False)
