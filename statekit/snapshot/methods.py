"""SnapshotMethods: what of a manager's face is about snapshots."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from statekit.snapshot.archive import Archive, Pass, Progress
from statekit.snapshot.periodic import PeriodicSnapshots
from statekit.spec import ModelSpec
from statekit.table import key_of

__all__ = ["SnapshotMethods"]


class SnapshotMethods:
    """Saves and restores the sessions of an archive."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._periodic: list[PeriodicSnapshots] = []

    def save(
        self,
        session_id: str | None,
        path: str | os.PathLike[str],
        *,
        wait_s: float | None = 60.0,
        without: Collection[str] = (),
    ) -> int:
        """Write a snapshot of one session to a file, whole or not at all; its bytes.

        Of a moment at which the session is whole: between two steps, or while nobody has a lease.
        It may be served meanwhile. In a lease of one's own, use `statekit.save_session`.

        Args:
            wait_s: how long to wait for such a moment at most; None waits as long as it takes.
            without: names of values to leave out, such as an engine's handle.

        Raises:
            SessionStateLostError: there is no such session.
            UnsavableError: a value cannot be in a snapshot; nothing was written.
            SnapshotError: there was no such moment, or the file cannot be written; an older one of
                that name is as it was.
            ParkError: a parked value cannot be read now.
        """
        return self._archive.save(key_of(session_id), path, wait_s, without)

    def to_bytes(
        self,
        session_id: str | None,
        *,
        wait_s: float | None = 60.0,
        without: Collection[str] = (),
    ) -> bytes:
        """A snapshot of one session as the bytes of its file. Raises: as `save`."""
        return self._archive.to_bytes(key_of(session_id), wait_s, without)

    def restore(
        self,
        source: str | os.PathLike[str] | bytes,
        *specs: ModelSpec,
        session_id: str | None = None,
        devices: Mapping[str, str] | None = None,
    ) -> str:
        """Begin a session with what a snapshot holds, whole or not at all; its id.

        Args:
            source: a file, or its bytes.
            specs: of the models whose state it holds, as `lease(begin=...)` takes them.
            session_id: begin it under another id than it was saved under.
            devices: where what lay on a device goes, such as `{"cuda:0": "cpu"}`.

        Raises:
            DamagedSnapshotError: it is no snapshot, or not as it was written.
            IncompatibleSnapshotError: it does not fit the specs, or this machine.
            SnapshotError: the file cannot be read.
            SessionExistsError, SessionAdmissionError: as a lease that begins.
        """
        key = None if session_id is None else key_of(session_id)
        return self._archive.restore(source, specs, session_id=key, devices=devices)

    def save_all(
        self,
        folder: str | os.PathLike[str],
        *,
        wait_s: float | None = 60.0,
        progress: Progress | None = None,
    ) -> Pass:
        """Write a snapshot of every session into a folder while serving; what was done.

        One session after the other, each of a moment of its own, those in use last. What failed is
        in the result with its error.

        Args:
            wait_s: how long to wait for those in use, all together.
            progress: told after each session how many are done, of how many, and its id.

        Raises:
            SnapshotError: the folder cannot be used; nothing was written.
        """
        return self._archive.save_all(folder, wait_s=wait_s, progress=progress)

    def load_all(
        self,
        folder: str | os.PathLike[str],
        *specs: ModelSpec,
        devices: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Pass:
        """Begin a session for each snapshot of a folder; what was done.

        What failed is in the result with its error: nothing of it was begun, its file is as it was.

        Raises:
            SnapshotError: the folder cannot be read.
        """
        return self._archive.load_all(folder, specs, devices=devices, progress=progress)

    def save_every(
        self, folder: str | os.PathLike[str], every_s: float, *, wait_s: float = 60.0
    ) -> PeriodicSnapshots:
        """Save all sessions into a folder every so often, in a thread, until `stop` or `close`."""
        periodic = PeriodicSnapshots(self._archive, folder, every_s, wait_s)
        self._periodic.append(periodic)
        return periodic

    def _stop_saving(self) -> None:
        """End the threads of `save_every`; a file that is being written is finished."""
        while self._periodic:
            self._periodic.pop().stop(save=False)
