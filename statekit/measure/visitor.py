"""Visitor: one session that is being recorded, and when a step of it is over.

Owns what counts as a step: an outermost `step()`, a lease in which there was none, or, for a
session that is used with neither, the time from one look-up to the next. What goes wrong here is
never told to the one who serves.

Thread rule: called by whoever uses the session; a look waits for the one before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol
from weakref import ref

from statekit.measure.log import SessionLog
from statekit.measure.looking import Looks
from statekit.measure.recording import StepKind
from statekit.session import SessionState

__all__ = ["Book", "Visitor"]


class Book(Protocol):
    """Where a visitor writes down what it has seen."""

    open: bool

    def note(self, session: SessionState, log: SessionLog) -> None:
        """Write down what the session's adapters brought; within `write_down`."""

    def write_down(self, log: SessionLog, entry: Callable[[], None]) -> None:
        """Carry out `entry`, which changes `log`."""

    def trouble(self, error: Exception) -> None:
        """Write down that something could not be measured."""

    def safely(self, work: Callable[[], object]) -> None:
        """Do `work`, and keep to yourself what it raises."""


class Visitor:
    """Records one session, whose steps and leases call it when they end."""

    def __init__(self, book: Book, log: SessionLog, table: Any, model_device: str) -> None:
        self.log = log
        self.table: Callable[[], Any] = (lambda: None) if table is None else ref(table)
        self.model_device = model_device
        self._book = book
        self._looks = Looks()
        self._looking = threading.Lock()
        self._in_lease = False
        self._stepped = False
        self._unfinished = False

    def come_along(self, session: SessionState) -> None:
        """Be told of the next step's end."""
        if self not in session.visitors:
            with session.lock:
                if self not in session.visitors:
                    session.visitors.append(self)

    def leave_alone(self, session: SessionState) -> None:
        """Be told of nothing any more."""
        with session.lock:
            if self in session.visitors:
                session.visitors.remove(self)

    def looked_up(self, session: SessionState) -> None:
        """An adapter has found the session: the step that began with the last look-up is over."""
        if self._led(session):
            return
        if self._unfinished:
            self._step("look-up", session)
        self._unfinished = True

    def leased(self, session: SessionState) -> None:
        """A lease has begun."""
        self._in_lease, self._stepped = True, False

    def __call__(self, session: SessionState) -> None:
        """An outermost step has ended, or a lease."""
        while self in session.visitors:  # a look-up was faster
            session.visitors.remove(self)
        session.visitors.append(self)  # without the session's lock, which this thread may hold
        if self._book.open:
            self._book.safely(lambda: self._visit(session))
        else:
            session.visitors.remove(self)

    def _visit(self, session: SessionState) -> None:
        record = session.record
        if self._in_lease and (record is None or not record.leases):
            self._in_lease = False
            if self._stepped:
                self._amend(session)
            else:
                self._step("lease", session)
        else:
            self._stepped = True
            self._step("step", session)

    def leaves(self, session: SessionState) -> None:
        """The session is about to be emptied, or has left the table."""
        if self._unfinished and not self._led(session):
            self._unfinished = False
            self._step("look-up", session)

    def close(self, session: SessionState) -> None:
        """Nothing more is recorded."""
        self._book.safely(lambda: self.leaves(session))
        self._book.safely(lambda: self.leave_alone(session))

    def _led(self, session: SessionState) -> bool:
        """Whether the session is used with leases or steps, which say themselves when they end."""
        return self._in_lease or session.open_step is not None or bool(
            self.log.counted.get("step") or self.log.counted.get("lease")
        )  # fmt: skip

    def _step(self, kind: StepKind, session: SessionState) -> None:
        with self._looking:
            sights = self._looks.look(session, self._book.trouble)

            def entry() -> None:
                self._book.note(session, self.log)
                self.log.add(kind, sights)

            self._book.write_down(self.log, entry)

    def _amend(self, session: SessionState) -> None:
        with self._looking:
            sights = self._looks.look(session, self._book.trouble)
            self._book.write_down(self.log, lambda: self.log.amend(sights))
