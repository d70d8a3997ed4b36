"""Schemas: what a group reads from a model's spec, for every rank of it.

All ranks compute the same from the same spec, so that nothing of it has to be said: what a session
is declared to hold on each of them, and how it grows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

from statekit.declared import Ranks, session_at_step
from statekit.distributed.merging import on_rank
from statekit.distributed.table import Growth
from statekit.pressure.promise import promise
from statekit.spec import ModelSpec

__all__ = ["Schemas"]

Numbers = Mapping[str, int] | None
"""What stands for a spec's own numbers in one session."""


class Schemas:
    """Specs as one group reads them, each once.

    Args:
        groups: size of each parallel group.
        devices: the model's device on each rank.
        tiers: where values can be parked.
    """

    def __init__(
        self, groups: Mapping[str, int], devices: Sequence[str], tiers: Collection[str]
    ) -> None:
        self._ranks = [(Ranks(groups, rank), device) for rank, device in enumerate(devices)]
        self._tiers = tuple(tiers)
        self._names: dict[int, tuple[ModelSpec, str]] = {}
        self._growth: dict[tuple[object, ...], tuple[ModelSpec, tuple[Growth, ...]]] = {}

    def declared(self, spec: ModelSpec, overrides: Numbers) -> dict[str, int]:
        """What a session is declared to hold, by rank and device."""
        total: dict[str, int] = {}
        for ranks, device in self._ranks:
            promised = promise(spec, device, overrides, self._tiers, ranks)
            total.update(on_rank(ranks.rank, promised.by_device))
        return total

    def name(self, spec: ModelSpec, overrides: Numbers) -> str:
        """The same on two ranks that have the same spec and numbers."""
        found = self._names.get(id(spec))
        if found is None:  # holds the spec: its id stays its own
            text = hashlib.blake2b(repr(spec).encode(), digest_size=8).hexdigest()
            found = self._names[id(spec)] = (spec, text)
        return f"{found[1]} {sorted((overrides or {}).items())}"

    def growth(self, spec: ModelSpec, overrides: Numbers) -> tuple[Growth, ...]:
        """What a forward adds to a session, on every rank."""
        key = (id(spec), tuple(sorted((overrides or {}).items())))
        found = self._growth.get(key)
        if found is None:
            growth = [
                (f"rank{ranks.rank}/{one.device}", one.declared.growth, one.declared.every_steps)
                for ranks, device in self._ranks
                for one in session_at_step(spec, None, overrides, model_device=device, ranks=ranks)
                if one.declared is not None and one.declared.growth
            ]
            found = self._growth[key] = (spec, tuple(growth))
        return found[1]
