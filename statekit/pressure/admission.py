"""Admission: whether a new session's declared bytes fit, before it is built.

Owns the arithmetic of promises: what a session was admitted with counts until it holds more. Not
here: what is given up to make room (`statekit.pressure.relief`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from statekit.accounting import merge_bytes
from statekit.books.footprint import Interval
from statekit.books.record import Record, ValueLimit
from statekit.declared import ONE_RANK, Ranks, session_at_step
from statekit.errors import BudgetTooSmallError, SessionAdmissionError
from statekit.pressure.release_units import ReleaseUnit, unit_of
from statekit.spec import ModelSpec

__all__ = ["Promise", "missing", "promise", "promised", "refuse", "require_one_fits"]


@attrs.frozen
class Promise:
    """What one session is admitted with: bytes by real device, and the limit of each value.

    `staying` is the part of it that a session keeps also while nobody uses it: values that can
    neither be parked nor rebuilt, and that live longer than a request.
    """

    by_device: Mapping[str, int]
    staying: Mapping[str, int]
    limits: tuple[ValueLimit, ...]


def promise(
    spec: ModelSpec,
    model_device: str,
    overrides: Mapping[str, int] | None = None,
    tiers: Collection[str] = (),
    ranks: Ranks = ONE_RANK,
) -> Promise:
    """What `spec` declares for one session, with the second copies that a step needs.

    Unbounded values count with one item; values whose bytes nobody can compute count nothing.
    Remembered, since every session of a model is admitted with the same.

    Args:
        tiers: where the manager can park.
        ranks: the ranks that share the session, and the one that is promised its part.
    """
    numbers, groups = tuple(sorted((overrides or {}).items())), tuple(sorted(ranks.groups.items()))
    key = (id(spec), model_device, numbers, tuple(sorted(tiers)), groups, ranks.rank)
    found = _promises.get(key)
    if found is None:
        found = _promises[key] = (spec, _promise(spec, model_device, overrides, tiers, ranks))
    return found[1]


_promises: dict[tuple[object, ...], tuple[ModelSpec, Promise]] = {}


def _promise(
    spec: ModelSpec,
    model_device: str,
    overrides: Mapping[str, int] | None,
    tiers: Collection[str],
    ranks: Ranks,
) -> Promise:
    total: dict[str, int] = {}
    staying: dict[str, int] = {}
    limits = []
    for one in session_at_step(spec, None, overrides, model_device=model_device, ranks=ranks):
        value, device = one.value, one.device
        if one.nbytes is None or device == "none":
            continue
        nbytes = one.nbytes + one.pending_nbytes
        total[device] = total.get(device, 0) + nbytes
        unit = unit_of(spec, value)
        if value.lifetime == "session" and (unit is None or not _may_go(unit, tiers)):
            staying[device] = staying.get(device, 0) + nbytes
        if value.ring is None or value.ring.bounded:
            limits.append(
                ValueLimit(value.name, spec.key_pattern(value), value.bucket == "attrs", nbytes)
            )
    return Promise(total, staying, tuple(limits))


def _may_go(unit: ReleaseUnit, tiers: Collection[str]) -> bool:
    return unit.rebuildable or any(tier in tiers for tier in unit.tiers)


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
    patterns = [unit.pattern for unit in units if _may_go(unit, tiers)]
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
