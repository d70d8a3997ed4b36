"""Links: how a call reaches a replica, or the directory of all of them.

Owns the form of a link, and the one that stays in this process. The calls and their answers are the
same over every transport; so is what happens where the other end is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from statekit.errors import ReplicaDiedError

__all__ = ["Answer", "EmbeddedLink", "Link"]


class Answer(Protocol):
    """What a call that is under way will return."""

    def result(self, timeout: float | None = None) -> Any:
        """Wait for it.

        Raises:
            TimeoutError: it is not there yet.
            ReplicaDiedError: the other end is gone.
            Exception: what the call raised.
        """

    def done(self) -> bool:
        """Whether it is there."""


class Link(Protocol):
    """One replica, as others see it."""

    @property
    def name(self) -> str:
        """The replica's name."""

    def call(self, method: str, *args: Any) -> Any:
        """Call a method and wait for what it returns.

        Raises:
            ReplicaDiedError: it is gone; whether it has done what it was asked is not known.
            Exception: what the method raised.
        """

    def start(self, method: str, *args: Any) -> Answer:
        """Call a method, and go on."""

    def kill(self) -> None:
        """See to it that it does nothing any more, as far as that is possible."""


class EmbeddedLink:
    """A link to what lives in this process; calls run in the caller's thread.

    After `kill` nothing comes back from it, also not from what was under way: so does a process
    that dies.
    """

    def __init__(self, name: str, target: Any) -> None:
        self._name, self._target = name, target
        self._dead = threading.Event()

    @property
    def name(self) -> str:
        """The name of what it leads to."""
        return self._name

    def call(self, method: str, *args: Any) -> Any:
        """Call a method and return what it returns. Raises: as `Link.call`."""
        self._require_alive()
        try:
            answer = getattr(self._target, method)(*args)
        except BaseException:
            self._require_alive()
            raise
        self._require_alive()
        return answer

    def start(self, method: str, *args: Any) -> Answer:
        """Call a method in a thread of its own."""
        answer: Future[Any] = Future()
        call = partial(self.call, method, *args)
        name = f"statekit-{self._name}"
        threading.Thread(target=_run, args=(answer, call), name=name, daemon=True).start()
        return answer

    def kill(self) -> None:
        """Nothing comes back from it any more."""
        self._dead.set()

    def _require_alive(self) -> None:
        if self._dead.is_set():
            raise ReplicaDiedError(self._name, "it was killed")


def _run(answer: Future[Any], call: Callable[[], Any]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:
        answer.set_exception(error)
