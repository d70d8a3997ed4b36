"""Archive: the sessions of one manager in files, written while it serves, and read again.

Owns the order of things: which sessions, in which order, how long to wait for one that is in use,
what is reported. Not here: when a session is whole (`statekit.snapshot.boundary`), the file
(`statekit.snapshot_file.file`).

    R1  Each file is a session at one moment between two steps. Moments of different sessions
        differ: a folder is no picture of the whole manager at one time.
    R2  One session at a time is looked at and written, so what a pass keeps in memory beside the
        sessions is what one of them has replaced meanwhile, and copies of what it changes in place.
    R3  What failed is in the report with its error, and does not stop the others; a file that was
        there before is good until the new one is whole.
    R4  A session is restored whole, or not begun.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import attrs

from statekit.errors import IncompatibleSnapshotError, SnapshotError, StatekitError
from statekit.events import Events, NotSaved, Saved
from statekit.leasing import Leasing
from statekit.session import SessionState
from statekit.snapshot.about import About
from statekit.snapshot.boundary import look
from statekit.snapshot.folder import file_of, files_in
from statekit.snapshot.restored import require_fit, restored
from statekit.snapshot_file.file import Snapshot, open_snapshot
from statekit.snapshot_file.sweep import sweep
from statekit.spec import ModelSpec
from statekit.table import SessionTable

__all__ = ["Archive", "Pass", "Progress", "Source"]

Source = str | os.PathLike[str] | bytes
"""A snapshot: a file, or its bytes."""
Progress = Callable[[int, int, str], object]
"""Told how many sessions are done, of how many, and which was the last."""


@attrs.frozen
class Pass:
    """What one pass over a folder did, by session id (by file where an id is not known).

    Attributes:
        done: bytes of the file of each session that was saved or restored.
        failed: why the others were not.
        unchanged: sessions whose file is up to date, so that nothing was written.
        took_s: seconds.
    """

    done: Mapping[str, int]
    failed: Mapping[str, Exception]
    unchanged: tuple[str, ...] = ()
    took_s: float = 0.0

    def __str__(self) -> str:
        size = sum(self.done.values())
        parts = [f"{len(self.done)} sessions, {size} bytes, {self.took_s:.1f} s"]
        parts += [f"{len(self.unchanged)} unchanged"] if self.unchanged else []
        parts += [f"{len(self.failed)} failed: {', '.join(self.failed)}"] if self.failed else []
        return "; ".join(parts)


class Archive:
    """Snapshots of one manager's sessions."""

    def __init__(
        self, table: SessionTable, leasing: Leasing, events: Events, clock: Callable[[], float]
    ) -> None:
        self._table = table
        self._leasing = leasing
        self._events = events
        self._clock = clock

    def save(
        self, key: str, path: str | os.PathLike[str], wait_s: float | None, without: Collection[str]
    ) -> int:
        """Write one session to a file; its bytes. Raises: as `SessionStateManager.save` says."""
        try:
            nbytes = self._save(key, path, wait_s, without)
            if nbytes is None:
                raise _in_use(key, wait_s)
        except StatekitError as error:
            self._events.publish(NotSaved(key, self._clock(), str(error)))
            raise
        return nbytes

    def to_bytes(self, key: str, wait_s: float | None, without: Collection[str]) -> bytes:
        """One session as the bytes of a file. Raises: as `save`."""
        contents = look(self._session(key), wait_s=wait_s, without=without)
        if contents is None:
            raise _in_use(key, wait_s)
        return contents.to_bytes()

    def _save(
        self, key: str, path: str | os.PathLike[str], wait_s: float | None, without: Collection[str]
    ) -> int | None:
        """Write one session; None where it had no boundary within `wait_s`."""
        contents = look(self._session(key), wait_s=wait_s, without=without)
        if contents is None:
            return None
        nbytes = contents.write(path)
        self._events.publish(Saved(key, self._clock(), os.fspath(path), nbytes))
        return nbytes

    def _session(self, key: str) -> SessionState:
        record = self._table.holds(key)
        session = None if record is None else record.session
        if session is None:
            raise self._leasing.lost(key)
        return session

    def save_all(
        self,
        folder: str | os.PathLike[str],
        *,
        wait_s: float | None,
        progress: Progress | None,
        skip: Callable[[str], bool] = lambda key: False,
    ) -> Pass:
        """Write every session to its file; those in use last.

        Raises:
            SnapshotError: the folder cannot be made or read; nothing was written.
        """
        start = time.monotonic()
        root = _made(folder)
        done: dict[str, int] = {}
        failed: dict[str, Exception] = {}
        keys = self._table.ids()
        unchanged = tuple(key for key in keys if skip(key))
        todo = [(key, False) for key in keys if key not in unchanged]
        total = len(todo)
        for key, again in todo:  # grows while it is gone through
            patience = (None if wait_s is None else _left(start + wait_s)) if again else 0.0
            try:
                nbytes = self._save(key, root / file_of(key), patience, ())
                if nbytes is not None:
                    done[key] = nbytes
                elif not again:
                    todo.append((key, True))
                    continue
                else:
                    raise _in_use(key, wait_s)
            except StatekitError as error:
                if self._table.holds(key) is not None:  # else it has ended, and nobody misses it
                    failed[key] = error
                    self._events.publish(NotSaved(key, self._clock(), str(error)))
            if progress is not None:
                progress(len(done) + len(failed), total, key)
        return Pass(done, failed, unchanged, time.monotonic() - start)

    def uses(self) -> dict[str, int | None]:
        """How often each session was used; None where it is used without leases, or is in use."""
        found: dict[str, int | None] = {}
        for key in self._table.ids():
            record = self._table.holds(key)
            if record is not None:
                known = record.managed and not record.leases
                found[key] = record.uses if known else None
        return found

    def has_ended(self, key: str) -> bool:
        """Whether a session of this id was ended on purpose: dropped, or left idle."""
        departure = self._table.departure(key)
        gone = self._table.holds(key) is None
        return gone and departure is not None and departure.how in ("dropped", "expired")

    def restore(
        self,
        source: Source,
        specs: Iterable[ModelSpec],
        *,
        session_id: str | None,
        devices: Mapping[str, str] | None,
    ) -> str:
        """Begin a session with what a snapshot holds; its id.

        Raises: as `SessionStateManager.restore` says.
        """
        with open_snapshot(source) as snapshot:
            return self._restore(snapshot, tuple(specs), session_id, devices)

    def load_all(
        self,
        folder: str | os.PathLike[str],
        specs: Iterable[ModelSpec],
        *,
        devices: Mapping[str, str] | None,
        progress: Progress | None,
    ) -> Pass:
        """Begin a session for every snapshot of a folder.

        Raises:
            SnapshotError: the folder cannot be read.
        """
        start = time.monotonic()
        known = tuple(specs)
        try:
            files = list(files_in(folder))
        except OSError as error:
            raise _folder_error(folder, error) from error
        done: dict[str, int] = {}
        failed: dict[str, Exception] = {}
        for count, file in enumerate(files, 1):
            name = file.name
            try:
                with open_snapshot(file) as snapshot:
                    name = About.read(snapshot.about, str(file)).session_id
                    self._restore(snapshot, known, None, devices)
                    done[name] = snapshot.nbytes
            except StatekitError as error:
                failed[name] = error
            if progress is not None:
                progress(count, len(files), name)
        return Pass(done, failed, (), time.monotonic() - start)

    def _restore(
        self,
        snapshot: Snapshot,
        specs: tuple[ModelSpec, ...],
        session_id: str | None,
        devices: Mapping[str, str] | None,
    ) -> str:
        file = snapshot.place
        about = About.read(snapshot.about, file)
        key = session_id or about.session_id
        mine = _specs_of(about, specs, file)
        require_fit(about, mine, file)
        self._leasing.make_room(key, mine[0], about.overrides)
        session = SessionState(key)
        for spec in mine:
            session.adopt(spec)
        restored(snapshot.read(devices), about, mine, file).fill(session)
        _, end = self._leasing.begin(key, mine[0], about.overrides, session)
        end()
        return key


def _specs_of(about: About, specs: tuple[ModelSpec, ...], file: str) -> tuple[ModelSpec, ...]:
    """Those of the schemas that the snapshot speaks of."""
    found = tuple(spec for spec in specs if spec.model in about.models)
    if len(found) != len(about.models) or not found:
        wanted = ", ".join(about.models) or "no model"
        given = ", ".join(spec.model for spec in specs) or "none"
        raise IncompatibleSnapshotError(
            file, f"it is a snapshot of {wanted}; the specs given are of {given}", "pass its spec"
        )
    return found


def _left(until: float) -> float:
    """Seconds until then; enough for one look where it has passed."""
    return max(0.0, until - time.monotonic())


def _in_use(key: str, wait_s: float | None) -> SnapshotError:
    found = f"it was in use, and between no two steps, for {wait_s} s"
    return SnapshotError(f"session {key!r}", found, "use steps, or wait longer")


def _made(folder: str | os.PathLike[str]) -> Path:
    root = Path(folder)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep(root)
    except OSError as error:
        raise _folder_error(folder, error) from error
    return root


def _folder_error(folder: str | os.PathLike[str], error: OSError) -> SnapshotError:
    found = f"it cannot be used ({error.strerror or error})"
    return SnapshotError(os.fspath(folder), found, "name a folder that this process may write")
