"""Joining: how the ranks of a group find out that they fit together, and which sessions they share.

Owns the first meeting: versions, settings and budgets are compared, and the sessions that managers
hold already are reconciled, where some rank of an older group is lost.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch.distributed as dist

from statekit.distributed.exchange import Exchange, ExchangeError
from statekit.distributed.merging import on_rank
from statekit.distributed.register import Register, Store, StoreError
from statekit.errors import GroupError, RankLostError, RanksDifferError
from statekit.manager import SessionStateManager
from statekit.pressure.plan import Policy
from statekit.spec import Tier

__all__ = ["Joined", "join", "name_of", "require_fit", "store_of"]

WIRE = 1
"""Rises whenever what ranks say to each other changes."""

_CALL = "GroupSessions(...)"
_SAME = "set all ranks up alike, with the same version of statekit"
_ALIKE = ("settings", "groups")


@attrs.frozen
class Joined:
    """What the ranks found out.

    Attributes:
        budgets: of all ranks, by rank and device.
        takes: what tiers take beyond a parked value's bytes, the most of all ranks.
        devices: the model's device on each rank.
        kept: the sessions that all ranks have, least recently used first: id, may be lost, parked.
        ended: those that this rank must end, with the reason.
    """

    register: Register
    budgets: Mapping[str, int]
    takes: Mapping[Tier, int]
    devices: Sequence[str]
    kept: Sequence[tuple[str, bool, bool]]
    ended: Mapping[str, str]


def join(exchange: Exchange, store: Store, hello: Mapping[str, Any]) -> Joined:
    """Meet the others for the first time.

    Args:
        hello: what this rank is, as plain data: settings, groups, budgets, takes, device, sessions,
            and older, its rank and size in the group before, or None.

    Raises:
        RanksDifferError: they do not fit together.
        RankLostError: a rank did not come.
        GroupError: sessions of an older group are in use.
    """
    mine = {"statekit": WIRE, "token": uuid.uuid4().hex, **hello}
    try:
        said = exchange.gather(json.dumps(mine).encode())
    except ExchangeError as error:
        raise RankLostError(_CALL, (), str(error)) from error
    hellos = [_read(rank, one) for rank, one in enumerate(said)]
    for word in _ALIKE:
        _require_alike(word, hellos)
    name = f"statekit/{hellos[0]['token']}"
    register = Register(store, name, exchange.rank, exchange.size, exchange.timeout_s)
    try:
        register.begin()
    except StoreError as error:
        found = f"{error}, and it keeps what was decided"
        raise GroupError(_CALL, found, "pass store=, one that all ranks reach") from error
    budgets: dict[str, int] = {}
    takes: dict[Tier, int] = {}
    for rank, one in enumerate(hellos):
        budgets.update(on_rank(rank, one["budgets"]))
        for tier, nbytes in one["takes"].items():
            takes[tier] = max(takes.get(tier, 0), nbytes)
    kept, ended = _reconciled(hellos, exchange.rank)
    return Joined(register, budgets, takes, [one["device"] for one in hellos], kept, ended)


def store_of(group: dist.ProcessGroup | None) -> Store:
    """The store that the ranks of the group met by."""
    pg: Any = dist.group.WORLD if group is None else group
    if hasattr(pg, "get_group_store"):
        found: Store = pg.get_group_store()
        return found
    c10d: Any = dist.distributed_c10d  # torch before 2.7
    old: Store = c10d._get_default_store()
    return old


def name_of(policy: Policy) -> str:
    """What tells one policy from another."""
    name: str = getattr(policy, "__qualname__", type(policy).__qualname__)
    return name


def require_fit(manager: SessionStateManager, exchange: Exchange) -> None:
    """Refuse a manager that would decide by itself, or is another rank's.

    Raises:
        GroupError: with what to change.
    """
    ranks = manager.ranks
    if manager.budgets or manager.idle_timeout_s is not None:
        found = "the manager has budgets or an idle timeout of its own"
        raise GroupError(_CALL, found, "give them to the group instead")
    if (ranks.count, ranks.rank) != (exchange.size, exchange.rank):
        found = (
            f"the manager is rank {ranks.rank} of {ranks.count}, "
            f"the process group has it as rank {exchange.rank} of {exchange.size}"
        )
        todo = f'make it with ranks=Ranks({{"tp": {exchange.size}}}, {exchange.rank}), or the like'
        raise GroupError(_CALL, found, todo)


def _read(rank: int, said: bytes) -> dict[str, Any]:
    try:
        hello: Any = json.loads(said)
    except ValueError:
        hello = None
    if not isinstance(hello, dict) or hello.get("statekit") != WIRE:
        found = "nothing that is understood"
        if isinstance(hello, dict):
            found = f"version {hello.get('statekit')!r} of what ranks say to each other"
        raise RanksDifferError(f"rank {rank} speaks {found}, this rank version {WIRE}", _SAME)
    return hello


def _require_alike(word: str, hellos: Sequence[Mapping[str, Any]]) -> None:
    first = hellos[0][word]
    for rank, one in enumerate(hellos):
        if one[word] != first:
            found = f"{word} are {first!r} on rank 0 and {one[word]!r} on rank {rank}"
            raise RanksDifferError(found, _SAME)


def _reconciled(
    hellos: Sequence[Mapping[str, Any]], rank: int
) -> tuple[list[tuple[str, bool, bool]], dict[str, str]]:
    """The sessions that all ranks have, and those that this one ends."""
    held = [{row[0]: row for row in one["sessions"]} for one in hellos]
    used = sorted({row[0] for one in hellos for row in one["sessions"] if row[2]})
    if used:
        found = f"leases of {', '.join(map(repr, used[:4]))} have not ended"
        raise GroupError(_CALL, found, "end all leases before ranks join a group")
    older = [one["older"] for one in hellos if one["older"]]
    if not older and any(one.keys() != held[0].keys() for one in held):
        found = "their managers do not hold the same sessions"
        raise RanksDifferError(found, "begin with empty managers, or use survivors(group)")
    present = {old_rank for old_rank, _ in older}
    lost = [one for one in range(older[0][1] if older else 0) if one not in present]
    kept: list[tuple[str, bool, bool]] = []
    ended: dict[str, str] = {}
    order: dict[str, Sequence[Any]] = {}
    for one in held:
        for key, row in one.items():
            order.setdefault(key, row)
    for key, row in sorted(order.items(), key=lambda item: (item[1][1], item[0])):
        missing = [number for number, one in enumerate(held) if key not in one]
        whole = all(one[key][5] for one in held if key in one)
        if missing:
            ended[key] = f"rank {missing[0]} of the new group does not have it"
        elif lost and not whole:
            ended[key] = f"rank {lost[0]} held a part of it, and is lost"
        else:
            away = any(one[key][4] for one in held)
            kept.append((key, row[3], away))
    return kept, {key: why for key, why in ended.items() if key in held[rank]}
