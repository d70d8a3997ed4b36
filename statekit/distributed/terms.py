"""Terms: what all ranks of a group have agreed on when they joined, and the arithmetic of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from statekit.distributed.merging import on_rank
from statekit.errors import PolicyError, SessionAdmissionError
from statekit.pressure.plan import Facts, Plan, Policy
from statekit.spec import Tier

__all__ = ["Terms", "by_rank"]


def by_rank(bodies: Sequence[Mapping[str, Any]], word: str) -> dict[str, int]:
    """What all ranks said under `word`, in bytes by rank and device."""
    total: dict[str, int] = {}
    for rank, body in enumerate(bodies):
        total.update(on_rank(rank, body.get(word, {})))
    return total


@attrs.frozen
class Terms:
    """The same on all ranks.

    Attributes:
        budgets: bytes by rank and device.
        takes: what a tier takes for a parked value beyond its bytes, at most.
        idle_timeout_s: sessions that nobody used for so long, by the leader's clock, end.
    """

    budgets: Mapping[str, int]
    takes: Mapping[Tier, int]
    policy: Policy
    max_sessions: int
    idle_timeout_s: float | None

    def over(self, used: Mapping[str, int]) -> dict[str, int]:
        """The devices that are over their budgets, and by how much."""
        return {
            device: used[device] - limit
            for device, limit in self.budgets.items()
            if used.get(device, 0) > limit
        }

    def room(self, used: Mapping[str, int]) -> dict[str, int]:
        """What the budgets leave, below 0 where they are exceeded."""
        return {device: limit - used.get(device, 0) for device, limit in self.budgets.items()}

    def plan(self, facts: Facts) -> Plan:
        """What the policy makes of the facts.

        Raises:
            PolicyError: it failed.
        """
        name = getattr(self.policy, "__qualname__", type(self.policy).__qualname__)
        try:
            plan: object = self.policy(facts)
        except Exception as error:
            raise PolicyError(name, f"it raised {error!r}") from error
        if not isinstance(plan, Plan):
            raise PolicyError(name, f"it returned a {type(plan).__name__}, not a Plan")
        return plan

    def refused(
        self,
        key: str,
        declared: Mapping[str, int],
        over: Mapping[str, int],
        device: str,
        holders: Sequence[tuple[str, int]],
    ) -> SessionAdmissionError:
        """The error for a session that does not fit."""
        need = declared.get(device, 0)
        available = max(0, need - over[device])
        limit = self.budgets[device]
        return SessionAdmissionError(key, device, need, available, limit, holders)

    def table_is_full(self, key: str) -> SessionAdmissionError:
        """The error for a session that finds no place."""
        return SessionAdmissionError(key, "sessions", 1, 0, self.max_sessions, ())
