"""Relief: from records to facts, from facts to a plan, from a plan to what is done.

Owns the mechanism: it collects what the planner needs, carries decisions out one by one, and says
what happened. Which decisions, and in which order, is the policy's business (`planner`).

    R1  Values are copied and files written with no lock held but the session's own `transition`.
    R2  A decision that cannot be carried out (a file that cannot be written, a session that came
        into use meanwhile) leaves everything as it was, and the others are carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from statekit.books.ledger import Ledger
from statekit.books.record import Record
from statekit.errors import StatekitError
from statekit.events import Parked, ParkFailed, Released, Restored
from statekit.pressure.plan import Decision, Facts, Plan, Policy, SessionFacts, ValueFacts
from statekit.pressure.putting_away import ParkedUnit, put_away, tier_name
from statekit.pressure.release_units import ReleaseUnit

if TYPE_CHECKING:
    from statekit.parking.tier import Tier

__all__ = ["Relief"]


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
        evict: Callable[[str, str], None],
    ) -> None:
        self.budgets = budgets
        self._ledger = ledger
        self._tiers = tiers
        self._policy = policy
        self._clock = clock
        self._publish = publish
        self._evict = evict

    def used(self, records: Iterable[Record]) -> dict[str, int]:
        """Bytes by device, parked ones included, as of the last look."""
        used = self._ledger.totals()
        for record in records:
            for unit in tuple(record.units):
                for device, nbytes in unit.parked.nbytes_by_device().items():
                    used[device] = used.get(device, 0) + nbytes
        return used

    @staticmethod
    def parked(records: Iterable[Record]) -> dict[str, int]:
        """Bytes by tier."""
        total: dict[str, int] = {}
        for record in records:
            for unit in tuple(record.units):
                total[unit.tier] = total.get(unit.tier, 0) + unit.nbytes
        return total

    def plan(self, records: Iterable[Record], extra: Mapping[str, int] | None = None) -> Plan:
        """What the policy would do now, with `extra` bytes by device about to be used."""
        records = tuple(records)
        used = self.used(records)
        for device, nbytes in (extra or {}).items():
            used[device] = used.get(device, 0) + nbytes
        if not any(used.get(device, 0) > limit for device, limit in self.budgets.items()):
            return Plan()
        facts = Facts(self.budgets, used, tuple(self._facts(record) for record in records))
        return self._policy(facts)

    def carry_out(self, plan: Plan, records: Mapping[str, Record]) -> None:
        """Do what the plan says, in its order; neighbouring parks of one session are one unit."""
        together: list[Decision] = []
        for decision in (*plan.decisions, None):
            if together and (
                decision is None
                or decision.action != "park"
                or (decision.session_id, decision.tier)
                != (together[0].session_id, together[0].tier)
            ):
                self._park(together, records.get(together[0].session_id))
                together = []
            if decision is None:
                continue
            if decision.action == "park":
                together.append(decision)
            elif decision.action == "release":
                self._release(decision, records.get(decision.session_id))
            else:
                self._evict(decision.session_id, decision.reason)

    def _park(self, decisions: list[Decision], record: Record | None) -> None:
        first = decisions[0]
        tier = self._tiers.get(first.tier or "")
        if record is None or tier is None:
            return
        keys = tuple(
            key
            for decision in decisions
            if decision.value is not None
            for key in self.keys_of(record, decision.value)
        )
        parked_already = [unit for unit in tuple(record.units) if not unit.keys.isdisjoint(keys)]
        try:
            if parked_already:
                for one in parked_already:
                    self._move(one, tier)
                return
            unit = put_away(record, keys, tier, self._when_back, record.may_go)
        except StatekitError as error:
            self._publish(ParkFailed(record.session_id, self._clock(), keys, tier.name, str(error)))
            return
        if unit is not None:
            record.refresh(self._ledger)
            self._publish(
                Parked(
                    record.session_id,
                    self._clock(),
                    tuple(sorted(unit.keys)),
                    tier.name,
                    unit.nbytes,
                    first.reason,
                )
            )

    def _move(self, unit: ParkedUnit, tier: Tier) -> None:
        """From host memory to disk, without building the values."""
        with unit.record.transition:
            if unit in unit.record.units and unit.tier != tier.name:
                on_host: Any = unit.parked  # what lies on disk is not moved
                unit.parked = on_host.move_to(tier)
                unit.tier = tier_name(tier)

    def _release(self, decision: Decision, record: Record | None) -> None:
        assert decision.value is not None
        session = None if record is None else record.session
        if record is None or session is None:
            return
        freed = 0
        with record.transition:
            if not record.may_go():
                return
            for key in self.keys_of(record, decision.value):
                obj = session.get(key)
                if obj is not None and obj.resident and obj.staged() is None:
                    freed += obj.evict()
                    record.released.add(key)
        record.refresh(self._ledger)
        self._publish(
            Released(record.session_id, self._clock(), decision.value, freed, decision.reason)
        )

    def _when_back(self, unit: ParkedUnit) -> None:
        unit.record.refresh(self._ledger)
        self._publish(
            Restored(unit.record.session_id, self._clock(), tuple(sorted(unit.keys)), unit.nbytes)
        )

    def _facts(self, record: Record) -> SessionFacts:
        session = record.session
        values: list[ValueFacts] = []
        if session is not None and record.managed:
            away: set[str] = set()
            for unit in tuple(record.units):
                away |= unit.keys
                values.append(
                    ValueFacts(
                        name=_parked_label(unit),
                        nbytes=unit.parked.nbytes_by_device(),
                        tiers=("disk",) if unit.tier == "host" and "disk" in self._tiers else (),
                        parked=unit.tier,
                    )
                )
            for unit_spec in session.release_units:
                values += self._unit_facts(record, unit_spec, away)
        return SessionFacts(
            session_id=record.session_id,
            last_used=record.order,
            leased=record.leases > 0 or record.dropped or not record.managed,
            may_be_lost=record.may_be_lost,
            values=tuple(values),
        )

    def _unit_facts(
        self, record: Record, unit: ReleaseUnit, away: set[str]
    ) -> Iterable[ValueFacts]:
        session = record.session
        keys = [key for key in tuple(record.objects) if unit.pattern.fullmatch(key)]
        if session is None or not keys or not away.isdisjoint(keys):
            return
        objects = [session.get(key) for key in keys]
        if any(obj is not None and obj.staged() is not None for obj in objects):
            return
        intervals = [one for key in keys for one in record.objects[key].intervals]
        yield ValueFacts(
            name=unit.label,
            nbytes=self._ledger.exclusive(intervals),
            sources=unit.sources,
            rebuildable=unit.rebuildable,
            released=record.released.issuperset(keys),
            cost=unit.cost_ms,
            tiers=tuple(tier for tier in unit.tiers if tier in self._tiers),
        )

    def close(self) -> None:
        """Close the tiers; what is parked in them is gone."""
        for tier in self._tiers.values():
            close = getattr(tier, "close", None)
            if close is not None:
                close()

    def keys_of(self, record: Record, label: str) -> tuple[str, ...]:
        """The object keys that a value of a decision stands for."""
        session = record.session
        for parked in tuple(record.units):
            if _parked_label(parked) == label:
                return tuple(parked.keys)
        for unit in () if session is None else session.release_units:
            if unit.label == label:
                return tuple(key for key in tuple(record.objects) if unit.pattern.fullmatch(key))
        return ()


def _parked_label(unit: ParkedUnit) -> str:
    return f"parked in {unit.tier}: {', '.join(sorted(unit.keys))}"
