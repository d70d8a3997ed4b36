"""Admission: whether a new session's declared bytes fit, before it is built.

Owns the arithmetic of what is promised and not held yet: what a session was admitted with counts
until it holds more. Not here: what that is (`statekit.pressure.promise`), what is given up to make
room (`statekit.pressure.relief`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from statekit.books.footprint import Interval
from statekit.books.record import Record
from statekit.byte_sums import merge_bytes
from statekit.errors import BudgetTooSmallError, SessionAdmissionError
from statekit.spec import ModelSpec

__all__ = ["missing", "promised", "refuse", "require_one_fits", "returning"]


def promised(records: Iterable[Record], tiers: Collection[str] = ()) -> dict[str, int]:
    """Bytes by device that live sessions were admitted with and do not hold yet.

    To a session that nobody uses, no more is promised than what will stay of it: room for the
    rest is made when it is used again.
    """
    total: dict[str, int] = {}
    for record in records:
        merge_bytes(total, missing(record, tiers))
    return total


def missing(record: Record, tiers: Collection[str] = ()) -> Mapping[str, int]:
    """What is promised to one session, and not held by it yet."""
    if record.leases:
        return _left(record.declared, record.measured(), {})
    session = record.session
    units = () if session is None else session.adopted.units
    stamp = (record.version, len(units), len(record.staying))
    if record.missing is None or record.missing[0] != stamp:  # else an idle session's, as before
        going = _going(record, tiers)
        record.missing = (stamp, _left(record.staying, record.measured(), going))
    return record.missing[1]


def returning(record: Record) -> dict[str, int]:
    """Bytes by device that a session takes when it is used again, parked values and all."""
    coming = dict(missing(record))
    parked: dict[str, int] = {}
    for unit in tuple(record.units):
        merge_bytes(parked, unit.came_from)
    for device, nbytes in parked.items():
        coming[device] = max(coming.get(device, 0), nbytes)
    return coming


def _left(
    promised: Mapping[str, int], measured: Mapping[str, int], going: Mapping[str, int]
) -> dict[str, int]:
    left = {
        device: nbytes - measured.get(device, 0) + going.get(device, 0)
        for device, nbytes in promised.items()
    }
    return {device: nbytes for device, nbytes in left.items() if nbytes > 0}


def _going(record: Record, tiers: Collection[str]) -> dict[str, int]:
    """Bytes by device, as of the last look, of values that could be parked or released."""
    session = record.session
    units = () if session is None else session.adopted.units
    patterns = [unit.pattern for unit in units if unit.may_go(tiers)]
    going: set[Interval] = set()
    staying = {one for look in record.attrs.copy().values() for one in look.intervals}
    for key, look in record.objects.copy().items():
        may_go = any(pattern.fullmatch(key) for pattern in patterns)
        (going if may_go else staying).update(look.intervals)
    total: dict[str, int] = {}
    for device, start, end in going - staying:
        total[device] = total.get(device, 0) + end - start
    return total


def require_one_fits(
    budgets: Mapping[str, int], spec: ModelSpec, declared: Mapping[str, int]
) -> None:
    """Refuse budgets that cannot hold even one session.

    Raises:
        BudgetTooSmallError: with the figure.
    """
    for device, nbytes in sorted(declared.items()):
        if nbytes > budgets.get(device, nbytes):
            raise BudgetTooSmallError(device, spec.model, nbytes, budgets[device])


def refuse(
    session_id: str,
    declared: Mapping[str, int],
    still_over: Mapping[str, int],
    budgets: Mapping[str, int],
    records: Iterable[Record],
) -> SessionAdmissionError:
    """The error for a session that does not fit, with who holds the rest."""
    device = max(still_over, key=lambda one: (still_over[one], one))
    needed = declared.get(device, 0)
    available = max(0, needed - still_over[device])
    holders = sorted(
        ((record.measured().get(device, 0), record.session_id) for record in records), reverse=True
    )
    top = tuple((name, nbytes) for nbytes, name in holders[:4] if nbytes)
    return SessionAdmissionError(session_id, device, needed, available, budgets[device], top)
