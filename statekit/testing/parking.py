"""Parking on demand: put away now all that a schema lets be parked, whatever the budgets say.

manager = SessionStateManager(park_folder=tmp_path)
adapter = MyState("s", manager)
...
park_now(manager)       # every value that may be parked is on disk now
adapter.cache           # and comes back when it is read
"""

from __future__ import annotations

from statekit.manager import SessionStateManager
from statekit.pressure.facts import session_facts
from statekit.pressure.plan import Decision, Facts, Plan

__all__ = ["park_everything", "park_now"]


def park_everything(facts: Facts) -> Plan:
    """A policy: park every value that may be, of every session that nobody uses."""
    return Plan(
        tuple(
            Decision("park", session.session_id, value.name, value.nbytes, {}, value.tiers[0])
            for session in facts.sessions
            for value in session.values
            if value.tiers and value.parked is None and not session.leased
        )
    )


def park_now(manager: SessionStateManager) -> int:
    """Park every value that may be, of every session that nobody uses; how many parks that took.

    A session's values for one tier are one park. What is empty, or has staged data, stays; and so
    do sessions that no lease began, for nobody said that their values may go.
    """
    records = manager._refreshed()
    relief = manager._relief
    sessions = tuple(session_facts(one, relief._ledger, relief._tiers) for one in records)
    plan = park_everything(Facts(manager.budgets, relief.used(), sessions))
    return relief.carry_out(plan, records).done
