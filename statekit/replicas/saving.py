"""Saving: where the snapshots of served sessions are kept, and how often they are taken.

Owns the stores. A snapshot is named by its session, the epoch under which it was taken and the
steps that its session had done then; the newest one counts, and none of an older epoch ever
replaces one of a newer: what a replica writes that was thought dead does no harm.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import attrs

from statekit.errors import SnapshotError
from statekit.snapshot.folder import SUFFIX, file_of
from statekit.snapshot_file.temporary import replace_file

__all__ = ["FolderStore", "MemoryStore", "Saved", "Saving", "Store"]

_NAME = re.compile(rf"(\d+)\.(\d+){re.escape(SUFFIX)}")


@attrs.frozen
class Saved:
    """A snapshot, and of which moment it is; `data` is the bytes of its file."""

    epoch: int
    step: int
    data: bytes = attrs.field(repr=False)

    @property
    def age(self) -> tuple[int, int]:
        """Orders the snapshots of one session, the newest last."""
        return self.epoch, self.step


class Store(Protocol):
    """Keeps the newest snapshot of each session; used by many replicas at once."""

    def put(self, session_id: str, saved: Saved) -> None:
        """Keep it, unless a newer one is there.

        Raises:
            SnapshotError: it could not be kept; an older one is as it was.
        """

    def get(self, session_id: str) -> Saved | None:
        """The newest one. Raises: SnapshotError."""

    def drop(self, session_id: str) -> None:
        """Forget those of a session that has ended."""


@attrs.frozen
class Saving:
    """How often the sessions of a replica are saved, and where.

    Attributes:
        every: after so many steps, before the step's answer goes out: with 1, no step that a client
            knows to be done is ever lost with its replica; with n, at most n - 1 are.
    """

    store: Store
    every: int = attrs.field(default=1, validator=attrs.validators.ge(1))


class MemoryStore:
    """Keeps snapshots in this process: they are there as long as it is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, Saved] = {}

    def put(self, session_id: str, saved: Saved) -> None:
        """Keep it, unless a newer one is there."""
        with self._lock:
            kept = self._kept.get(session_id)
            if kept is None or kept.age <= saved.age:
                self._kept[session_id] = saved

    def get(self, session_id: str) -> Saved | None:
        """The newest one."""
        return self._kept.get(session_id)

    def drop(self, session_id: str) -> None:
        """Forget those of a session that has ended."""
        with self._lock:
            self._kept.pop(session_id, None)


class FolderStore:
    """Keeps snapshots as files in a folder that all replicas can reach, a shared file system say.

    A folder a session; the files are as `SessionStateManager.save` writes them, with the epoch and
    the step as name.

    Args:
        fsync: whether a file is to survive a crash of the machine, at the price of waiting for the
            disk with every one.
    """

    def __init__(self, folder: str | os.PathLike[str], *, fsync: bool = False) -> None:
        self.folder = Path(folder)
        self._fsync = fsync

    def put(self, session_id: str, saved: Saved) -> None:
        """Keep it, unless a newer one is there.

        Raises:
            SnapshotError: the file cannot be written; an older one is as it was.
        """
        place = self._place(session_id)
        with self._errors():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            older = _files(place)
        if any(age > saved.age for age in older):
            return

        def write(fd: int) -> None:
            view = memoryview(saved.data)
            while view:
                view = view[os.write(fd, view) :]

        path = place / f"{saved.epoch}.{saved.step}{SUFFIX}"
        replace_file(str(path), write, fsync=self._fsync)
        for age, old in older.items():
            if age < saved.age:
                with contextlib.suppress(OSError):
                    old.unlink()

    def get(self, session_id: str) -> Saved | None:
        """The newest one.

        Raises:
            SnapshotError: the folder or the file cannot be read.
        """
        with self._errors():
            files = _files(self._place(session_id))
            if not files:
                return None
            age = max(files)
            return Saved(*age, files[age].read_bytes())

    def drop(self, session_id: str) -> None:
        """Forget those of a session that has ended."""
        place = self._place(session_id)
        with contextlib.suppress(OSError):
            for path in _files(place).values():
                path.unlink()
            place.rmdir()

    def _place(self, session_id: str) -> Path:
        return self.folder / file_of(session_id).removesuffix(SUFFIX)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            found = f"it cannot be used ({error.strerror or error})"
            todo = "name a folder that this process may write"
            raise SnapshotError(str(self.folder), found, todo) from error


def _files(place: Path) -> dict[tuple[int, int], Path]:
    """The snapshots of one session, by age. Raises: OSError."""
    if not place.is_dir():
        return {}
    found = {}
    with os.scandir(place) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match:
                found[int(match[1]), int(match[2])] = Path(entry.path)
    return found
