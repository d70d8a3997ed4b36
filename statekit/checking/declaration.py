"""Declaration: what a schema says of one value, made ready to compare with.

Owns the parsed type and size expressions of a `ValueSpec`, and which value lies under which key of
a session, with the members of its families.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

import attrs

from statekit.checking.type_text import TypeText
from statekit.expressions import Expression
from statekit.spec import ModelSpec, Update, ValueSpec

__all__ = ["Declaration", "Declarations", "Place", "declarations_of"]


@attrs.frozen(eq=False, slots=False)
class Declaration:
    """One value of a model's schema."""

    model: ModelSpec
    value: ValueSpec

    @property
    def name(self) -> str:
        """The value's name."""
        return self.value.name

    @property
    def declared_at(self) -> str:
        """The schema's file and line."""
        return f"{self.model.schema or self.model.model}:{self.value.line}"

    @property
    def update(self) -> Update:
        """How the value is changed; of a FixedState the buffers are written into, always."""
        return "in_place" if self.value.object == "FixedState" else self.value.update

    @cached_property
    def type(self) -> TypeText:
        """Of the value, or of one item of a buffer."""
        return TypeText.parse(self.value.type)

    @cached_property
    def shape(self) -> tuple[Expression, ...] | None:
        """The shape of the one tensor or array that the value or item is, or of each tensor of a
        window's block; None for others."""
        size = self.value.size
        if size is None or size.shape is None:
            return None
        if not self.type.is_one_array and self.value.object != "WindowedKV":
            return None
        return tuple(map(Expression.parse, size.shape))

    @cached_property
    def elements(self) -> tuple[Expression, ...]:
        """The numbers of elements, after the first step and later."""
        size = self.value.size
        said = () if size is None else (size.elements, size.first)
        return tuple(Expression.parse(one) for one in said if one is not None)

    @cached_property
    def bound(self) -> Expression | None:
        """The bound of a ring."""
        ring = self.value.ring
        return None if ring is None or ring.bound is None else Expression.parse(ring.bound)

    @cached_property
    def bound_nbytes(self) -> Expression | None:
        """The bound of a ring in bytes."""
        ring = self.value.ring
        return None if ring is None or ring.nbytes is None else Expression.parse(ring.nbytes)

    @cached_property
    def frame_axis(self) -> int | None:
        """The axis along which an item has any number of frames."""
        ring = self.value.ring
        if ring is None or ring.axis is None or self.shape is None:
            return None
        return ring.axis % len(self.shape)

    @property
    def parkable(self) -> bool:
        """Whether the manager may put it away and bring back another that is equal."""
        return self.value.park is not None


@attrs.frozen(eq=False)
class Place:
    """One member of a value: where it lies in a session."""

    declaration: Declaration
    key: str
    members: Mapping[str, str]

    def meets(self, other: Place) -> bool:
        """Whether no family tells the two apart, so that their symbols mean the same."""
        mine, theirs = self.members, other.members
        return all(theirs[name] == label for name, label in mine.items() if name in theirs)


class Declarations:
    """The declarations of one model, by session key."""

    def __init__(self, model: ModelSpec) -> None:
        self.model = model
        self.values = tuple(Declaration(model, value) for value in model)
        self.shared = _shared_symbols(self.values)
        self._places: dict[str, Place] = {}
        self._numbered: list[tuple[re.Pattern[str], Place]] = []
        for declaration in self.values:
            for place in _places(declaration):
                if "{" in place.key:
                    self._numbered.append((_pattern(place.key), place))
                else:
                    self._places[place.key] = place

    def place(self, key: str, bucket: str) -> Place | None:
        """The place with this key, or None where the schema has none in that bucket."""
        found = self._places.get(key)
        if found is None:
            for pattern, place in self._numbered:
                match = pattern.fullmatch(key)
                if match is not None:
                    members = {**place.members, **match.groupdict()}
                    found = self._places[key] = Place(place.declaration, key, members)
                    break
        return found if found is not None and found.declaration.value.bucket == bucket else None


def declarations_of(model: ModelSpec) -> Declarations:
    """The declarations of `model`; made once."""
    found = _known.get(id(model))
    if found is None:
        found = _known.setdefault(id(model), Declarations(model))
    return found


_known: dict[int, Declarations] = {}  # specs belong to classes; each keeps its model, so its id too


def _places(declaration: Declaration) -> list[Place]:
    """The members of a value; the place of a family that is counted stays `{NAME}` in the key."""
    value = declaration.value
    places = [Place(declaration, value.key or value.name, {})]
    for name in value.families:
        members = declaration.model.families[name].members
        if members:
            places = [
                Place(
                    declaration,
                    place.key.replace(f"{{{name}}}", text),
                    {**place.members, name: label},
                )
                for place in places
                for label, text in members.items()
            ]
    return places


def _pattern(key: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+?)\\\}", r"(?P<\1>[0-9]+)", re.escape(key)))


def _shared_symbols(values: tuple[Declaration, ...]) -> frozenset[str]:
    """Symbols that stand in more than one extent, so that one value can tell on another."""
    counts: dict[str, int] = {}
    for declaration in values:
        for dim, extent in enumerate(declaration.shape or ()):
            for name in extent.names & declaration.model.symbols.keys():
                counts[name] = counts.get(name, 0) + (dim != declaration.frame_axis)
    return frozenset(name for name, count in counts.items() if count > 1)
