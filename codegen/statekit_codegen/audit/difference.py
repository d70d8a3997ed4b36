"""Difference: one thing that a class and its schema say differently, with its place in both."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from statekit.text import on_one_line

__all__ = ["AUDIT_RULES", "Difference", "Place", "Report"]

AUDIT_RULES: Mapping[str, str] = {
    "ATTRIBUTE_MISSING": "Every attribute of the class is in the schema.",
    "VALUE_INVENTED": "Every value of the schema is an attribute of the class.",
    "TYPE_DIFFERS": "What the class assigns is of the type that the schema says.",
    "DEFAULT_DIFFERS": "A value starts, and starts anew, as the schema's default.",
    "DTYPE_DIFFERS": "The element types that the class names are those of the schema.",
    "SHAPE_DIFFERS": "The shapes that the class writes out are those of the schema.",
    "DEVICE_DIFFERS": "The devices that the class names are those of the schema.",
    "UPDATE_DIFFERS": "The class changes a value in no way that `update` does not say.",
    "RING_DIFFERS": "As many of the newest stay, along the same axis.",
    "RESET_DIFFERS": "A reset clears in the class what it clears in the schema.",
    "RESET_MISSING": "Every reset of the class is one of the schema.",
    "RESET_INVENTED": "Every reset of the schema is one of the class.",
    "CONSTANT_DIFFERS": "A constant is the same number in both.",
    "PARAMETER_DIFFERS": "A parameter has the same default in both.",
}
"""What `statekit audit` holds a class and its schema to."""


@attrs.frozen(order=True)
class Place:
    """A line and a column of a file, both from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@attrs.frozen(order=True)
class Difference:
    """What `rule` finds about `name`.

    Attributes:
        place: in the class, or in the schema where the class has nothing.
        name: the attribute, value, reset, constant or parameter.
        found: both sides of it.
        todo: what ends it.
        schema: the place in the schema; the same as `place` where the class has nothing.
    """

    place: Place
    rule: str
    name: str
    found: str = attrs.field(converter=on_one_line)
    todo: str = attrs.field(converter=on_one_line)
    schema: Place

    def __str__(self) -> str:
        where = "" if self.schema == self.place else f" ({self.schema})"
        return f"{self.place}: {self.rule} at {self.name}: {self.found}; {self.todo}{where}"


@attrs.frozen
class Report:
    """What an audit found.

    Attributes:
        differences: by place.
        notes: what could not be compared, or need not agree; no reason to fail.
        values: how many values both have.
        resets: how many resets the class has.
        ignored: names that the audit was told not to compare.
    """

    differences: tuple[Difference, ...]
    notes: tuple[Difference, ...]
    values: int
    resets: int
    ignored: tuple[str, ...] = ()
