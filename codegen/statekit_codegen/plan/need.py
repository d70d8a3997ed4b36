"""Need: what one session needs on each device, and what of it can go while nobody uses it.

Owns the step from declared bytes to a claim on devices. What can go, and where to, is what the
runtime does: release units (`statekit.pressure.release_units`). Not here: how many sessions there
are (`crowd`).

    N1  A session in use takes its bytes and the second copies that a step needs: as it is admitted.
    N2  A session that waits keeps the same of every value that can neither be parked nor rebuilt:
        as the runtime keeps it promised. What something released is rebuilt from stays; what lives
        for a request only is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import attrs

from statekit.declared import ONE_RANK, Ranks, ValueBytes, declared_bytes
from statekit.errors import ExpressionError, GenerateError
from statekit.pressure.release_units import unit_of
from statekit.spec import ModelSpec, Tier
from statekit_codegen.plan.question import Question, device_named
from statekit_codegen.session import chosen_numbers, declared_session

__all__ = ["Need", "Relief", "ValueNeed", "fullest_rank", "need_of", "session"]

Relief = Literal["park", "rebuild"]
"""What is done with values of sessions that wait: put away, or released to be rebuilt."""


@attrs.frozen
class ValueNeed:
    """One value of a session.

    Attributes:
        name: its name.
        device: where it lies.
        nbytes: its bytes after the step that is asked for; None where nobody can compute them.
        pending_nbytes: bytes beside these while a step runs.
        grown_nbytes: how many of `nbytes` are growth, beyond one item.
        tiers: where it may be parked, in order of preference.
        rebuildable: whether it may be released, because it can be rebuilt.
        source: whether something that may be released is rebuilt from it.
        of_a_request: whether it is there only while a request uses the session.
    """

    name: str
    device: str
    nbytes: int | None
    pending_nbytes: int = 0
    grown_nbytes: int = 0
    tiers: tuple[Tier, ...] = ()
    rebuildable: bool = False
    source: bool = False
    of_a_request: bool = False

    @property
    def in_use_nbytes(self) -> int:
        """Its bytes in a session that is in use, by N1."""
        return (self.nbytes or 0) + self.pending_nbytes


@attrs.frozen
class Need:
    """One session of a model, on one rank."""

    model: str
    values: tuple[ValueNeed, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that it has values on, in the schema's order."""
        return tuple(dict.fromkeys(one.device for one in self.values if one.device != "none"))

    @property
    def unknown(self) -> tuple[str, ...]:
        """Values whose bytes nobody can compute."""
        return tuple(one.name for one in self.values if one.nbytes is None)

    def in_use(self) -> dict[str, int]:
        """Bytes by device of a session that is in use."""
        return _sum(self.values)

    def staying(self, relief: Iterable[Relief]) -> dict[str, int]:
        """Bytes by device of a session that waits."""
        gone = frozenset(relief)
        return _sum(one for one in self.values if not _goes(one, gone))

    def going(self, relief: Iterable[Relief]) -> tuple[ValueNeed, ...]:
        """What a session that waits does not keep."""
        gone = frozenset(relief)
        return tuple(one for one in self.values if _goes(one, gone))

    def parked(self, relief: Iterable[Relief]) -> tuple[ValueNeed, ...]:
        """What of it is put away; what is released takes nothing anywhere."""
        gone = frozenset(relief)
        released = "rebuild" in gone
        return tuple(
            one for one in self.going(gone) if one.nbytes and not (released and one.rebuildable)
        )

    def without_growth(self) -> Need:
        """The same with one item of everything that grows."""
        return attrs.evolve(
            self,
            values=tuple(
                one
                if one.nbytes is None
                else attrs.evolve(one, nbytes=one.nbytes - one.grown_nbytes, grown_nbytes=0)
                for one in self.values
            ),
        )


def need_of(spec: ModelSpec, file: str, asked: Question) -> Need:
    """The need of one session of `spec` on its fullest rank.

    Raises:
        GenerateError: a size has no value under the numbers, or a value is on a rank that is not.
    """
    held = session(spec, file, asked, asked.step)
    sources = _sources(spec)
    return Need(spec.model, tuple(_value(spec, one, sources) for one in held))


def session(spec: ModelSpec, file: str, asked: Question, step: int) -> tuple[ValueBytes, ...]:
    """Every value of a session on its fullest rank, on devices as byte counts name them.

    Raises:
        GenerateError: a number is out of its bounds, a size has no value under the numbers, or a
            value is on a rank that is not.
    """
    held = declared_session(
        spec,
        file,
        chosen_numbers(spec, file, asked.numbers),
        step,
        model_device=asked.model_device,
        ranks=fullest_rank(spec, file, asked),
    )
    return tuple(attrs.evolve(one, device=device_named(one.device)) for one in held)


def fullest_rank(spec: ModelSpec, file: str, asked: Question) -> Ranks:
    """The rank that holds the most bytes, the first of several.

    Raises:
        GenerateError: a value is on a rank that there is not.
    """
    ranks = Ranks(asked.groups)
    if ranks.count == 1:
        return ONE_RANK
    numbers = chosen_numbers(spec, file, asked.numbers)
    lone: dict[int, int] = {0: 0}
    for value in spec:
        rank = None if value.sharding is None else value.sharding.rank
        if rank is None:
            continue
        if rank >= ranks.count:
            raise GenerateError(
                f"{file}: {value.name}",
                f"it lies on rank {rank}, and there are {ranks.count}",
                f"use at least {rank + 1} ranks, or none",
            )
        try:
            declared = declared_bytes(spec, value, numbers)
        except ExpressionError as error:
            raise GenerateError(f"{file}: {value.name}", error.found, error.todo) from error
        lone[rank] = lone.get(rank, 0) + (declared.at_step(asked.step) if declared else 0)
    return attrs.evolve(ranks, rank=max(sorted(lone), key=lambda rank: lone[rank]))


def _value(spec: ModelSpec, one: ValueBytes, sources: frozenset[str]) -> ValueNeed:
    unit = unit_of(spec, one.value)
    declared = one.declared
    grown = 0
    if declared is not None and declared.growth and one.nbytes is not None:
        grown = max(0, one.nbytes - declared.steady)
    tiers = () if unit is None else unit.tiers
    if one.device == "cpu":  # what is in host memory gains nothing by going there
        tiers = tuple(tier for tier in tiers if tier != "host")
    return ValueNeed(
        name=one.value.name,
        device=one.device,
        nbytes=one.nbytes,
        pending_nbytes=one.pending_nbytes,
        grown_nbytes=grown,
        tiers=tiers,
        rebuildable=unit is not None and unit.rebuildable,
        source=one.value.name in sources,
        of_a_request=one.value.lifetime == "request",
    )


def _goes(one: ValueNeed, relief: frozenset[Relief]) -> bool:
    if one.of_a_request:
        return True
    if "rebuild" in relief:
        return not one.source and (one.rebuildable or ("park" in relief and bool(one.tiers)))
    return "park" in relief and bool(one.tiers)


def _sources(spec: ModelSpec) -> frozenset[str]:
    """The values that something of another unit, which may be released, is rebuilt from."""
    found = set()
    for value in spec:
        unit = unit_of(spec, value)
        if unit is None or not unit.rebuildable or value.rebuild is None:
            continue
        own = {one.name for one in spec if unit_of(spec, one) is unit}
        found.update(set(value.rebuild.sources) - own)
    return frozenset(found)


def _sum(values: Iterable[ValueNeed]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in values:
        if one.device != "none":
            total[one.device] = total.get(one.device, 0) + one.in_use_nbytes
    return total
