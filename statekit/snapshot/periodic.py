"""PeriodicSnapshots: a thread that saves a manager's sessions every so often.

Owns when a pass begins, which sessions need none, and which files go: those that it wrote, of
sessions that were dropped or have expired. Files of sessions that were evicted or lost stay, for
they can be restored; whoever does not want them removes them.

    Q1  What a crash costs a session at most is what it did since its last snapshot: `every_s`, plus
        what two passes take, plus the longest time for which the session is in one step (or in one
        lease, where no steps are used).
    Q2  A session that was not used since its last snapshot is not written again. One that is used
        without leases is written each time, for nobody knows when it changes.
    Q3  The thread ends with `stop`, with the manager's `close`, or when the manager is gone; never
        in the middle of a file.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path

from statekit.errors import StatekitError
from statekit.snapshot.archive import Archive, Pass
from statekit.snapshot.folder import file_of

__all__ = ["PeriodicSnapshots"]


class PeriodicSnapshots:
    """Saves all sessions into a folder, from now on; made by `SessionStateManager.save_every`.

    Thread-safe.
    """

    def __init__(
        self, archive: Archive, folder: str | os.PathLike[str], every_s: float, wait_s: float
    ) -> None:
        if not every_s > 0:
            raise ValueError(f"every_s must be above 0, got {every_s}")
        self.folder = Path(folder)
        self.every_s = every_s
        self.last: Pass | None = None
        """What the last pass did; None before the first one."""
        self._archive = weakref.ref(archive)
        self._wait_s = wait_s
        self._saved: dict[str, tuple[int, float]] = {}  # id to use count and time, as saved
        self._turn = threading.Lock()
        self._stop = threading.Event()
        # The thread holds this object weakly: a forgotten manager must not be kept by it.
        run = _Run(weakref.ref(self), self._stop, every_s)
        self._thread = threading.Thread(target=run, name="statekit-snapshots", daemon=True)
        self._thread.start()

    def save_now(self) -> Pass:
        """Make a pass now, in this thread; what it did.

        Raises:
            SnapshotError: the folder cannot be used.
        """
        archive = self._archive()
        if archive is None:
            return Pass({}, {})
        with self._turn:
            uses = archive.uses()
            begun = time.monotonic()
            self.last = archive.save_all(
                self.folder,
                wait_s=self._wait_s,
                progress=None,
                skip=lambda key: self._is_saved(key, uses.get(key)),
            )
            for key in self.last.done:
                self._saved[key] = (uses.get(key) or -1, begun)
            self._remove_ended(archive)
            return self.last

    def age_s(self) -> float:
        """Seconds since the oldest of the live sessions' last snapshots was begun; inf for none.

        Sessions that nobody used since do not count: nothing of them could be lost.
        """
        archive = self._archive()
        if archive is None:
            return 0.0
        ages = [0.0]
        for key, uses in archive.uses().items():
            if not self._is_saved(key, uses):
                saved = self._saved.get(key)
                ages.append(time.monotonic() - saved[1] if saved else float("inf"))
        return max(ages)

    def stop(self, *, save: bool = True) -> None:
        """End the thread; with `save`, after one more pass.

        Raises:
            SnapshotError: the folder cannot be used; the thread has ended.
        """
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        if save:
            self.save_now()

    def _is_saved(self, key: str, uses: int | None) -> bool:
        """Whether the session was not used since it was saved; `uses` is None where unknown."""
        saved = self._saved.get(key)
        if saved is None or uses is None or uses != saved[0]:
            return False
        return (self.folder / file_of(key)).exists()

    def _remove_ended(self, archive: Archive) -> None:
        for key in tuple(self._saved):
            if archive.has_ended(key):
                del self._saved[key]
                with contextlib.suppress(OSError):
                    (self.folder / file_of(key)).unlink()


class _Run:
    """What the thread does; holds nothing that a manager's owner may want to be gone."""

    def __init__(
        self, owner: Callable[[], PeriodicSnapshots | None], stop: threading.Event, every_s: float
    ) -> None:
        self._owner, self._stop, self._every_s = owner, stop, every_s

    def __call__(self) -> None:
        # From the end of a pass: one that takes long must leave others time, and the manager's
        # owner a moment at which nothing here holds it.
        while not self._stop.wait(self._every_s):
            owner = self._owner()
            if owner is None:
                return
            try:
                report = owner.save_now()
            except StatekitError as error:
                warnings.warn(f"no snapshots were written: {error}", stacklevel=2)
            else:
                for key, why in report.failed.items():
                    warnings.warn(f"session {key!r} was not saved: {why}", stacklevel=2)
            del owner
