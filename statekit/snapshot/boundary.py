"""Boundary: a moment at which a session is whole, and may be looked at while it is served.

Owns the question when that is: no step is under way and nobody has a lease; else the end of the
outermost step, or of the last lease, in the thread that ends it. A session that is used with
neither has no boundaries that anybody could know: it is looked at at once.

    B1  A look happens between two steps, never in one; what it returns is of that moment.
    B2  Whoever serves waits for a look to be taken (references, and copies of what changes in
        place), never for anything to be written or read.
    B3  What is parked is not brought back for a look: its copy is read.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import nullcontext
from typing import TYPE_CHECKING

from statekit.snapshot.contents import Contents, Copies, contents_of

if TYPE_CHECKING:
    from statekit.session import SessionState

__all__ = ["look"]


def look(
    session: SessionState, *, wait_s: float | None = 0.0, without: Collection[str] = ()
) -> Contents | None:
    """The contents of a session at its next boundary; None where there was none within `wait_s`.

    Args:
        wait_s: how long to wait at most; 0 looks only at a session that is at one now, None waits
            as long as it takes.
        without: as `contents_of` says.

    Raises:
        UnsavableError, ParkError: as `contents_of` says.
    """
    record = session.record
    visitor = _Visitor(without)
    with nullcontext() if record is None else record.transition:  # nothing is parked meanwhile
        copies = {} if _busy(session) else _copies_of_parked(session)
        with session.lock:
            busy = _busy(session)
            if busy and wait_s == 0:
                return None
            if busy:
                session.visitors.append(visitor)
            else:
                return contents_of(session, without=without, parked=copies)
    return visitor.wait(session, wait_s)


def _busy(session: SessionState) -> bool:
    record = session.record
    return session.open_step is not None or (record is not None and record.leases > 0)


def _copies_of_parked(session: SessionState) -> Copies:
    return {id(unit): unit.copy() for unit in tuple(session.parked)}


class _Visitor:
    """Looks at a session when somebody else says that it is at a boundary."""

    def __init__(self, without: Collection[str]) -> None:
        self._without = without
        self._done = threading.Event()
        self._contents: Contents | None = None
        self._error: BaseException | None = None

    def __call__(self, session: SessionState) -> None:
        """Look now; what goes wrong is told to the one who waits, not to the one who serves."""
        try:
            self._contents = contents_of(session, without=self._without)
        except BaseException as error:
            self._error = error
        self._done.set()

    def wait(self, session: SessionState, wait_s: float | None) -> Contents | None:
        if not self._done.wait(wait_s):
            with session.lock:
                if self in session.visitors:
                    session.visitors.remove(self)
                    return None
            self._done.wait()  # it is being looked at
        if self._error is not None:
            raise self._error
        return self._contents
