"""Looking: all that a session holds at one moment, value by value.

Owns which value a session key belongs to, by the schemas that the session's adapters brought, and
the facts of each value over all its members. Nothing is kept alive: see `Footprint`.

Not thread-safe: one look at a session at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

import attrs

from statekit.adopted import Adopted
from statekit.checking.declaration import declarations_of
from statekit.measure.facts import NO_FACTS, Facts, Watched, joined
from statekit.measure.told import told
from statekit.session import SessionState
from statekit.spec import Bucket

__all__ = ["Looks", "Sight", "ValueId"]

_MOST_NAMES = 512
"""So many undeclared names of one session are told apart."""


@attrs.frozen
class ValueId:
    """A value of a model, or one that no schema speaks of: then `model` is empty."""

    model: str
    name: str
    bucket: Bucket


@attrs.frozen(eq=False)
class Sight:
    """One value at one moment.

    Attributes:
        facts: over all its members.
        nbytes: bytes by device.
        members: how many members of each counted family have been seen.
        excess: bytes of memory that it holds and no value of the session shows; and the bytes of
            the pieces of memory that these are part of.
    """

    facts: Facts
    nbytes: Mapping[str, int]
    members: Mapping[str, int]
    excess: tuple[int, int] = (0, 0)


@attrs.define
class _Place:
    """Where a session key belongs."""

    value: ValueId
    members: Mapping[str, int]


class Looks:
    """The looks at one session, one after the other."""

    def __init__(self) -> None:
        self._watched: dict[tuple[Bucket, str], Watched] = {}
        self._places: dict[tuple[Bucket, str], _Place] = {}
        self._adopted: Adopted | None = None
        self._names: set[str] = set()
        self._last: dict[ValueId, tuple[tuple[Facts, ...], Sight]] = {}

    def look(
        self, session: SessionState, trouble: Callable[[Exception], None]
    ) -> dict[ValueId, Sight]:
        """What the session holds now; a sight is the very same object where nothing changed.

        Args:
            trouble: told what goes wrong with one value; the others are looked at all the same.
        """
        if session.adopted is not self._adopted:
            self._adopted = session.adopted
            self._places.clear()
        found: dict[ValueId, list[tuple[Facts, _Place]]] = {}
        keys: set[tuple[Bucket, str]] = set()
        for key, value in session.attrs.copy().items():
            keys.add(("attrs", key))
            try:
                facts = self._watch("attrs", key).look(value)
            except Exception as error:
                trouble(error)
                facts = NO_FACTS
            self._note(found, "attrs", key, facts)
        for key, obj in session.objects.items():
            keys.add(("StateObject", key))
            try:
                written = obj.written  # before what it holds
                axis = getattr(obj, "axis", None)
                watch = self._watch("StateObject", key)
                facts = watch.look(obj.committed(), written, axis, partial(told, holder=obj))
            except Exception as error:
                trouble(error)
                facts = NO_FACTS
            self._note(found, "StateObject", key, facts)
        for gone in self._watched.keys() - keys:
            del self._watched[gone]
        sights = {value: self._sight(value, parts) for value, parts in found.items()}
        self._last = {
            value: (tuple(facts for facts, _ in parts), sights[value])
            for value, parts in found.items()
        }
        return _with_excess(sights)

    def _watch(self, bucket: Bucket, key: str) -> Watched:
        found = self._watched.get((bucket, key))
        if found is None:
            found = self._watched[bucket, key] = Watched()
        return found

    def _note(
        self,
        found: dict[ValueId, list[tuple[Facts, _Place]]],
        bucket: Bucket,
        key: str,
        facts: Facts,
    ) -> None:
        place = self._places.get((bucket, key))
        if place is None:
            place = self._places[bucket, key] = self._place(bucket, key)
        found.setdefault(place.value, []).append((facts, place))

    def _place(self, bucket: Bucket, key: str) -> _Place:
        for spec in () if self._adopted is None else self._adopted.specs:
            place = declarations_of(spec).place(key, bucket)
            if place is not None:
                name = place.declaration.name
                counted = {
                    family: int(number) + 1
                    for family, number in place.members.items()
                    if number.isdecimal() and spec.families[family].count is not None
                }
                return _Place(ValueId(spec.model, name, bucket), counted)
        name = re.sub(r"[0-9]+", "*", key)
        if not name.isprintable():  # it is shown in terminals and pictures
            name = name.encode("unicode_escape").decode()
        if name not in self._names and len(self._names) >= _MOST_NAMES:
            name = "(others)"
        self._names.add(name)
        return _Place(ValueId("", name, bucket), {})

    def _sight(self, value: ValueId, parts: list[tuple[Facts, _Place]]) -> Sight:
        known = self._last.get(value)
        facts = tuple(part for part, _ in parts)
        if known is not None and _same(known[0], facts):
            return known[1]
        whole = facts[0] if len(facts) == 1 else joined(facts)
        members: dict[str, int] = {}
        for _, place in parts:
            for family, count in place.members.items():
                members[family] = max(count, members.get(family, 0))
        return Sight(whole, whole.nbytes, members)


def _same(before: tuple[Facts, ...], now: tuple[Facts, ...]) -> bool:
    return len(before) == len(now) and all(map(lambda a, b: a is b, before, now))


def _with_excess(sights: dict[ValueId, Sight]) -> dict[ValueId, Sight]:
    """The sights, with what each pins; memory that one value pins and another shows is no waste."""
    suspects = [value for value, sight in sights.items() if sight.facts.partly]
    if not suspects:
        return sights
    found = dict(sights)
    for value in suspects:
        excess = whole = 0
        for interval in sights[value].facts.partly:
            size = interval[2] - interval[1]
            shown = sum(sight.facts.shown.get(interval, 0) for sight in sights.values())
            if size > shown:
                excess, whole = excess + size - shown, whole + size
        if (excess, whole) != sights[value].excess:
            found[value] = attrs.evolve(sights[value], excess=(excess, whole))
    return found
