"""Breaking: what changed between the schemas of the other side and those of today.

Owns which models are compared, and the list of changes of each with its place. What breaks, and
whom, is said by `source_changes` and by `statekit.evolution`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from statekit.evolution import Difference, record_of, snapshot_differences
from statekit_codegen.change import Change
from statekit_codegen.model import Model, Path
from statekit_codegen.source_changes import source_changes

__all__ = ["Comparison", "Located", "compare"]


@attrs.frozen
class Located:
    """A change, and the line and column of today's schema where it is seen, both from 1."""

    change: Change
    line: int
    column: int


@attrs.frozen
class Comparison:
    """The changes of one model.

    Attributes:
        model: its name.
        file: its schema today, or what was its schema.
        changes: those that hurt callers first, in the order of the schema.
    """

    model: str
    file: str
    changes: tuple[Located, ...]

    @property
    def breaking(self) -> tuple[Located, ...]:
        """The changes that break something."""
        return tuple(one for one in self.changes if one.change.breaks)


def compare(
    before: Mapping[str, Model], today: Sequence[Model], *, all_schemas: bool
) -> list[Comparison]:
    """The changes of each model of today, and of those that are gone.

    Args:
        before: the models of the other side, each by the path of its schema there.
        today: the models to compare.
        all_schemas: whether `today` is all there are; else what is not in it may be there still.
    """
    by_name = {model.spec.model: model for model in before.values()}
    found = [_compared(by_name.pop(model.spec.model, None), model) for model in today]
    files = {model.file for model in today}
    for path, model in before.items():
        if model.spec.model in by_name and (all_schemas or path in files):
            found.append(_gone(path, model))
    return found


def _compared(old: Model | None, new: Model) -> Comparison:
    if old is None:
        why = "nothing used it"
        changes = [Change("SOURCE_MEMBER_NEW", "", "", f"model {new.spec.model}", why, False)]
    else:
        changes = [*source_changes(old, new), *_snapshot_changes(old, new)]
    places = new.loaded.positions
    located = (Located(change, *places.place(*change.path)) for change in changes)
    return Comparison(new.spec.model, new.file, tuple(located))


def _gone(path: str, old: Model) -> Comparison:
    name = old.spec.model
    source = "code that imports its module fails, once that is gone"
    saved = "saved sessions of it can't be restored"
    changes = (
        Change("SOURCE_MODEL_GONE", "", f"model {name}", "", source, True),
        Change("SNAPSHOT_MODEL", "", f"model {name}", "", saved, True),
    )
    return Comparison(name, path, tuple(Located(change, 1, 1) for change in changes))


def _snapshot_changes(old: Model, new: Model) -> Iterator[Change]:
    for one in snapshot_differences(record_of(old.spec), record_of(new.spec)):
        path = _path(one, new, old)
        yield Change(one.rule, one.value, one.was, one.now, one.why, one.breaks, path)


_FIELDS = {
    "SNAPSHOT_BUCKET": "bucket",
    "SNAPSHOT_OBJECT": "object",
    "SNAPSHOT_KEY": "key",
    "SNAPSHOT_FAMILY": "family",
    "SNAPSHOT_DTYPE": "dtype",
    "SNAPSHOT_RING": "ring",
    "SNAPSHOT_INDEX": "index",
    "SNAPSHOT_CODEC": "codec",
    "SNAPSHOT_LIFETIME": "lifetime",
    "SNAPSHOT_DEFAULT": "default",
    "SNAPSHOT_COERCE": "coerce",
    "SNAPSHOT_DEVICE": "device",
    "SNAPSHOT_UPDATE": "update",
}
"""The field of a value that a rule looks at; where there are several, the one that is there."""


def _path(one: Difference, *sides: Model) -> Path:
    if one.rule == "SNAPSHOT_ATOMIC":
        return ("atomic", one.value)
    if one.rule == "SNAPSHOT_PARAMETER":
        return ("parameters", one.value)
    if one.rule == "SNAPSHOT_NUMBER":
        constant = any(one.value in side.spec.constants for side in sides)
        return ("constants" if constant else "symbols", one.value)
    places: Collection[Path] = sides[0].loaded.positions.places
    fields = {"SNAPSHOT_TYPE": ("type", "item"), "SNAPSHOT_SIZE": ("shape", "elements")}
    for field in fields.get(one.rule, (_FIELDS.get(one.rule, ""),)):
        if ("values", one.value, field) in places:
            return ("values", one.value, field)
    return ("values", one.value)
