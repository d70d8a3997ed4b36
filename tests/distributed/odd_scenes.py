"""Scenes in which ranks do not fit together, or one of them is late: what every rank sees of it."""

from __future__ import annotations

import gc
import time
from typing import Any

import attrs
import torch
import torch.distributed as dist

from statekit.declared import Ranks
from statekit.distributed import GroupSessions
from statekit.manager import SessionStateManager
from statekit.objects import HeldValue
from statekit.pressure.plan import Facts, Plan
from statekit.pressure.planner import plan_release
from tests.distributed.scenes import group_of
from tests.distributed.short_scenes import PARKED_ONLY, ROOMY, away, said, used
from tests.distributed.toys import COPIED, LOSABLE


def differing_calls(rank: int, size: int) -> Any:
    group = group_of(rank, size, ROOMY)
    for key in ("one", "two"):
        used(group, key, begin=COPIED)
    used(group, "one" if rank == 0 else "two")
    used(group, "two")
    return said(group.relieve), said(lambda: used(group, "one")), said(group.expire)


def a_call_too_many(rank: int, size: int) -> Any:
    group = group_of(rank, size, ROOMY)
    used(group, "one", begin=COPIED)
    return said(group.relieve if rank == 0 else lambda: group.drop_session("one")), group.table()


def differing_schemas(rank: int, size: int) -> Any:
    group = group_of(rank, size, ROOMY)
    spec = COPIED if rank == 0 else attrs.evolve(COPIED, symbols={"H": 4})
    first = said(lambda: used(group, "one", begin=spec))
    return first, said(lambda: used(group, "one", begin=COPIED)), len(group)


def set_up_differently(rank: int, size: int) -> Any:
    manager = SessionStateManager(ranks=Ranks({"tp": size}, rank))
    found = [
        said(lambda: GroupSessions(manager, look_every=8 + rank, timeout_s=9)),
        said(lambda: GroupSessions(manager, policy=(_first, _second)[rank], timeout_s=9)),
    ]
    groups: dict[str, int] = {"tp": size} if rank == 0 else {"sp": size}
    other = SessionStateManager(ranks=Ranks(groups, rank))
    found.append(said(lambda: GroupSessions(other, timeout_s=9)))
    strange = SessionStateManager(ranks=Ranks({"tp": size}, rank))
    if rank == 1:
        strange.get_or_create_session("mine")
    found.append(said(lambda: GroupSessions(strange, timeout_s=9)))
    return found


def managers_that_do_not_fit(rank: int, size: int) -> list[str]:
    ranks = Ranks({"tp": size}, rank)
    managers = [
        SessionStateManager(),
        SessionStateManager(ranks=Ranks({"tp": size}, 1 - rank)),
        SessionStateManager(ranks=ranks, budgets={"cpu": 1}),
        SessionStateManager(ranks=ranks, idle_timeout_s=5.0),
    ]
    return [said(lambda one=one: GroupSessions(one)) for one in managers]  # type: ignore[misc]


def fractions(rank: int, size: int) -> Any:
    group = group_of(rank, size, {"cpu": "50%", "disk": 0.5})
    return group.budgets


def too_small(rank: int, size: int) -> str:
    return said(lambda: group_of(rank, size, {"cpu": 20_000 >> (2 * rank)}, specs=[COPIED]))


def _first(facts: Facts) -> Plan:
    return plan_release(facts)


def _second(facts: Facts) -> Plan:
    raise ValueError("no idea")


def _fickle(rank: int) -> Any:
    def fickle(facts: Facts) -> Plan:
        plan = plan_release(facts)
        return attrs.evolve(plan, decisions=plan.decisions[rank:])

    return fickle


def policies(rank: int, size: int) -> Any:
    budgets = {"cpu": 20_000, "disk": "1GiB"}
    found = []
    for policy in (_second, _fickle(rank)):
        group = group_of(rank, size, budgets, policy=policy)
        for key in ("one", "two"):
            used(group, key, "cache", begin=PARKED_ONLY)
        found.append(said(lambda group=group: used(group, "three", begin=PARKED_ONLY)))  # type: ignore[misc]
        found.append(str(away(group)))
        found.append(said(lambda group=group: group.drop_session("one")))  # type: ignore[misc]
    return found


def left_without_a_word(rank: int, size: int) -> Any:
    group = group_of(rank, size, ROOMY)
    used(group, "one", begin=COPIED)
    leases = [group.lease("one"), group.lease("one")]
    for lease in leases:
        lease.begin()
    found = [group.table()[0][2]]
    if rank == 0:
        leases.pop()
        del lease
        gc.collect()
    group.relieve()
    found.append(group.table()[0][2])
    leases.clear()
    lease = None
    gc.collect()
    group.relieve()
    record = group.manager._table.holds("one")
    return [*found, group.table()[0][2], None if record is None else record.leases]


def full_table(rank: int, size: int) -> Any:
    group = group_of(rank, size, ROOMY, max_sessions=2)
    used(group, "one", begin=COPIED)
    used(group, "two", "state", begin=LOSABLE)
    held = group.manager.get_or_create_session("two") if rank == 1 else None
    used(group, "three", begin=COPIED)
    found = [
        list(group),
        said(lambda: used(group, "four", begin=COPIED)),
        said(lambda: used(group, "two")).partition(" s ago")[0].rpartition(" ")[0],
    ]
    group.drop_session("three")
    found.append(said(lambda: used(group, "two", begin=LOSABLE)))
    del held
    gc.collect()
    used(group, "two", begin=LOSABLE)
    return [*found, list(group), len(group.manager)]


class Stubborn(HeldValue):
    """Cannot be reset on rank 1 once it holds something."""

    def reset(self) -> None:
        if dist.get_rank() == 1 and self.committed() is not None:
            raise OSError("the engine does not answer")
        super().reset()


def a_reset_that_fails(rank: int, size: int) -> Any:
    group = group_of(rank, size, ROOMY)
    with group.lease("one", begin=COPIED) as session:
        stubborn = Stubborn().allocate()
        stubborn.append(torch.zeros(1))
        session.put("cache", stubborn)
    try:
        first: object = group.drop_session("one")
    except Exception as error:
        first = f"{type(error).__name__}: {error}"
    return first, len(group), said(lambda: used(group, "one", begin=COPIED))


def strange_sessions(rank: int, size: int) -> Any:
    group = group_of(rank, size, ROOMY)
    if rank == 1:
        group.manager.get_or_create_session("mine")
    first = said(group.relieve)
    group.manager.drop_session("mine")
    return first, said(group.relieve), said(lambda: group.get_or_create_session("other"))


def a_group_of_its_own(rank: int, size: int) -> Any:
    """The last two ranks of three, beside a model's collectives in the whole group."""
    group = dist.new_group([1, 2])
    if rank == 0:
        dist.barrier()
        return "another model"
    sessions = SessionStateManager(ranks=Ranks({"cfg": 2}, rank - 1))
    found = GroupSessions(sessions, group, budgets=ROOMY, timeout_s=9)
    used(found, "one", "state", begin=COPIED)
    dist.barrier()
    used(found, "one", "state")
    found.relieve()
    return found.rank, found.table(), sorted(found.used)


def late(rank: int, size: int, late_s: float, timeout_s: float) -> Any:
    group = group_of(rank, size, ROOMY)
    used(group, "one", begin=COPIED)
    group._exchange.timeout_s = timeout_s  # only now: a busy machine takes its time to get here
    if rank == 1:
        time.sleep(late_s)
    began_at = time.monotonic()
    found = said(group.relieve)
    return found, time.monotonic() - began_at, group.table()
