"""Explanation: where each value of a session is, and what would be done next with it, and why."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from statekit.books.record import Record
from statekit.pressure.plan import Plan

__all__ = ["Explanation", "ValueExplanation", "explain"]


@attrs.frozen
class ValueExplanation:
    """One value: its key, bucket, place, bytes by device, and what may happen to it."""

    value: str
    bucket: str
    where: str
    nbytes: Mapping[str, int]
    next: str


@attrs.frozen
class Explanation:
    """A session as an operator sees it; `str()` lays it out as a table."""

    session_id: str
    leases: int
    declared: Mapping[str, int]
    budgets: Mapping[str, int]
    values: tuple[ValueExplanation, ...]
    next: str

    def __str__(self) -> str:
        head = f"session {self.session_id!r}, in use by {self.leases}; next: {self.next}"
        rows = [("value", "bucket", "where", "bytes", "next")]
        for one in self.values:
            nbytes = ", ".join(f"{device} {count}" for device, count in one.nbytes.items()) or "0"
            rows.append((one.value, one.bucket, one.where, nbytes, one.next))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            "  ".join(
                [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]
            )
            for row in rows
        ]
        return "\n".join([head, *(line.rstrip() for line in lines)])


def explain(record: Record, plan: Plan, budgets: Mapping[str, int]) -> Explanation:
    """What is recorded of a session, beside what `plan` would do with it now."""
    session = record.session
    units = () if session is None else session.adopted.units
    decided = {
        one.value: f"{one.action}: {one.reason}"
        for one in plan.decisions
        if one.session_id == record.session_id and one.value is not None
    }
    whole = next(
        (
            f"{one.action}: {one.reason}"
            for one in plan.decisions
            if one.session_id == record.session_id and one.value is None
        ),
        "stays: it is in use" if record.leases else "stays: nothing that it holds is over a budget",
    )
    values = []
    for name, footprint in sorted(record.attrs.copy().items()):
        values.append(
            ValueExplanation(name, "attrs", "resident", _by_device(footprint.intervals), "carried")
        )
    away = {key: unit for unit in tuple(record.units) for key in unit.keys}
    for key, footprint in sorted(record.objects.copy().items()):
        unit = next((one for one in units if one.pattern.fullmatch(key)), None)
        if key in away:
            where, nbytes = f"parked in {away[key].tier}", away[key].nbytes_by_device
            what = "comes back with the next use, together with all that was parked with it"
        elif key in record.released and not footprint.intervals:
            where, nbytes, what = "released", {}, "is rebuilt by the model with its next use"
        else:
            where, nbytes = "resident", _by_device(footprint.intervals)
            what = "stays: the schema says of no operation that gives it up"
            if unit is not None:
                could = ["released"] if unit.rebuildable else []
                could += [f"parked in {tier}" for tier in unit.tiers]
                what = (
                    decided.get(unit.label) or f"stays; could be {' or '.join(could) or 'nothing'}"
                )
        values.append(ValueExplanation(key, "StateObject", where, nbytes, what))
    return Explanation(
        record.session_id, record.leases, dict(record.declared), dict(budgets), tuple(values), whole
    )


def _by_device(intervals: tuple[tuple[str, int, int], ...]) -> dict[str, int]:
    total: dict[str, int] = {}
    for device, start, end in intervals:
        total[device] = total.get(device, 0) + end - start
    return total
