"""What a record says to the planner, and which objects its words stand for.

Owns the reading of records, and remembers what it read: while some sessions work, most lie idle,
and collecting the facts of thousands anew would take longer than the plan. Which values are units
of their own is known to `statekit.pressure.release_units`.

    Z1  Facts are those of the last look (`Record.refresh`), remembered or not.
    Z2  Only facts that no other session can change are remembered: nothing else holds the memory
        that they speak of, and that is asked again before they are used. Those of a session with
        parked or released values are collected each time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import attrs

from statekit.books.footprint import Interval
from statekit.books.ledger import Ledger
from statekit.books.record import Record
from statekit.pressure.plan import SessionFacts, ValueFacts
from statekit.pressure.putting_away import ParkedUnit
from statekit.pressure.release_units import ReleaseUnit
from statekit.session import SessionState

__all__ = [
    "KnownFacts",
    "keys_of",
    "parked_label",
    "rebuildable_now",
    "session_facts",
    "units_of",
]

_REST = "(the rest of the session)"


@attrs.frozen(eq=False)
class KnownFacts:
    """Facts that are remembered, and what they depend on."""

    facts: SessionFacts
    stamp: tuple[object, ...]
    intervals: frozenset[Interval]


def session_facts(record: Record, ledger: Ledger, tiers: Collection[str]) -> SessionFacts:
    """One session as of the last look, for a manager that has these tiers."""
    session = record.session
    if session is None or record.units or record.released:
        return _collect(record, ledger, tiers)
    may_go, may_be_evicted = record.may_go(), record.may_be_evicted()
    units = session.adopted.units
    # The session keeps its units, and only ever replaces them by more.
    stamp = (record.version, record.order, may_go, may_be_evicted, len(units))
    known = record.facts
    if known is not None and known.stamp == stamp and ledger.holds_alone(known.intervals):
        return known.facts
    intervals: frozenset[Interval] = frozenset()
    if may_be_evicted:
        intervals = frozenset(record.intervals())
    elif may_go:
        keys = [key for unit in units for key in keys_of(record, unit)]
        intervals = frozenset(one for key in keys for one in record.objects[key].intervals)
    facts = _collect(record, ledger, tiers)
    if ledger.holds_alone(intervals):
        record.facts = KnownFacts(facts, stamp, intervals)
    return facts


def _collect(record: Record, ledger: Ledger, tiers: Collection[str]) -> SessionFacts:
    session = record.session
    values: list[ValueFacts] = []
    if session is not None and record.may_go():
        for unit in tuple(record.units):
            further = unit.tier == "host" and "disk" in tiers
            values.append(
                ValueFacts(
                    name=parked_label(unit),
                    nbytes=unit.nbytes_by_device,
                    tiers=("disk",) if further else (),
                    parked=unit.tier,
                )
            )
        for unit_spec in session.adopted.units:
            values += _unit_facts(record, unit_spec, ledger, tiers)
        if record.may_be_evicted():
            values.append(_rest(record, values, ledger))
    return SessionFacts(
        session_id=record.session_id,
        last_used=record.order,
        leased=not record.may_go(),
        may_be_lost=record.may_be_evicted(),
        values=tuple(values),
    )


def _unit_facts(
    record: Record, unit: ReleaseUnit, ledger: Ledger, tiers: Collection[str]
) -> Iterable[ValueFacts]:
    session = record.session
    keys = keys_of(record, unit)
    away = {key for parked in tuple(record.units) for key in parked.keys}
    if session is None or not keys or not away.isdisjoint(keys):
        return
    objects = [session.get(key) for key in keys]
    if any(obj is not None and obj.staged() is not None for obj in objects):
        return
    looks = [look for key in keys if (look := record.objects.get(key)) is not None]
    intervals = [one for look in looks for one in look.intervals]
    yield ValueFacts(
        name=unit.label,
        nbytes=ledger.exclusive(intervals),
        sources=unit.sources,
        rebuildable=_rebuildable(session, unit),
        released=record.released.issuperset(keys) and not intervals,
        cost=unit.cost_ms,
        tiers=tuple(tier for tier in unit.tiers if tier in tiers),
    )


def _rest(record: Record, values: Iterable[ValueFacts], ledger: Ledger) -> ValueFacts:
    """What goes with the session alone: carried values, shared storages, an engine's blocks."""
    rest = record.exclusive(ledger)
    for value in values:
        if value.parked is None:
            for device, nbytes in value.nbytes.items():
                rest[device] = rest.get(device, 0) - nbytes
    return ValueFacts(_REST, {device: nbytes for device, nbytes in rest.items() if nbytes > 0})


def parked_label(unit: ParkedUnit) -> str:
    """What a plan calls a parked unit."""
    return f"parked in {unit.tier}: {', '.join(sorted(unit.keys))}"


def units_of(record: Record, labels: Collection[str | None]) -> list[ReleaseUnit]:
    """The release units that have one of these labels."""
    session = record.session
    units = () if session is None else session.adopted.units
    return [unit for unit in units if unit.label in labels]


def keys_of(record: Record, unit: ReleaseUnit) -> tuple[str, ...]:
    """The session keys of a unit's objects."""
    return tuple(key for key in tuple(record.objects) if unit.pattern.fullmatch(key))


def rebuildable_now(record: Record, unit: ReleaseUnit) -> bool:
    """Whether the schema lets the unit be released, and all that it is rebuilt from is there."""
    session = record.session
    return (
        session is not None
        and _rebuildable(session, unit)
        and all(_there(session, False, source.pattern) for source in units_of(record, unit.sources))
    )


def _rebuildable(session: SessionState, unit: ReleaseUnit) -> bool:
    return unit.rebuildable and all(_there(session, *need) for need in unit.needs)


def _there(session: SessionState, carried: bool, pattern: re.Pattern[str]) -> bool:
    values = session.attrs.copy() if carried else session.committed()
    return any(value is not None and pattern.fullmatch(key) for key, value in values.items())
