"""Restored: a session out of what was read from a snapshot.

Owns the check that the tree is a session's, the objects built under the schema of today, and
whether they may be. Not here: the file (`statekit.snapshot_file.file`).

    F1  A session is filled in one step with what was read whole, or not at all.
    F2  Saved values that today's schema would lose, or read as something else, are not restored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from statekit.errors import DamagedSnapshotError, ExpressionError, IncompatibleSnapshotError
from statekit.evolution import (
    BadRecordError,
    Difference,
    fingerprint,
    read_record,
    record_of,
    snapshot_differences,
)
from statekit.snapshot.about import TAKE_ANOTHER, About
from statekit.snapshot.kinds import BadFormError, from_plain, settings_from
from statekit.spec import ModelSpec, ValueSpec

if TYPE_CHECKING:
    from statekit.session import SessionState

__all__ = ["Restored", "require_fit", "restored"]


@attrs.frozen(eq=False)
class Restored:
    """What was read, ready to be put into a session."""

    about: About
    attrs: Mapping[str, Any]
    objects: Mapping[str, Any]

    def fill(self, session: SessionState) -> None:
        """Give an empty session all of it."""
        session.attrs.update(self.attrs)
        session.hold(self.objects, {model: {**n} for model, n in self.about.parameters.items()})


def restored(tree: Any, about: About, specs: Collection[ModelSpec], file: str) -> Restored:
    """A session's contents out of a tree that was read from a file.

    Args:
        specs: the schemas of today.

    Raises:
        DamagedSnapshotError: the tree is not that of a session.
        IncompatibleSnapshotError: as `require_fit` says.
    """
    carried, forms = (_part(tree, name, file) for name in ("attrs", "objects"))
    if (tuple(sorted(carried)), tuple(sorted(forms))) != (about.attrs, about.objects):
        found = "its values are not those that its head names"
        raise DamagedSnapshotError(file, found, TAKE_ANOTHER)
    require_fit(about, specs, file)
    today: dict[str, Mapping[str, Any]] = {}
    for spec in specs:
        numbers = spec.environment(about.numbers_of(spec.model))
        for value in spec:
            if value.bucket == "StateObject":
                pattern = spec.key_pattern(value)
                keys = [key for key in forms if pattern.fullmatch(key)]
                if keys:
                    today.update(dict.fromkeys(keys, _settings(value, numbers, file)))
    objects: dict[str, Any] = {}
    try:
        for name, form in forms.items():
            objects[name] = from_plain(form, today.get(name))
    except BadFormError as error:
        raise DamagedSnapshotError(file, f"object {name!r}: {error}", TAKE_ANOTHER) from None
    return Restored(about, carried, objects)


def require_fit(about: About, specs: Collection[ModelSpec], file: str) -> None:
    """Return if what was saved can be read under the schemas of today.

    Raises:
        IncompatibleSnapshotError: it is of another model, or of a schema that has changed so that
            saved values would be lost or mean something else; names each difference.
        DamagedSnapshotError: what it says of its schema is no such.
    """
    for spec in specs:
        old = about.models.get(spec.model)
        if old is None:
            names = ", ".join(sorted(about.models)) or "no model"
            found = f"it is a snapshot of {names}, not of {spec.model}"
            raise IncompatibleSnapshotError(file, found, "pass the spec of its model")
        new = record_of(spec)
        if old.fingerprint == fingerprint(new):
            continue
        try:
            differences = snapshot_differences(
                old.record,
                new,
                present=_present(read_record(old.record), about),
                parameters=about.numbers_of(spec.model),
            )
        except BadRecordError as error:
            raise DamagedSnapshotError(file, f"its schema record: {error}", TAKE_ANOTHER) from None
        breaking = [_said(one) for one in differences if one.breaks]
        if breaking:
            found = f"the schema of {spec.model} has changed since: {'; '.join(breaking)}"
            todo = "restore it with the schema it was saved under"
            raise IncompatibleSnapshotError(file, found, todo)


def _present(spec: ModelSpec, about: About) -> set[str]:
    """The values of the schema of then of which the snapshot holds data."""
    found = set()
    for value in spec:
        pattern = spec.key_pattern(value)
        keys = about.attrs if value.bucket == "attrs" else about.objects
        if any(pattern.fullmatch(key) for key in keys):
            found.add(value.name)
    return found


def _said(one: Difference) -> str:
    was, now = one.was or "nothing", one.now or "nothing"
    return f"{one.rule} {one.value}: was {was}, is {now} ({one.why})"


def _settings(value: ValueSpec, numbers: Mapping[str, int], file: str) -> dict[str, Any]:
    try:
        return settings_from(value, numbers)
    except ExpressionError as error:
        found = f"the numbers it was saved with do not fit the schema: {error}"
        raise IncompatibleSnapshotError(file, found, TAKE_ANOTHER) from None


def _part(tree: Any, name: str, file: str) -> dict[str, Any]:
    part = tree.get(name) if isinstance(tree, dict) else None
    if not isinstance(part, dict) or not all(isinstance(key, str) for key in part):
        raise DamagedSnapshotError(file, f"it has no {name}", TAKE_ANOTHER)
    return part
