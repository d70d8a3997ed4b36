"""Promise: what a session is admitted with, as its schema declares it.

Owns the way from a spec to the bytes that are promised, and to the limit of each value. Needs no
torch, so that a simulation admits by the very same figures as a manager.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from statekit.books.limit import ValueLimit
from statekit.byte_sums import merge_bytes
from statekit.declared import ONE_RANK, Ranks, session_at_step
from statekit.pressure.release_units import unit_of
from statekit.spec import ModelSpec

__all__ = ["Promise", "promise"]


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
        merge_bytes(total, {device: nbytes})
        unit = unit_of(spec, value)
        if value.lifetime == "session" and (unit is None or not unit.may_go(tiers)):
            merge_bytes(staying, {device: nbytes})
        if value.ring is None or value.ring.bounded:
            limits.append(
                ValueLimit(value.name, spec.key_pattern(value), value.bucket == "attrs", nbytes)
            )
    return Promise(total, staying, tuple(limits))
