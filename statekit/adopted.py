"""Adopted: what the schemas of one session's adapters say about its values.

Owns what follows from the specs for a session as a whole: what may be released or parked, which
carried values change where they are, and which values end with a request. An adapter brings its
spec when it is made.

Thread rule: immutable; a session replaces it whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from statekit.pressure.release_units import ReleaseUnit, release_units
from statekit.spec import ModelSpec, Update

__all__ = ["NOTHING_ADOPTED", "Adopted"]


@attrs.frozen
class Adopted:
    """What is known of a session's values.

    Attributes:
        specs: as they came.
        units: what may be released or parked.
        declared: names of the carried values.
        changing: those of them that change where they are, and how.
        passing: values that live as long as a request: whether each is in `attrs`, and what matches
            its keys.
    """

    specs: tuple[ModelSpec, ...] = ()
    units: tuple[ReleaseUnit, ...] = ()
    declared: frozenset[str] = frozenset()
    changing: Mapping[str, Update] = attrs.field(factory=dict)
    passing: tuple[tuple[bool, re.Pattern[str]], ...] = ()

    def knows(self, spec: ModelSpec) -> bool:
        """Whether this very spec is among them."""
        return any(spec is known for known in self.specs)

    def and_also(self, spec: ModelSpec) -> Adopted:
        """These, and `spec`."""
        keys = {
            key: value.update
            for value in spec
            if value.bucket == "attrs"
            for key in spec.keys_of(value)
        }
        changing = {key: update for key, update in keys.items() if update != "replaced"}
        passing = (
            (value.bucket == "attrs", spec.key_pattern(value))
            for value in spec
            if value.lifetime == "request"
        )
        return Adopted(
            (*self.specs, spec),
            (*self.units, *release_units(spec)),
            self.declared.union(keys),
            {**self.changing, **changing},
            (*self.passing, *passing),
        )


NOTHING_ADOPTED = Adopted()
