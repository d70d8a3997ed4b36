"""Hands: what one rank does with its own sessions, as the group has decided.

Owns the way into one manager: what it holds is said, and decisions are carried out, without a
decision of the manager's own. Values are parked in two phases, so that a rank which fails stops
the others while their originals are still in place.

    D1  `prepare` changes nothing that anybody can see; `finish` or `abort` ends it.
    D2  Nothing here talks to another rank.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from time import perf_counter
from typing import Any

import attrs

from statekit.accounting import merge_bytes
from statekit.books.record import Record
from statekit.declared import Ranks
from statekit.errors import ParkError, SessionStateLostError, StatekitError
from statekit.events import OverBudget
from statekit.manager import SessionStateManager
from statekit.pressure.admission import promised, returning
from statekit.pressure.budget import FreeBytes
from statekit.pressure.facts import keys_of, parked_label, session_facts, units_of
from statekit.pressure.plan import Decision, SessionFacts, ValueFacts
from statekit.pressure.putting_away import ParkedUnit, PuttingAway, begin_putting_away
from statekit.session import SessionState
from statekit.spec import ModelSpec, Sharding, Tier

__all__ = ["Hands", "Prepared", "batches_of"]

Batch = list[Decision]
"""Neighbouring decisions about one session that are carried out as one."""


def batches_of(decisions: Iterable[Decision], alone: Collection[tuple[str, str]]) -> list[Batch]:
    """Decisions that are carried out together; those of `alone` each for itself.

    What is parked of one session at once lies in one image, so that what it shares stays shared.
    """
    batches = []
    numbered = enumerate(decisions)
    for _, group in groupby(
        numbered,
        lambda one: (
            one[1].session_id,
            one[1].action,
            one[1].tier,
            one[0] if (one[1].session_id, one[1].value) in alone else -1,
        ),
    ):
        batches.append([decision for _, decision in group])
    return batches


@attrs.frozen
class Prepared:
    """What is ready to be parked on this rank; `failed` says why nothing is."""

    record: Record | None = None
    moves: tuple[ParkedUnit, ...] = ()
    putting: PuttingAway | None = None
    begun_at: float = 0.0
    failed: str = ""


class Hands:
    """One rank's manager."""

    def __init__(self, manager: SessionStateManager) -> None:
        self._manager = manager
        self._table = manager._table
        self._leasing = manager._leasing
        self._relief = manager._relief
        self._roll = manager._roll
        self._events = manager._events
        self._ledger = manager._roll._ledger
        self.clock = manager._clock
        self.takes: dict[Tier, int] = {}
        for tier in self._relief._tiers.values():
            self.takes["disk" if tier.name == "disk" else "host"] = tier.takes_nbytes

    # -- what this rank holds --------------------------------------------------------------------

    def totals(self) -> tuple[dict[str, int], dict[str, int]]:
        """Bytes by device that are used, and those that are promised and not held yet."""
        records = self._roll.refreshed(used=True)
        return self._relief.used(), promised(records, self._relief.tiers)

    def facts(self, keys: Iterable[str]) -> list[tuple[SessionFacts, Mapping[str, int]]]:
        """The sessions as of a look now, with the bytes that each was measured with."""
        self._roll.refreshed()
        found = []
        for key in keys:
            record = self._table.holds(key)
            if record is not None:
                facts = session_facts(record, self._ledger, self._relief.tiers)
                if record.units:
                    facts = attrs.evolve(facts, values=_by_label(record, facts.values))
                found.append((facts, record.measured()))
        return found

    def coming(self, key: str) -> dict[str, int]:
        """Bytes by device that a session takes when it is used again, parked values and all."""
        record = self._table.holds(key)
        return {} if record is None else returning(record)

    def has_away(self, key: str) -> bool:
        """Whether something of the session is parked."""
        record = self._table.holds(key)
        return record is not None and bool(record.units)

    def holds(self, key: str) -> bool:
        """Whether a session of this id lives here, in the table or out of it."""
        return self._table.holds(key) is not None

    def free_bytes(self) -> FreeBytes:
        """What budgets that are fractions are fractions of."""
        tier: Any = self._relief._tiers.get("disk")
        return FreeBytes(None if tier is None else tier._folder.path)

    def ids(self) -> list[str]:
        """Ids of the sessions in the table."""
        return list(self._table)

    def rows(self) -> list[list[object]]:
        """The sessions in the table: id, order of use, leases, may be lost, parked, whole.

        Whole is what is replicated: a rank that has it needs no other one for it.
        """
        rows: list[list[object]] = []
        for key in self._table:
            record = self._table.holds(key)
            if record is not None and record.session is not None:
                whole = all(
                    value.sharding in (None, Sharding())
                    for spec in record.session.adopted.specs
                    for value in spec
                )
                away = bool(record.units)
                rows.append([key, record.order, record.leases, record.may_be_lost, away, whole])
        return rows

    def spec_of(self, key: str) -> tuple[ModelSpec | None, Mapping[str, int]]:
        """What a session began with."""
        record = self._table.holds(key)
        session = None if record is None else record.session
        if record is None or session is None or not session.adopted.specs:
            return None, {}
        return session.adopted.specs[0], record.overrides

    def say_over(self, cause: str, over: Mapping[str, int], used: Mapping[str, int]) -> None:
        """Tell subscribers that this rank's devices are over their budgets."""
        for device in sorted(over):
            now = used[device]
            event = OverBudget(cause, self.clock(), device, now, now - over[device])
            self._events.publish(event)

    def take_rank(self, ranks: Ranks) -> None:
        """Be this rank from now on: new sessions are promised its part."""
        self._manager.ranks = self._leasing._ranks = ranks

    # -- what it does ----------------------------------------------------------------------------

    def begin(self, key: str, spec: ModelSpec, overrides: Mapping[str, int] | None) -> SessionState:
        """A new session, in use."""
        return self._leasing.begin(key, spec, overrides)[0]

    def go_on(self, key: str) -> SessionState:
        """The session of this id, in use and with everything back. Raises: as a manager's lease."""
        return self._leasing.go_on(key)[0]

    def end_lease(self, session: SessionState) -> None:
        """One use less."""
        self._leasing.end_lease(session)

    def lost(self, key: str) -> StatekitError:
        """The error for a session that is not in the group's table, whoever holds it here still."""
        departure = self._table.departure(key)
        if departure is None:
            return self._leasing.lost(key)
        ago_s = self.clock() - departure.at
        return SessionStateLostError(key, departure.how, ago_s, departure.reason)

    def evict(self, key: str, reason: str, cause: str) -> bool:
        """Let go of a session; whether it went."""
        if self._table.evict(key) is None:
            return False
        self._leasing.depart(key, "evicted", reason, cause)
        return True

    def drop(self, key: str) -> None:
        """End a session, or have it end with its last lease. Raises: what a reset raises."""
        self._manager.drop_session(key)

    def end(self, key: str, how: str, reason: str) -> None:
        """End a session that nobody uses; what its objects raise is a warning."""
        found = self._table.drop(key)
        if found is None:
            return
        try:
            self._leasing.end(found[0], how, reason)
        except Exception as error:  # not the affair of whoever comes along
            warnings.warn(f"the end of session {key!r} failed: {error!r}", stacklevel=2)

    def release(self, decisions: Sequence[Decision]) -> None:
        """Give up values that can be rebuilt."""
        record = self._table.holds(decisions[0].session_id)
        if record is None:
            return
        with record.transition:
            events = self._relief._release(list(decisions), record)
        record.refresh(self._ledger)
        self._events.publish(*events)

    def prepare(self, decisions: Sequence[Decision]) -> Prepared:
        """Copy what is to be parked; says why where that fails (D1)."""
        first = decisions[0]
        record = self._table.holds(first.session_id)
        tier = self._relief._tiers.get(first.tier or "")
        if record is None or tier is None:
            return Prepared(failed="there is no such session or tier")
        labels = {one.value for one in decisions}
        begun_at = perf_counter()
        with record.transition:
            moves = tuple(one for one in tuple(record.units) if _label(record, one) in labels)
            keys = tuple(key for unit in units_of(record, labels) for key in keys_of(record, unit))
            try:
                putting = None
                if keys:
                    putting = begin_putting_away(record, keys, tier, self._relief._when_back)
            except Exception as error:  # whatever it was, nothing was done
                self._events.publish(self._relief._failed(record, keys, tier, error))
                return Prepared(failed=_found(error))
        return Prepared(record, moves, putting, begun_at)

    def finish(self, prepared: Prepared, decisions: Sequence[Decision]) -> bool:
        """Let go of the originals; whether everything has moved.

        A move from host memory to disk that fails leaves the value in host memory.
        """
        record, reason = prepared.record, decisions[0].reason
        tier = self._relief._tiers.get(decisions[0].tier or "")
        assert record is not None
        assert tier is not None
        events, moved = [], True
        with record.transition:
            if prepared.putting is not None:
                unit = prepared.putting.finish()
                if unit is not None:
                    self._relief._holding.add(record)
                    events.append(self._relief._parked(unit, reason, prepared.begun_at))
            for unit in prepared.moves:
                begun_at = perf_counter()
                try:
                    if unit.move_to(tier):
                        events.append(self._relief._parked(unit, reason, begun_at))
                except ParkError as error:
                    events.append(self._relief._failed(record, tuple(unit.keys), tier, error))
                    moved = False
        record.refresh(self._ledger)
        self._events.publish(*events)
        return moved

    @staticmethod
    def abort(prepared: Prepared) -> None:
        """Let go of the copies."""
        if prepared.putting is not None:
            prepared.putting.abort()


def _label(record: Record, unit: ParkedUnit) -> str:
    """What a group calls a parked unit: the same on all ranks, whichever keys each of them has."""
    session = record.session
    units = () if session is None else session.adopted.units
    names = {one.label for one in units for key in unit.keys if one.pattern.fullmatch(key)}
    return f"parked in {unit.tier}: {', '.join(sorted(names))}"


def _by_label(record: Record, values: Sequence[ValueFacts]) -> tuple[ValueFacts, ...]:
    """The values, with parked units under the group's names."""
    labels = {parked_label(unit): _label(record, unit) for unit in tuple(record.units)}
    found: dict[str, ValueFacts] = {}
    for value in values:
        name = value.name if value.parked is None else labels.get(value.name, value.name)
        known = found.get(name)
        if known is None:
            found[name] = attrs.evolve(value, name=name)
        else:
            total = merge_bytes(dict(known.nbytes), value.nbytes)
            found[name] = attrs.evolve(known, nbytes=total)
    return tuple(found.values())


def _found(error: BaseException) -> str:
    return str(error) if isinstance(error, StatekitError) else repr(error)
