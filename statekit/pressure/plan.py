"""What a plan is made from and what it says: facts about sessions, decisions with their reasons.

Owns the words alone, so that whoever records facts or carries out decisions needs no planner. Not
here: how facts become decisions (`statekit.pressure.planner`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

import attrs

from statekit.spec import Tier

__all__ = [
    "DISK",
    "HOST",
    "Action",
    "Decision",
    "Facts",
    "Plan",
    "Policy",
    "SessionFacts",
    "ValueFacts",
]

Action = Literal["release", "park", "evict"]

HOST = "cpu"
"""The device under which bytes parked in host memory are counted."""
DISK = "disk"
"""The device under which bytes on disk are counted."""


@attrs.frozen
class ValueFacts:
    """One value as recorded.

    Attributes:
        name: its key in the session.
        nbytes: bytes by device that giving this value up would free, a parked value's under the
            device of its tier; storages that something else holds too free nothing.
        sources: keys, in the same session, that it is rebuilt from.
        rebuildable: whether it can be rebuilt now, from `sources` or from an input that is kept.
        released: whether it has been released, and would be rebuilt on its next use.
        cost: work to rebuild it, in any one unit.
        tiers: where it may be parked, in order of preference.
        parked: the tier that it is parked in already.
    """

    name: str
    nbytes: Mapping[str, int] = attrs.field(factory=dict)
    sources: tuple[str, ...] = ()
    rebuildable: bool = False
    released: bool = False
    cost: float = 0.0
    tiers: tuple[Tier, ...] = ()
    parked: Tier | None = None


@attrs.frozen
class SessionFacts:
    """One session as recorded; `last_used` orders sessions, smaller is longer ago."""

    session_id: str
    last_used: int
    leased: bool = False
    may_be_lost: bool = False
    values: tuple[ValueFacts, ...] = ()


@attrs.frozen
class Facts:
    """All that a plan depends on: budgets and use in bytes by device, and the sessions.

    Each session has an id of its own. A device without a budget has room for everything.
    `parking_takes` is what a tier takes for each parked value beyond its bytes, at most.
    """

    budgets: Mapping[str, int]
    used: Mapping[str, int]
    sessions: tuple[SessionFacts, ...] = ()
    parking_takes: Mapping[Tier, int] = attrs.field(factory=dict)


class Decision(NamedTuple):
    """One thing to do, what it frees, and why.

    Attributes:
        action: "release" and "park" are about one value, "evict" about a whole session.
        value: the value's key; None for a whole session.
        frees: bytes by device; what is parked is used on the tier's device instead.
        helps: the devices that this decision helps, and by how much they are over budget before it.
        tier: where a parked value goes.
        sources: what a released value is rebuilt from; empty for an input that is kept.
        cost_per_byte: what rebuilding it costs for each byte that helps.
    """

    action: Action
    session_id: str
    value: str | None
    frees: Mapping[str, int]
    helps: Mapping[str, int]
    tier: Tier | None = None
    sources: tuple[str, ...] = ()
    cost_per_byte: float = 0.0

    @property
    def reason(self) -> str:
        """Why, in words that an operator can check against the facts."""
        over = ", ".join(
            f"{device} is {nbytes} bytes over its budget" for device, nbytes in self.helps.items()
        )
        if self.action == "release":
            source = " and ".join(self.sources) or "an input that is kept"
            return f"{over}; can be rebuilt from {source} at {self.cost_per_byte:.3g} a byte"
        if self.action == "park":
            return f"{over}; the session is the least recently used one with a value to park"
        return (
            f"{over}; nothing is left to release or park, and the schema lets the session be lost"
        )


@attrs.frozen
class Plan:
    """The decisions in order, and what is over budget still when all are carried out."""

    decisions: tuple[Decision, ...] = ()
    still_over: Mapping[str, int] = attrs.field(factory=dict)


class Policy(Protocol):
    """Anything that turns facts into a plan; must depend on nothing else."""

    def __call__(self, facts: Facts, /) -> Plan: ...
