"""Comparison: the decisions of today beside those of the other side, as data.

Owns which models and values stand beside each other (those of one name), what became of each, and
the difference in bytes. Not here: words and layout.

    C1  Both sides are computed with the same `--set` numbers, each else with its own.
    C2  A value without an edit is not listed; a listed one has an edit, or is new or gone.
    C3  Totals leave out what nobody can compute, and `unknown` names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import attrs

from statekit_codegen.model import Model, Path
from statekit_codegen.review import Growth, Review, Row, Total, review
from statekit_codegen.review_change.facets import Facet, model_facets, value_facets

__all__ = ["Edit", "ModelChange", "TotalChange", "ValueChange", "compare", "unexplained"]

ValueKind = Literal["moved", "added", "removed", "changed"]
ModelKind = Literal["added", "removed", "changed", "same"]


@attrs.frozen
class Edit:
    """One thing that is said otherwise than before.

    Attributes:
        name: what it is about, such as `device`.
        was: what was said; empty where nothing was.
        now: what is said.
        line: where it is seen in today's schema, from 1.
        column: the same.
    """

    name: str
    was: str
    now: str
    line: int
    column: int


@attrs.frozen
class ValueChange:
    """What became of one value.

    Attributes:
        name: its name.
        kind: `moved` between the buckets, whatever else changed; `changed` without a move.
        was: the value on the other side; None of one that is new.
        now: the value today; None of one that is gone.
        edits: of a value on both sides, in a fixed order.
        line: where it is, or was, in today's schema, from 1.
        column: the same.
    """

    name: str
    kind: ValueKind
    was: Row | None
    now: Row | None
    edits: tuple[Edit, ...]
    line: int
    column: int

    @property
    def unexplained(self) -> bool:
        """Whether the value moved, and its reason is the one of the bucket that it was in."""
        return self.kind == "moved" and all(edit.name != "why" for edit in self.edits)

    @property
    def difference_nbytes(self) -> int | None:
        """Bytes in one session that come with the change; None where nobody can compute them."""
        was = 0 if self.was is None else self.was.nbytes
        now = 0 if self.now is None else self.now.nbytes
        return None if was is None or now is None else now - was


@attrs.frozen
class TotalChange:
    """Declared bytes of one session on one device, before and today."""

    device: str
    was: Total
    now: Total

    @property
    def difference_nbytes(self) -> int:
        """How many more bytes there are today."""
        return self.now.nbytes - self.was.nbytes

    @property
    def changed(self) -> bool:
        """Whether any figure is another one."""
        return self.was != self.now


@attrs.frozen
class ModelChange:
    """What became of one model.

    Attributes:
        model: its name.
        file: its schema today, or what was its schema.
        kind: `same` where nothing that is compared is another.
        was: the review of the other side; None of a model that is new.
        now: the review of today; None of a model that is gone.
        edits: those beside the values.
        values: moved, added, removed and changed ones, in this order.
        totals: by device, and `all` where there are several.
        unknown: values of either side whose bytes nobody can compute.
    """

    model: str
    file: str
    kind: ModelKind
    was: Review | None
    now: Review | None
    edits: tuple[Edit, ...]
    values: tuple[ValueChange, ...]
    totals: tuple[TotalChange, ...]
    unknown: tuple[str, ...]

    def of_kind(self, kind: ValueKind) -> tuple[ValueChange, ...]:
        """The values that this became of, in the schema's order."""
        return tuple(value for value in self.values if value.kind == kind)


def compare(
    before: Mapping[str, Model],
    today: Sequence[Model],
    overrides: Mapping[str, int],
    sessions: int,
    *,
    all_schemas: bool,
) -> tuple[ModelChange, ...]:
    """What became of each model of today, and of those that are gone.

    Args:
        before: the models of the other side, each by the path of its schema there.
        today: the models to compare.
        overrides: numbers in place of the schemas' own, on both sides.
        sessions: how many sessions the second column of figures is for.
        all_schemas: whether `today` is all there are; else what is not in it may be there still.

    Raises:
        GenerateError: a parameter is out of its bounds, or a size has no value under the numbers.
    """
    gone = {model.spec.model: model for model in before.values()}
    found = []
    for model in today:
        old = gone.pop(model.spec.model, None)
        was = None if old is None else review(old, overrides, sessions)
        found.append(_change(model.file, was, review(model, overrides, sessions)))
    files = {model.file for model in today}
    for path, old in before.items():
        if old.spec.model in gone and (all_schemas or path in files):
            found.append(_change(path, review(old, overrides, sessions), None))
    return tuple(found)


def unexplained(changes: Iterable[ModelChange]) -> tuple[str, ...]:
    """Values that are in another bucket for the reason of the old one, as `model.value`."""
    return tuple(
        f"{change.model}.{value.name}"
        for change in changes
        for value in change.values
        if value.unexplained
    )


def _change(file: str, was: Review | None, now: Review | None) -> ModelChange:
    one = now or was
    assert one is not None
    values = tuple(_values(was, now))
    edits: tuple[Edit, ...] = ()
    kind: ModelKind = "added" if was is None else "removed"
    if was is not None and now is not None:
        edits = tuple(_edits(model_facets(was.model), model_facets(now.model), now.model))
        kind = "changed" if edits or values else "same"
    unknown = (name for side in (was, now) if side is not None for name in side.unknown)
    return ModelChange(
        model=one.model.spec.model,
        file=file,
        kind=kind,
        was=was,
        now=now,
        edits=edits,
        values=values,
        totals=tuple(_totals(was, now)),
        unknown=tuple(dict.fromkeys(unknown)),
    )


def _values(was: Review | None, now: Review | None) -> list[ValueChange]:
    before = {row.spec.name: row for row in was.rows} if was else {}
    after = {row.spec.name: row for row in now.rows} if now else {}
    found: dict[ValueKind, list[ValueChange]]
    found = {"moved": [], "added": [], "removed": [], "changed": []}
    for name in dict.fromkeys((*after, *before)):
        old, new = before.get(name), after.get(name)
        place = (1, 1) if now is None else now.model.loaded.positions.place("values", name)
        edits: tuple[Edit, ...] = ()
        kind: ValueKind = "added" if old is None else "removed"
        if old is not None and new is not None:
            assert was is not None
            assert now is not None
            edits = tuple(_edits(value_facets(was, old), value_facets(now, new), now.model))
            kind = "changed" if old.spec.bucket == new.spec.bucket else "moved"
        if kind != "changed" or edits:
            found[kind].append(ValueChange(name, kind, old, new, edits, *place))
    return [value for values in found.values() for value in values]


def _edits(before: Iterable[Facet], after: Iterable[Facet], today: Model) -> Iterator[Edit]:
    """What is said otherwise, in today's order, and then what is not said any more."""
    was, now = ({facet.name: facet for facet in side} for side in (before, after))
    for name in dict.fromkeys((*now, *was)):
        old, new = was.get(name, Facet(name, "")), now.get(name, Facet(name, ""))
        if (old.text, old.exact) == (new.text, new.exact):
            continue
        rounded = old.text == new.text
        texts = (old.exact, new.exact) if rounded else (old.text, new.text)
        yield Edit(name, *texts, *_place(new.paths or old.paths, today))


def _place(paths: tuple[Path, ...], today: Model) -> tuple[int, int]:
    """Of the first path that the schema has; else of what is above the last one."""
    positions = today.loaded.positions
    chosen = next((path for path in paths if path in positions.places), paths[-1])
    return positions.place(*chosen)


def _totals(was: Review | None, now: Review | None) -> Iterator[TotalChange]:
    before, after = _by_device(was), _by_device(now)
    names = [name for name in dict.fromkeys((*after, *before)) if name != "all"]
    for name in [*names, "all"] if len(names) > 1 else names:
        yield TotalChange(name, _of(before, name), _of(after, name))


def _by_device(side: Review | None) -> dict[str, Total]:
    return {} if side is None else {total.device: total for total in side.totals}


def _of(totals: Mapping[str, Total], device: str) -> Total:
    """The total of a device; `all` of a side with a single device is that of the device."""
    if device == "all" and len(totals) == 1:
        (only,) = totals.values()
        return attrs.evolve(only, device=device)
    none: tuple[Growth, ...] = ()
    return totals.get(device, Total(device, 0, 0, none))
