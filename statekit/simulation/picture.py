"""Pictures: what a session of one model holds after a step, and in which states it can be then.

Owns the step from bytes to a replica's books and the planner's words.

    P1  What the planner is told of a session is what `statekit.pressure.facts` tells of a real one
        that holds the same, with no memory shared between values or sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from statekit.byte_sums import merge_bytes
from statekit.pressure.plan import DISK, HOST, ValueFacts
from statekit.simulation.shape import Away, Face, Shape

if TYPE_CHECKING:
    from statekit.simulation.kind import Kind

__all__ = ["Picture", "parked_label"]

_DEVICE_OF: Mapping[str, str] = {"host": HOST, "disk": DISK}
_REST = "(the rest of the session)"


class Picture:
    """What a session of one kind holds after a step, and the states it can be in then."""

    def __init__(self, kind: Kind, step: int) -> None:
        self.kind = kind
        self._there = step > 0
        self._rest, self._units = kind.split(step)
        self._shapes: dict[tuple[tuple[Away, ...], frozenset[int]], Shape] = {}
        self.whole = self.shape((), frozenset())

    def shape(self, away: tuple[Away, ...], released: frozenset[int]) -> Shape:
        """The state in which this is parked and that is released."""
        found = self._shapes.get((away, released))
        if found is None:
            found = self._shapes[away, released] = self._shape(away, released)
        return found

    def _shape(self, away: tuple[Away, ...], released: frozenset[int]) -> Shape:
        kind = self.kind
        gone = {number for one in away for number in one.units}
        resident, going = dict(self._rest), dict[str, int]()
        for number, nbytes in enumerate(self._units):
            if number not in gone and number not in released:
                merge_bytes(resident, nbytes)
                if kind.units[number].may_go(kind.tiers):
                    merge_bytes(going, nbytes)
        came_from = [self._of(one.units) for one in away]
        parked = [
            kind.tiers[one.tier].parked(sum(nbytes.values()))
            for one, nbytes in zip(away, came_from, strict=True)
        ]
        coming = _left(kind.declared, resident, {})
        for device, back in _sum(came_from).items():
            coming[device] = max(coming.get(device, 0), back)
        used = dict(resident)
        movable = dict(going)
        for one, size in zip(away, parked, strict=True):
            merge_bytes(used, {_DEVICE_OF[one.tier]: size})
            if one.tier == "host" and "disk" in kind.tiers:
                merge_bytes(movable, {HOST: size})
        staying = dict(zip(kind.devices, kind.staying, strict=True))
        values = self._facts(away, parked, gone, released, resident)
        touches = tuple(
            [one for one in kind.devices if any(value.nbytes.get(one) for value in values)]
        )
        vector = kind.vector
        held = vector(used)
        return Shape(
            busy=Face(held + vector(_left(kind.declared, resident, {})) + vector({})),
            idle=Face(held + vector(_left(staying, resident, going)) + vector(movable), touches),
            values=values,
            coming=tuple([pair for pair in enumerate(vector(coming)) if pair[1]]),
            held_nbytes=sum(held),
            away=away,
            released=released,
            parked=tuple(parked),
        )

    def _of(self, units: tuple[int, ...]) -> dict[str, int]:
        """Bytes by device of these units together."""
        return _sum([self._units[number] for number in units])

    def _facts(
        self,
        away: tuple[Away, ...],
        parked: list[int],
        gone: set[int],
        released: frozenset[int],
        resident: Mapping[str, int],
    ) -> tuple[ValueFacts, ...]:
        """What the planner is told, in the words and the order of `statekit.pressure.facts`."""
        kind = self.kind
        values = []
        for one, size in zip(away, parked, strict=True):
            further = one.tier == "host" and "disk" in kind.tiers
            values.append(
                ValueFacts(
                    name=parked_label(kind, one),
                    nbytes={_DEVICE_OF[one.tier]: size},
                    tiers=("disk",) if further else (),
                    parked=one.tier,
                )
            )
        rest = dict(resident)
        for number, unit in enumerate(kind.units if self._there else ()):
            if number in gone:
                continue
            nbytes = {} if number in released else self._units[number]
            for device, part in nbytes.items():
                rest[device] -= part
            values.append(
                ValueFacts(
                    name=unit.label,
                    nbytes=nbytes,
                    sources=unit.sources,
                    rebuildable=unit.rebuildable,
                    released=number in released,
                    cost=unit.cost_ms,
                    tiers=tuple([tier for tier in unit.tiers if tier in kind.tiers]),
                )
            )
        if kind.may_be_lost:
            left = {device: nbytes for device, nbytes in rest.items() if nbytes > 0}
            values.append(ValueFacts(_REST, left))
        return tuple(values)


def parked_label(kind: Kind, away: Away) -> str:
    """What a plan calls units that are parked together."""
    labels = sorted(kind.units[number].label for number in away.units)
    return f"parked in {away.tier}: {', '.join(labels)}"


def _left(
    promised: Mapping[str, int], resident: Mapping[str, int], going: Mapping[str, int]
) -> dict[str, int]:
    """What is promised and not there, as `statekit.pressure.admission` counts it."""
    return {
        device: max(0, nbytes - resident.get(device, 0) + going.get(device, 0))
        for device, nbytes in promised.items()
    }


def _sum(parts: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        merge_bytes(total, part)
    return total
