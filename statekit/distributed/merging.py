"""Merging: what all ranks say of their sessions, as facts for one planner.

A value is one unit over the group: given up on all ranks or on none. Its bytes are those of all
ranks, under device names that begin with the rank, such as `rank1/cuda:0`.

    M1  From the same words the same facts, on every rank.
    M2  A rank says again only what has changed since it said it last; all ranks remember the rest.
    M3  A value can be rebuilt where every rank that has it says so; it can be parked in the tiers
        that all of these offer. A rank that has none of it has no say.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import attrs

from statekit.distributed.table import Entry
from statekit.pressure.plan import Facts, SessionFacts, ValueFacts
from statekit.spec import Tier

__all__ = ["Memory", "merge_values", "on_rank"]

Words = list[Any]
"""One session as a rank says it: its values, and the bytes that it measured by device."""


def on_rank(rank: int, nbytes: Mapping[str, int]) -> dict[str, int]:
    """Bytes by rank and device."""
    return {f"rank{rank}/{device}": count for device, count in nbytes.items()}


def merge_values(by_rank: Sequence[Sequence[ValueFacts]]) -> tuple[ValueFacts, ...]:
    """The values of one session over all ranks; those of one name are one value (M3)."""
    merged: dict[str, ValueFacts] = {}
    for rank, values in enumerate(by_rank):
        for value in values:
            nbytes = on_rank(rank, value.nbytes)
            known = merged.get(value.name)
            if known is None:
                merged[value.name] = attrs.evolve(value, nbytes=nbytes)
                continue
            total = dict(known.nbytes)
            for device, count in nbytes.items():
                total[device] = total.get(device, 0) + count
            merged[value.name] = attrs.evolve(
                known,
                nbytes=total,
                rebuildable=known.rebuildable and value.rebuildable,
                released=known.released and value.released,
                cost=max(known.cost, value.cost),
                tiers=tuple(tier for tier in known.tiers if tier in value.tiers),
            )
    return tuple(merged.values())


class Memory:
    """What all ranks have said of their sessions."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank = rank
        self._size = size
        self._looks: dict[str, tuple[SessionFacts, Mapping[str, int]]] = {}
        self._said: dict[str, str] = {}
        self._heard: dict[str, list[tuple[tuple[ValueFacts, ...], Mapping[str, int]]]] = {}
        self._merged: dict[str, tuple[ValueFacts, ...]] = {}

    def news(self, sessions: Iterable[tuple[SessionFacts, Mapping[str, int]]]) -> dict[str, Words]:
        """What this rank says now: the sessions of which it has to say something new."""
        news = {}
        for facts, measured in sessions:
            known = self._looks.get(facts.session_id)
            if known is not None and known[0] is facts and known[1] is measured:
                continue  # the books hand out the same objects as long as nothing has changed
            self._looks[facts.session_id] = (facts, measured)
            words: Words = [[_plain(value) for value in facts.values], dict(measured)]
            text = json.dumps(words)
            if self._said.get(facts.session_id) != text:
                self._said[facts.session_id] = text
                news[facts.session_id] = words
        return news

    def hear(self, by_rank: Sequence[Mapping[str, Words]], alive: Collection[str]) -> None:
        """Take in what all ranks said; forget sessions that are not `alive`."""
        for rank, news in enumerate(by_rank):
            for key, (values, measured) in news.items():
                known = self._heard.setdefault(key, [((), {})] * self._size)
                known[rank] = (tuple(_value(*value) for value in values), measured)
                self._merged.pop(key, None)
        for gone in self._heard.keys() - set(alive):
            del self._heard[gone]
            self._merged.pop(gone, None)
            self._said.pop(gone, None)
            self._looks.pop(gone, None)

    def facts(
        self,
        table: Iterable[Entry],
        budgets: Mapping[str, int],
        used: Mapping[str, int],
        takes: Mapping[Tier, int],
        *,
        stay: Collection[str] = (),
        hopeless: Collection[tuple[str, str]] = (),
    ) -> Facts:
        """The facts of the group.

        Args:
            stay: sessions that are about to be used.
            hopeless: values, with their sessions, that could not be parked just now.
        """
        sessions = tuple(
            SessionFacts(
                session_id=entry.key,
                last_used=entry.order,
                leased=bool(entry.leases) or entry.dropped or entry.key in stay,
                may_be_lost=entry.may_be_lost,
                values=self._values(entry.key, hopeless),
            )
            for entry in table
        )
        return Facts(budgets, used, sessions, takes)

    def holders(self, device: str) -> list[tuple[str, int]]:
        """Who holds most of a device, as (session, bytes), most first."""
        rank, _, name = device.removeprefix("rank").partition("/")
        found = [(key, int(known[int(rank)][1].get(name, 0))) for key, known in self._heard.items()]
        return sorted((one for one in found if one[1]), key=lambda one: (-one[1], one[0]))

    def _values(self, key: str, hopeless: Collection[tuple[str, str]]) -> tuple[ValueFacts, ...]:
        known = self._heard.get(key)
        if known is None:
            return ()
        values = self._merged.get(key)
        if values is None:
            values = self._merged[key] = merge_values([values for values, _ in known])
        if not hopeless:
            return values
        return tuple(
            attrs.evolve(one, tiers=()) if (key, one.name) in hopeless else one for one in values
        )


def _plain(value: ValueFacts) -> Words:
    return [
        value.name,
        dict(value.nbytes),
        list(value.sources),
        value.rebuildable,
        value.released,
        value.cost,
        list(value.tiers),
        value.parked,
    ]


def _value(
    name: str,
    nbytes: dict[str, int],
    sources: list[str],
    rebuildable: bool,
    released: bool,
    cost: float,
    tiers: list[Tier],
    parked: Tier | None,
) -> ValueFacts:
    return ValueFacts(
        name, nbytes, tuple(sources), rebuildable, released, cost, tuple(tiers), parked
    )
