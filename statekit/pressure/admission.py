"""Admission: whether a new session's declared bytes fit, before it is built.

Owns the arithmetic of promises: what a session was admitted with counts until it holds more. Not
here: what is given up to make room (`statekit.pressure.relief`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from statekit.books.record import Record, ValueLimit
from statekit.declared import declared_bytes
from statekit.errors import BudgetTooSmallError, SessionAdmissionError
from statekit.spec import ModelSpec

__all__ = ["Promise", "promise", "promised", "refuse", "require_one_fits"]


@attrs.frozen
class Promise:
    """What one session is admitted with: bytes by real device, and the limit of each value."""

    by_device: Mapping[str, int]
    limits: tuple[ValueLimit, ...]


def promise(
    spec: ModelSpec, model_device: str, overrides: Mapping[str, int] | None = None
) -> Promise:
    """What `spec` declares for one session, with the second copies that a step needs.

    Unbounded values count with one item; values whose bytes nobody can compute count nothing.
    Remembered, since every session of a model is admitted with the same.
    """
    key = (id(spec), model_device, tuple(sorted((overrides or {}).items())))
    found = _promises.get(key)
    if found is None:
        found = _promises[key] = (spec, _promise(spec, model_device, overrides))
    return found[1]


_promises: dict[tuple[object, ...], tuple[ModelSpec, Promise]] = {}


def _promise(spec: ModelSpec, model_device: str, overrides: Mapping[str, int] | None) -> Promise:
    total: dict[str, int] = {}
    limits = []
    for value in spec:
        declared = declared_bytes(spec, value, overrides)
        if declared is None or value.device == "none":
            continue
        device = model_device if value.device == "model" else value.device
        nbytes = max(declared.first, declared.steady) + declared.pending
        total[device] = total.get(device, 0) + nbytes
        if value.ring is None or value.ring.bound is not None:
            limits.append(
                ValueLimit(value.name, spec.key_pattern(value), value.bucket == "attrs", nbytes)
            )
    return Promise(total, tuple(limits))


def promised(records: Iterable[Record]) -> dict[str, int]:
    """Bytes by device that live sessions were admitted with and do not hold yet.

    A session that is parked has been given nothing in advance: room is made when it comes back.
    """
    total: dict[str, int] = {}
    for record in records:
        if record.declared and not record.units:
            measured = record.measured()
            for device, nbytes in record.declared.items():
                missing = nbytes - measured.get(device, 0)
                if missing > 0:
                    total[device] = total.get(device, 0) + missing
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
