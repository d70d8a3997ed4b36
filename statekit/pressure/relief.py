"""Relief: from records to a plan, from a plan to what is done.

Owns the mechanism: it asks for a plan, carries decisions out one by one, and says what
happened. Which decisions, and in which order, is the policy's business (`planner`).

    R1  Values are copied and files written with no lock held but the session's own `transition`.
    R2  A decision that cannot be carried out (a file that cannot be written, a session that came
        into use meanwhile) leaves everything as it was, and the others are carried out.
    R3  Whatever a policy decides, nothing is given up that its schema does not allow: only what
        can be rebuilt now is released, into no tier but the schema's is parked, and what may not
        be lost is not evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Any

import attrs

from statekit.accounting import merge_bytes
from statekit.books.ledger import Ledger
from statekit.books.record import Record
from statekit.errors import PolicyError, StatekitError, UnparkableError
from statekit.events import Event, Parked, ParkFailed, Released, Restored
from statekit.pressure.facts import (
    keys_of,
    parked_label,
    rebuildable_now,
    session_facts,
    units_of,
)
from statekit.pressure.plan import Decision, Facts, Plan, Policy
from statekit.pressure.putting_away import ParkedUnit, put_away
from statekit.pressure.release_units import ReleaseUnit

if TYPE_CHECKING:
    from statekit.parking.tier import Tier

__all__ = ["Outcome", "Relief"]


class Relief:
    """What a manager does about devices that are over their budgets."""

    def __init__(
        self,
        budgets: Mapping[str, int],
        ledger: Ledger,
        tiers: Mapping[str, Tier],
        policy: Policy,
        clock: Callable[[], float],
        publish: Callable[..., None],
        evict: Callable[[str, str], bool],
    ) -> None:
        self.budgets = budgets
        self._ledger = ledger
        self._tiers = tiers
        self._policy = policy
        self._clock = clock
        self._publish = publish
        self._evict = evict
        self._holding: set[Record] = set()

    @property
    def tiers(self) -> Collection[str]:
        """The names of the tiers that there are."""
        return self._tiers.keys()

    def used(self) -> dict[str, int]:
        """Bytes by device, parked ones included, as of the last look."""
        used = self._ledger.totals()
        for unit in self._units():
            merge_bytes(used, unit.nbytes_by_device)
        return used

    def parked(self) -> dict[str, int]:
        """Bytes by tier."""
        total: dict[str, int] = {}
        for unit in self._units():
            total[unit.tier] = total.get(unit.tier, 0) + unit.nbytes
        return total

    def _units(self) -> Iterator[ParkedUnit]:
        """All that is parked, found without a look at the sessions that have nothing parked."""
        for record in tuple(self._holding):
            if not record.units:
                self._holding.discard(record)
                if record.units:  # parked between the two
                    self._holding.add(record)
            yield from tuple(record.units)

    def over(self, used: Mapping[str, int]) -> dict[str, int]:
        """The devices that are over their budgets, and by how much."""
        return {
            device: used[device] - limit
            for device, limit in self.budgets.items()
            if used.get(device, 0) > limit
        }

    def plan(self, records: Iterable[Record], extra: Mapping[str, int] | None = None) -> Plan:
        """What the policy would do now, with `extra` bytes by device about to be used.

        Raises:
            PolicyError: the policy failed.
        """
        records = tuple(records)
        used = merge_bytes(self.used(), extra or {})
        if not self.over(used):
            return Plan()
        takes: Any = {tier.name: tier.takes_nbytes for tier in self._tiers.values()}
        sessions = tuple(session_facts(one, self._ledger, self._tiers) for one in records)
        facts: Any = Facts(self.budgets, used, sessions, takes)
        name = getattr(self._policy, "__qualname__", type(self._policy).__qualname__)
        try:
            plan: object = self._policy(facts)
        except Exception as error:
            raise PolicyError(name, f"it raised {error!r}") from error
        if not isinstance(plan, Plan):
            raise PolicyError(name, f"it returned a {type(plan).__name__}, not a Plan")
        return plan

    def carry_out(self, plan: Plan, records: Iterable[Record], *, wait: bool = True) -> Outcome:
        """Do what the plan says, in its order; neighbouring parks of one session are one unit.

        What the records or their schemas do not allow (now) is left undone.

        Args:
            wait: for another thread that puts something of the same session away; without it,
                that session is passed over.
        """
        if not plan.decisions:
            return Outcome()
        by_id = {record.session_id: record for record in records if not record.dropped}
        outcome = Outcome()
        for (session_id, action, tier), group in groupby(
            plan.decisions, lambda one: (one.session_id, one.action, one.tier)
        ):
            decisions = list(group)
            record = by_id.get(session_id)
            if record is None:
                continue
            if action == "evict":
                outcome.done += self._evict(session_id, decisions[0].reason)
            elif not record.transition.acquire(blocking=wait):
                outcome.busy += 1
            else:
                events: list[Event] = []
                try:
                    if action == "park":
                        events = self._park(decisions, record, self._tiers.get(tier or ""))
                    elif action == "release":
                        events = self._release(decisions, record)
                finally:
                    record.transition.release()
                failed = sum(isinstance(one, ParkFailed) for one in events)
                outcome.failed += failed
                outcome.done += len(events) - failed
                if events:
                    record.refresh(self._ledger)
                    self._publish(*events)
        return outcome

    def _park(self, decisions: list[Decision], record: Record, tier: Tier | None) -> list[Event]:
        if tier is None or not record.may_go():
            return []
        events: list[Event] = []
        reason = decisions[0].reason
        labels = {one.value for one in decisions}
        for unit in tuple(record.units):
            if parked_label(unit) in labels:
                keys = tuple(unit.keys)
                begun_at = perf_counter()
                try:
                    moved = unit.move_to(tier)
                except Exception as error:
                    events.append(self._failed(record, keys, tier, error))
                else:
                    if moved:
                        events.append(self._parked(unit, reason, begun_at))
        units = [one for one in units_of(record, labels) if tier.name in one.tiers]
        return events + self._put_away(record, units, tier, reason)

    def _put_away(
        self, record: Record, units: Sequence[ReleaseUnit], tier: Tier, reason: str
    ) -> list[Event]:
        keys = tuple(key for unit in units for key in keys_of(record, unit))
        begun_at = perf_counter()
        try:
            new = put_away(record, keys, tier, self._when_back)
        except UnparkableError as error:  # the others can be
            if len(units) > 1:
                return [e for one in units for e in self._put_away(record, [one], tier, reason)]
            return [self._failed(record, keys, tier, error)]
        except Exception as error:  # whatever it was, nothing was done
            return [self._failed(record, keys, tier, error)]
        if new is None:
            return []
        self._holding.add(record)
        return [self._parked(new, reason, begun_at)]

    def _parked(self, unit: ParkedUnit, reason: str, begun_at: float) -> Event:
        key, keys = unit.record.session_id, tuple(sorted(unit.keys))
        took_s = perf_counter() - begun_at
        return Parked(key, self._clock(), keys, unit.tier, unit.nbytes, reason, took_s)

    def _failed(self, record: Record, keys: tuple[str, ...], tier: Tier, error: Exception) -> Event:
        found = str(error) if isinstance(error, StatekitError) else repr(error)
        return ParkFailed(record.session_id, self._clock(), tuple(sorted(keys)), tier.name, found)

    def _release(self, decisions: list[Decision], record: Record) -> list[Event]:
        events: list[Event] = []
        session = record.session
        for decision in decisions:
            for unit in units_of(record, {decision.value}):
                if session is None or not record.may_go() or not rebuildable_now(record, unit):
                    continue
                freed, keys = 0, []
                for key in keys_of(record, unit):
                    obj = session.get(key)
                    if obj is not None and obj.resident and obj.staged() is None:
                        freed += obj.evict()
                        keys.append(key)
                if keys:
                    record.released.update(keys)
                    at = self._clock()
                    reason = decision.reason
                    events.append(Released(record.session_id, at, unit.label, freed, reason))
        return events

    def _when_back(self, unit: ParkedUnit) -> None:
        unit.record.refresh(self._ledger)
        key, keys = unit.record.session_id, tuple(sorted(unit.keys))
        took_s = unit.back_in_s
        self._publish(Restored(key, self._clock(), keys, unit.nbytes, unit.tier, took_s))

    def close(self) -> None:
        """Close the tiers; what is parked in them is gone."""
        for tier in self._tiers.values():
            close = getattr(tier, "close", None)
            if close is not None:
                close()


@attrs.define
class Outcome:
    """What had an effect, what failed, and how many sessions were left to another thread."""

    done: int = 0
    failed: int = 0
    busy: int = 0
