"""Contents: what of a session is in a snapshot, and a session out of it.

Owns the tree (`attrs` and `objects` by name) and what stands beside it (id, parameters, schemas).
Not here: the file (`statekit.snapshot.file`), when a session may be looked at
(`statekit.snapshot.boundary`).

    D1  Contents are one moment of a session; the session may go on while they are written.
    D2  What cannot be saved is named before anything is written.
    D3  A session is filled in one step with what was read whole, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from statekit.capture.capture import UncapturedError, pictures_of
from statekit.errors import (
    DamagedSnapshotError,
    ExpressionError,
    IncompatibleSnapshotError,
    PayloadError,
    UnparkableError,
    UnsavableError,
)
from statekit.evolution import (
    BadRecordError,
    Difference,
    fingerprint,
    read_record,
    record_of,
    snapshot_differences,
)
from statekit.objects.latent_buffer import LatentBuffer
from statekit.objects.parkable import Away
from statekit.snapshot.file import snapshot_bytes, write_snapshot
from statekit.snapshot.kinds import KINDS, BadFormError, as_plain, from_plain, settings_from
from statekit.spec import ModelSpec

if TYPE_CHECKING:
    from statekit.session import SessionState

__all__ = [
    "Contents",
    "Restored",
    "contents_of",
    "numbers_of",
    "require_fit",
    "restored",
    "session_id_of",
]

Copies = Mapping[int, Mapping[str, Any]]
"""Copies of parked payloads by key, for each parked unit by identity."""


@attrs.frozen(eq=False)
class Contents:
    """What is written: a tree of values, and plain data about it."""

    tree: dict[str, Any]
    about: dict[str, Any]

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write a file, whole or not at all; its bytes. Raises: as `write_snapshot`."""
        with self._named():
            return write_snapshot(path, self.tree, self.about)

    def to_bytes(self) -> bytes:
        """The bytes of the file. Raises: as `snapshot_bytes`."""
        with self._named():
            return snapshot_bytes(self.tree, self.about)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Have the session stand in the error beside the place in it."""
        try:
            yield
        except UnsavableError as error:
            place = f"session {self.about['session_id']!r}, {error.place}"
            raise UnsavableError(place, error.found, error.todo) from None


@attrs.frozen(eq=False)
class Restored:
    """What was read, ready to be put into a session."""

    session_id: str
    attrs: Mapping[str, Any]
    objects: Mapping[str, Any]
    parameters: Mapping[str, dict[str, int]]
    overrides: Mapping[str, int]

    def fill(self, session: SessionState) -> None:
        """Give an empty session all of it."""
        session.attrs.update(self.attrs)
        session.hold(self.objects, self.parameters)


def contents_of(
    session: SessionState, *, without: Collection[str] = (), parked: Copies | None = None
) -> Contents:
    """What the session holds now, staged data too.

    Args:
        without: names of values or keys of objects to leave out.
        parked: copies of what is parked; without them it is brought back.

    Raises:
        UnsavableError: a value cannot be in a snapshot, or `without` would tear an atomic group.
        ParkError: a parked value cannot be brought back now.
    """
    place = f"session {session.session_id!r}"
    left_out = _left_out(session, without, place)
    carried = {name: one for name, one in session.attrs.items() if name not in left_out}
    try:
        pictures = pictures_of(session, carried)
    except UncapturedError as error:
        raise UnsavableError(place, error.found, error.todo) from error
    carried.update((name, picture.copy()) for name, picture in pictures.items())
    forms = {}
    for name, obj in session.objects.items():
        if name in left_out or not obj.resident:
            continue
        form = _form_of(f"{place}, {name!r}", obj, parked or {})
        if form is not None:
            forms[name] = form
    about = {
        "session_id": session.session_id,
        "models": [{"model": spec.model, "fingerprint": fingerprint(one := record_of(spec)),
                    "record": one} for spec in session.adopted.specs],
        "parameters": session.parameters,
        "overrides": dict(session.record.overrides) if session.record is not None else {},
        "holds": {"attrs": sorted(carried), "objects": sorted(forms)},
    }  # fmt: skip
    return Contents({"attrs": carried, "objects": forms}, about)


def _left_out(session: SessionState, without: Collection[str], place: str) -> set[str]:
    """The keys that are left out."""
    names = set(without)
    keys = set(without)
    for spec in session.adopted.specs:
        for group, members in spec.atomic.items():
            if names & set(members) and not names >= set(members):
                kept = ", ".join(sorted(set(members) - names))
                found = (
                    f"without {', '.join(sorted(names & set(members)))} the group {group} is torn"
                )
                raise UnsavableError(place, found, f"leave out {kept} too")
        for value in spec:
            if value.name in names:
                pattern = spec.key_pattern(value)
                keys.update(
                    key for key in (*session.attrs, *session.names) if pattern.fullmatch(key)
                )
    return keys


def _form_of(place: str, obj: Any, parked: Copies) -> dict[str, Any] | None:
    kind = type(obj).__name__
    if KINDS.get(kind) is not type(obj):
        todo = "pass its name in without=, and build it anew after the restore"
        raise UnsavableError(place, f"a {kind} is not data that can be saved", todo)
    held = obj._held
    if isinstance(held, Away) and id(held.keeper) in parked:
        payload = parked[id(held.keeper)][held.key]
        length = len(payload) if isinstance(obj, LatentBuffer) else None
        return as_plain(kind, ({**vars(obj), "_held": payload}, length))
    try:
        return as_plain(kind, obj.capture())
    except (PayloadError, UnparkableError) as error:
        raise UnsavableError(place, error.found, error.todo) from error


def session_id_of(about: Mapping[str, Any], file: str) -> str:
    """The id of the session that was saved. Raises: DamagedSnapshotError."""
    session_id = about.get("session_id")
    if not isinstance(session_id, str) or not session_id:
        raise DamagedSnapshotError(file, "it names no session", _TAKE_ANOTHER)
    return session_id


def numbers_of(about: Mapping[str, Any], file: str) -> dict[str, int]:
    """What the session began with in place of the spec's numbers. Raises: DamagedSnapshotError."""
    return _numbers(about.get("overrides"), file)


def restored(
    tree: Any, about: Mapping[str, Any], specs: Iterable[ModelSpec], file: str
) -> Restored:
    """A session's contents out of a tree that was read from a file.

    Args:
        specs: the schemas of today, of which those the snapshot speaks of are compared.

    Raises:
        DamagedSnapshotError: the tree is not that of a session.
        IncompatibleSnapshotError: as `require_fit` says.
    """
    session_id = session_id_of(about, file)
    parameters = _numbers_by_model(about.get("parameters"), file)
    overrides = numbers_of(about, file)
    carried, forms = (_part(tree, name, file) for name in ("attrs", "objects"))
    holds = {"attrs": sorted(carried), "objects": sorted(forms)}
    if about.get("holds") != holds:
        raise DamagedSnapshotError(
            file, "its values are not those that its head names", _TAKE_ANOTHER
        )
    known = tuple(specs)
    require_fit(about, known, file)
    today: dict[str, Mapping[str, Any]] = {}
    for spec in known:
        numbers = spec.environment({**overrides, **parameters.get(spec.model, {})})
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
        raise DamagedSnapshotError(file, f"object {name!r}: {error}", _TAKE_ANOTHER) from None
    return Restored(session_id, carried, objects, parameters, overrides)


def require_fit(about: Mapping[str, Any], specs: Collection[ModelSpec], file: str) -> None:
    """Return if what was saved can be read under the schemas of today.

    Raises:
        IncompatibleSnapshotError: it is of another model, or of a schema that has changed so that
            saved values would be lost or mean something else; names each difference.
        DamagedSnapshotError: what it says of its schema is no such.
    """
    if not specs:
        return
    records = about.get("models")
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise DamagedSnapshotError(file, "it does not say of which model it is", _TAKE_ANOTHER)
    parameters = _numbers_by_model(about.get("parameters"), file)
    overrides = numbers_of(about, file)
    saved = {one.get("model"): one for one in records}
    for spec in specs:
        old = saved.get(spec.model)
        if old is None:
            names = ", ".join(sorted(map(str, saved))) or "no model"
            found = f"it is a snapshot of {names}, not of {spec.model}"
            raise IncompatibleSnapshotError(file, found, "pass the spec of its model")
        new = record_of(spec)
        if old.get("fingerprint") == fingerprint(new):
            continue
        try:
            differences = snapshot_differences(
                old.get("record", {}),
                new,
                present=_present(old.get("record"), about, file),
                parameters={**overrides, **parameters.get(spec.model, {})},
            )
        except BadRecordError as error:
            raise DamagedSnapshotError(file, f"its schema record: {error}", _TAKE_ANOTHER) from None
        breaking = [_said(one) for one in differences if one.breaks]
        if breaking:
            found = f"the schema of {spec.model} has changed since: {'; '.join(breaking)}"
            todo = "restore it with the schema it was saved under"
            raise IncompatibleSnapshotError(file, found, todo)


_TAKE_ANOTHER = "restore from another snapshot"


def _settings(value: Any, numbers: Mapping[str, int], file: str) -> dict[str, Any]:
    try:
        return settings_from(value, numbers)
    except ExpressionError as error:
        found = f"the numbers it was saved with do not fit the schema: {error}"
        raise IncompatibleSnapshotError(file, found, _TAKE_ANOTHER) from None


def _part(tree: Any, name: str, file: str) -> dict[str, Any]:
    part = tree.get(name) if isinstance(tree, dict) else None
    if not isinstance(part, dict) or not all(isinstance(key, str) for key in part):
        raise DamagedSnapshotError(file, f"it has no {name}", _TAKE_ANOTHER)
    return part


def _numbers(found: Any, file: str) -> dict[str, int]:
    found = {} if found is None else found
    if isinstance(found, dict) and all(type(number) is int for number in found.values()):
        return found
    raise DamagedSnapshotError(file, "its numbers are none", _TAKE_ANOTHER)


def _numbers_by_model(found: Any, file: str) -> dict[str, dict[str, int]]:
    found = {} if found is None else found
    if not isinstance(found, dict):
        raise DamagedSnapshotError(file, "its parameters are none", _TAKE_ANOTHER)
    return {model: _numbers(numbers, file) for model, numbers in found.items()}


def _present(record: Any, about: Mapping[str, Any], file: str) -> set[str]:
    """The values of the schema of then of which the snapshot holds data. Raises: BadRecordError."""
    holds = about.get("holds")
    parts = [holds.get(name) for name in ("attrs", "objects")] if isinstance(holds, dict) else []
    if len(parts) != 2 or not all(_are_texts(part) for part in parts):
        raise DamagedSnapshotError(file, "it does not say what it holds", _TAKE_ANOTHER)
    spec = read_record(record)
    found = set()
    for value in spec:
        pattern = spec.key_pattern(value)
        keys: Any = parts[0 if value.bucket == "attrs" else 1]
        if any(pattern.fullmatch(key) for key in keys):
            found.add(value.name)
    return found


def _are_texts(part: Any) -> bool:
    return isinstance(part, list) and all(isinstance(key, str) for key in part)


def _said(one: Difference) -> str:
    was, now = one.was or "nothing", one.now or "nothing"
    return f"{one.rule} {one.value}: was {was}, is {now} ({one.why})"
