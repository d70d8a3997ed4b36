"""Contents: what of a session is in a snapshot.

Owns the tree: `attrs` and `objects` by name. Not here: what stands beside it
(`statekit.snapshot.about`), the way back (`statekit.snapshot.restored`), the file
(`statekit.snapshot_file.file`), when a session may be looked at (`statekit.snapshot.boundary`).

    D1  Contents are one moment of a session; the session may go on while they are written.
    D2  What cannot be saved is named before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from statekit.capture.capture import UncapturedError, pictures_of
from statekit.errors import PayloadError, UnparkableError, UnsavableError
from statekit.objects.parkable import Away
from statekit.snapshot.about import About
from statekit.snapshot.kinds import KINDS, as_plain
from statekit.snapshot_file.file import snapshot_bytes, write_snapshot

if TYPE_CHECKING:
    from statekit.session import SessionState

__all__ = ["Contents", "Copies", "contents_of"]

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
    about = About.of(session, carried, forms).to_plain()
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
    for carried, pattern in session.adopted.passing:  # its request will be over
        there = session.attrs if carried else session.names
        keys.update(key for key in tuple(there) if pattern.fullmatch(key))
    return keys


def _form_of(place: str, obj: Any, parked: Copies) -> dict[str, Any] | None:
    kind = type(obj).__name__
    if KINDS.get(kind) is not type(obj):
        todo = "pass its name in without=, and build it anew after the restore"
        raise UnsavableError(place, f"a {kind} is not data that can be saved", todo)
    held = obj._held
    if isinstance(held, Away) and id(held.keeper) in parked:
        payload = parked[id(held.keeper)][held.key]
        memo: Any = ({**vars(obj), "_held": payload}, None)
    else:
        memo = None
    try:
        return as_plain(kind, memo or obj.capture())
    except (PayloadError, UnparkableError) as error:
        raise UnsavableError(place, error.found, error.todo) from error
