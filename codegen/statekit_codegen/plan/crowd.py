"""Crowd: what so many sessions of some models take on each device, and how many fit.

Owns the arithmetic of many sessions. All of them in use is what the runtime admits by; where
sessions that wait are put away, only so many are in use at a time: of each model its share of them,
rounded up.

    C1  What is parked goes where the schema prefers it, as far as there is room; what finds none
        stays where it is. What lies in host memory goes first, for others are parked there; then
        what has the fewest places to go to.
    C2  One session more never makes room: so the greatest number that fits is found by halving.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from statekit.spec import Tier
from statekit_codegen.plan.need import Need, Relief, ValueNeed

__all__ = ["ENDLESS", "Group", "first_over", "greatest", "occupied", "over", "repeated"]

ENDLESS = 2**40
"""From so many sessions on, nothing limits them."""

_DEVICE_OF: Mapping[Tier, str] = {"host": "cpu", "disk": "disk"}


@attrs.frozen
class Group:
    """So many sessions of one model."""

    need: Need
    count: int


def occupied(
    groups: Iterable[Group],
    budgets: Mapping[str, int],
    active: int,
    relief: Collection[Relief] = (),
) -> dict[str, int]:
    """Bytes by device that the sessions take.

    Args:
        budgets: bytes by device. Nothing is parked on a disk that is not among them.
        active: how many of the sessions are in use, if `relief` is done with the others.
        relief: what is done with the others; nothing: all of them keep everything.
    """
    crowd = tuple(groups)
    size = sum(group.count for group in crowd)
    used: dict[str, int] = {}
    waiting: list[tuple[ValueNeed, int]] = []
    for group in crowd:
        busy = min(group.count, -(-active * group.count // size)) if relief else group.count
        _add(used, group.need.in_use(), busy)
        _add(used, group.need.staying(relief), group.count - busy)
        waiting += [(one, group.count - busy) for one in group.need.parked(relief)]
    waiting.sort(key=lambda pair: (pair[0].device != "cpu", len(_places(pair[0], budgets))))
    for one, count in waiting:
        _put_away(used, budgets, one, count)
    return used


def over(used: Mapping[str, int], budgets: Mapping[str, int]) -> dict[str, int]:
    """By how many bytes which budgets are exceeded."""
    excess = {device: used.get(device, 0) - limit for device, limit in budgets.items()}
    return {device: nbytes for device, nbytes in excess.items() if nbytes > 0}


def first_over(
    groups: Iterable[Group],
    budgets: Mapping[str, int],
    active: int,
    relief: Collection[Relief] = (),
) -> str:
    """The device whose budget is exceeded by the largest part of it; empty where none is."""
    excess = over(occupied(groups, budgets, active, relief), budgets)
    return max(excess, key=lambda device: excess[device] / budgets[device], default="")


def repeated(groups: Iterable[Group], times: int) -> tuple[Group, ...]:
    """So many times these sessions."""
    return tuple(attrs.evolve(group, count=group.count * times) for group in groups)


def greatest(
    unit: Iterable[Group],
    budgets: Mapping[str, int],
    active: int,
    relief: Collection[Relief] = (),
) -> int | None:
    """How many times the sessions of `unit` fit; None where nothing limits them."""
    groups = tuple(unit)

    def fits(times: int) -> bool:
        return not over(occupied(repeated(groups, times), budgets, active, relief), budgets)

    beyond = 1
    while fits(beyond):
        if beyond >= ENDLESS:
            return None
        beyond *= 2
    least, beyond = beyond // 2, beyond
    while beyond - least > 1:
        middle = (least + beyond) // 2
        least, beyond = (middle, beyond) if fits(middle) else (least, middle)
    return least


def _places(one: ValueNeed, budgets: Mapping[str, int]) -> list[str]:
    """The devices that it may be parked on."""
    return [_DEVICE_OF[tier] for tier in one.tiers if tier != "disk" or "disk" in budgets]


def _put_away(used: dict[str, int], budgets: Mapping[str, int], one: ValueNeed, count: int) -> None:
    """Park a value of `count` sessions, by C1."""
    assert one.nbytes
    for device in _places(one, budgets):
        room = count
        if device in budgets:
            room = max(0, budgets[device] - used.get(device, 0)) // one.nbytes
        moved = min(count, room)
        used[device] = used.get(device, 0) + moved * one.nbytes
        count -= moved
    used[one.device] = used.get(one.device, 0) + count * one.in_use_nbytes


def _add(used: dict[str, int], nbytes: Mapping[str, int], times: int) -> None:
    for device, number in nbytes.items():
        used[device] = used.get(device, 0) + number * times
