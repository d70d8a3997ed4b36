"""Saving one session that is in one's own hands, without a manager; and reading it again."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from statekit.errors import SnapshotError
from statekit.session import SessionState
from statekit.snapshot.about import About
from statekit.snapshot.contents import Contents, contents_of
from statekit.snapshot.restored import restored
from statekit.snapshot_file.file import open_snapshot
from statekit.spec import ModelSpec

__all__ = ["restore_session", "save_session", "session_bytes"]


def save_session(
    session: SessionState, path: str | os.PathLike[str], *, without: Collection[str] = ()
) -> int:
    """Write a snapshot of the session to a file, whole or not at all; its bytes.

    For whoever uses the session; one that others may be using is saved by its manager's `save`.

    Args:
        without: names of values to leave out, such as an engine's handle.

    Raises:
        UnsavableError: a value cannot be in a snapshot; nothing was written.
        SnapshotError: a step is under way, or the file cannot be written; an older one of that
            name is as it was.
        ParkError: a parked value cannot be brought back now.
    """
    return _contents(session, without).write(path)


def session_bytes(session: SessionState, *, without: Collection[str] = ()) -> bytes:
    """A snapshot of the session, as the bytes of its file. Raises: as `save_session`."""
    return _contents(session, without).to_bytes()


def restore_session(
    source: str | os.PathLike[str] | bytes,
    specs: Iterable[ModelSpec] = (),
    *,
    devices: Mapping[str, str] | None = None,
) -> SessionState:
    """A session with what a snapshot holds, in no manager; one begins with a manager's `restore`.

    Args:
        source: a file, or its bytes.
        specs: the schemas of today, to compare with; without them nothing is compared.
        devices: where what lay on a device goes, such as `{"cuda:0": "cpu"}`.

    Raises:
        DamagedSnapshotError: it is no snapshot, or not as it was written.
        IncompatibleSnapshotError: it does not fit the schemas, or this machine.
        SnapshotError: the file cannot be read.
    """
    known = tuple(specs)
    with open_snapshot(source) as snapshot:
        about = About.read(snapshot.about, snapshot.place)
        found = restored(snapshot.read(devices), about, known, snapshot.place)
    session = SessionState(about.session_id)
    for spec in known:
        session.adopt(spec)
    found.fill(session)
    return session


def _contents(session: SessionState, without: Collection[str]) -> Contents:
    if session.open_step is not None:
        found, todo = "a step is under way", "save between two steps"
        raise SnapshotError(f"session {session.session_id!r}", found, todo)
    return contents_of(session, without=without)
