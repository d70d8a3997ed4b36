"""Step: a forward of a session that happens whole or not at all.

Owns the protocol: capture, body, then commit or roll back. Steps of one session may lie within one
another (the inner one is undone alone, the outer one with all that is in it); a session cannot be
in two steps side by side, of two threads or of two tasks of one event loop.

    T1  When the body raises, the session is as it was before it, and the error goes on unchanged.
    T2  When the body succeeds, what is staged is committed; if that fails, T1 holds for its error.
    T3  A step that cannot begin, or whose end comes out of turn, is a StepError. Out of turn means
        that steps were not ended in the reverse order: the outermost of them is undone.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from statekit.capture.capture import Capture, UncapturedError
from statekit.errors import StepError

if TYPE_CHECKING:
    from statekit.session import SessionState

__all__ = ["Checks", "Step", "in_turn"]

_innermost: ContextVar[Step | None] = ContextVar("statekit_step", default=None)
"""The step that this thread or task is in, of whatever session."""


class Checks(Protocol):
    """What compares a session with its schema, where checking mode is on (`statekit.checking`)."""

    def watch(self, session: SessionState) -> AbstractContextManager[None]:
        """Refuse writes that the schema does not allow, while the context lasts."""

    def look(self, session: SessionState) -> None:
        """Compare all that the session holds. Raises: DeclarationError."""


class Step:
    """One step of a session, for a `with` block; made by `SessionState.step`."""

    __slots__ = ("_caller", "_capture", "_outer", "_session", "_used", "_watch")

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self._capture: Capture | None = None
        self._outer: Step | None = None
        self._caller: Step | None = None
        self._used = False
        self._watch: AbstractContextManager[None] | None = None

    def __enter__(self) -> SessionState:
        """Begin the step and return its session.

        Raises:
            StepError: it has begun before; the session is in a step elsewhere; or a value of it
                cannot be captured.
            ParkError: a value is parked and cannot be brought back now.
            DeclarationError: in checking mode, as `statekit.checking.watch` says.
        """
        session = self._session
        if self._used:
            raise StepError(session.session_id, "this step has begun before", "make another one")
        self._used = True
        caller = _innermost.get()
        with session.lock:
            outer = session.open_step
            if outer is not None and not _within(caller, outer):
                raise StepError(session.session_id, "another thread or task is in one", _TAKE_TURNS)
            session.open_step = self
        self._outer, self._caller = outer, caller
        try:
            self._capture = Capture(session)
            if session.checks is not None:
                self._watch = session.checks.watch(session)
                self._watch.__enter__()
        except BaseException as error:
            if self._capture is not None:
                self._capture.settle()
                self._capture = None
            self._leave()
            if isinstance(error, UncapturedError):
                raise StepError(session.session_id, error.found, error.todo) from error
            raise
        _innermost.set(self)
        return session

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        capture, self._capture = self._capture, None
        session = self._session
        if capture is None or not self._is_open():
            if kind is None:
                found = "it was undone with the step around it, which ended first"
                raise StepError(session.session_id, found, "end the inner step first")
            return
        try:
            if kind is not None or session.open_step is not self:
                capture.roll_back()
            else:
                _commit(session, capture)
        finally:
            alone = session.open_step is self
            if self._watch is not None:
                self._watch.__exit__(None, None, None)
            self._leave()
            _innermost.set(self._caller)
        if kind is None and not alone:
            found = "a step within it has not ended"
            raise StepError(session.session_id, found, f"it was undone; {_TAKE_TURNS}")

    @property
    def capture(self) -> Capture | None:
        """What it would go back to, as long as it is open."""
        return self._capture

    @property
    def outer(self) -> Step | None:
        """The step of the same session around it."""
        return self._outer

    def _is_open(self) -> bool:
        step = self._session.open_step
        while step is not None and step is not self:
            step = step._outer
        return step is self

    def _leave(self) -> None:
        session = self._session
        visitors = []
        with session.lock:
            session.open_step = self._outer
            if self._outer is None and session.visitors:
                visitors, session.visitors = session.visitors, []
        for visit in visitors:  # this thread has the session, and is between two steps
            visit(session)


_TAKE_TURNS = "let one request at a time use a session"


def _commit(session: SessionState, capture: Capture) -> None:
    """Promote what is staged, or undo everything."""
    try:
        if session.checks is not None:
            session.checks.look(session)
        for obj in session.objects.values():
            if obj.staged() is not None:
                obj.commit()
    except BaseException:
        capture.roll_back()
        raise
    capture.settle()


def _within(step: Step | None, outer: Step) -> bool:
    """Whether this thread or task is in `outer`."""
    while step is not None and step is not outer:
        step = step._caller
    return step is outer


def in_turn(session: SessionState) -> bool:
    """Whether the session is in no step, or in one of this thread or task."""
    step = session.open_step
    return step is None or _within(_innermost.get(), step)
