"""Lease: the time during which one user works with a session.

Owns the protocol around a body of work: the session is found or begun, its parked values are back
before the body starts, nothing of it is touched while it runs, accounts are settled after it. Ends
with the `with` block, with `end()`, or, where a client went away without a word, when nobody holds
the lease any more: the manager's next call finds it among the `abandoned`. It must not end at
once: the garbage collector may run anywhere, also where the manager's lock is held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from weakref import finalize

from statekit.session import SessionState

__all__ = ["Lease"]


class Lease:
    """One use of a session; made by `SessionStateManager.lease`.

    Thread rule: one thread at a time; `end` may be called from any.
    """

    def __init__(
        self,
        start: Callable[[], tuple[SessionState, Callable[[], None]]],
        abandoned: deque[SessionState],
    ) -> None:
        self._start = start
        self._abandoned = abandoned
        self._session: SessionState | None = None
        self._finish: Callable[[], None] | None = None
        self._garbage: finalize[[SessionState], Lease] | None = None
        self._watched = ExitStack()

    def begin(self) -> SessionState:
        """Start the use and return the session; the same one when it has started before.

        Raises: as `SessionStateManager.lease` says.
        """
        if self._session is None:
            self._session, self._finish = self._start()
            self._garbage = finalize(self, self._abandoned.append, self._session)
            self._garbage.atexit = False
        return self._session

    def end(self) -> None:
        """End the use; nothing where it has ended or never began."""
        self._session = None
        if self._garbage is not None and self._garbage.detach() is not None:
            assert self._finish is not None
            self._finish()

    @contextmanager
    def step(self) -> Iterator[SessionState]:
        """A forward of the session, for a `with` block: whole or not at all.

        Begins the use where it has not begun, and then ends it with the step.

        Raises: as `begin`; StepError as `SessionState.step` says.
        """
        begun = self.active
        try:
            session = self.begin()
            with session.step():
                yield session
        finally:
            if not begun:
                self.end()

    @property
    def active(self) -> bool:
        """Whether the use goes on."""
        return self._session is not None

    def __enter__(self) -> SessionState:
        """Begin the use.

        Raises: as `begin`; DeclarationError in checking mode, as `statekit.checking.watch` says.
        """
        session = self.begin()
        if session.checks is not None:
            try:
                self._watched.enter_context(session.checks.watch(session))
            except BaseException:
                self.end()
                raise
        return session

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the use.

        Raises:
            DeclarationError: the body succeeded, and checking mode has found that a value is not
                what its schema declares; the use has ended all the same.
        """
        session = self._session
        with self._watched:
            try:
                if kind is None and session is not None and session.checks is not None:
                    session.checks.look(session)
            finally:
                self.end()
