"""RayLink: how a call gets to an actor, and what Ray's errors mean here.

Owns the way there and back. What the other end raised is raised here as it was; where the other end
is gone, `ReplicaDiedError` is.

A call is one list, and what a step gives another: each argument of an actor's method costs, and of
all that Python has, Ray sends lists, dicts, numbers and strings without pickling them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import ray
from ray.exceptions import (
    ActorUnavailableError,
    GetTimeoutError,
    ObjectLostError,
    RayActorError,
    RayTaskError,
)

from statekit.errors import ReplicaDiedError, ServiceError
from statekit.replicas.reports import Done

__all__ = ["GROUPS", "NAMESPACE", "RayAnswer", "RayLink", "actor_name"]

NAMESPACE = "statekit"
"""Ray's namespace of all actors that statekit starts."""

GROUPS = {"control": 16, "look": 2}
"""Threads of a replica's actor that are kept for calls other than steps."""

_GROUP_OF = {
    **dict.fromkeys(("report", "count", "declared", "node"), "look"),
    **dict.fromkeys(("cancel", "close", "freeze", "thaw", "restore", "forget"), "control"),
}
_COUNTED = frozenset({"step", "count"})
"""What returns a `Done`, sent as a list."""

_REPEATABLE = frozenset({"report", "count", "declared", "node", "freeze"})
"""What may be asked again of an actor that cannot be reached just now, and how often."""
_TRIES, _PAUSE_S = 3, 0.5

_TIMEOUTS_S = {"report": 60.0}
"""A replica that does not say for so long what it has is taken for dead."""

Result = TypeVar("Result")


def actor_name(service: str, role: str, name: str = "") -> str:
    """The name of an actor of a service."""
    return f"{service}/{role}/{name}" if name else f"{service}/{role}"


class RayLink:
    """A link to one actor, found by name when it is first called.

    Args:
        name: of the replica, or of what else it leads to.
        actor: the actor's name.
        grouped: whether it is a replica's, with threads of their own for some calls.
    """

    def __init__(self, name: str, actor: str, *, grouped: bool = False) -> None:
        self._name, self._actor, self._grouped = name, actor, grouped
        self._methods: dict[str, Any] = {}
        self._lives = False

    @property
    def name(self) -> str:
        """The name of what it leads to."""
        return self._name

    def call(self, method: str, *args: Any) -> Any:
        """Call a method and wait for what it returns. Raises: as `Link.call`."""
        for _ in range(_TRIES if method in _REPEATABLE else 0):
            try:
                return self._got(method, args)
            except ReplicaDiedError as error:
                if not isinstance(error.__cause__, ActorUnavailableError):
                    raise
            time.sleep(_PAUSE_S)
        return self._got(method, args)

    def _got(self, method: str, args: tuple[Any, ...]) -> Any:
        # A replica that loads its model yet takes as long as that takes.
        timeout = _TIMEOUTS_S.get(method) if self._lives else None
        answer = self.translated(lambda: ray.get(self._sent(method, args), timeout=timeout))
        self._lives = True
        return self.answered(method, answer)

    def start(self, method: str, *args: Any) -> RayAnswer:
        """Call a method, and go on; errors come with the answer."""
        try:
            ref = self.translated(lambda: self._sent(method, args))
        except ReplicaDiedError as error:
            return RayAnswer(self, method, None, error)
        return RayAnswer(self, method, ref)

    def kill(self) -> None:
        """See to it that the actor does nothing any more."""
        if not ray.is_initialized():
            return
        try:
            ray.kill(ray.get_actor(self._actor, NAMESPACE), no_restart=True)
        except ValueError:  # there is none
            return

    def translated(self, get: Callable[[], Result]) -> Result:
        """What a call to Ray returns; its errors are those of `Link.call`."""
        try:
            return get()
        except RayTaskError as error:
            if isinstance(error.cause, Exception):
                raise error.cause from error
            raise
        except GetTimeoutError as error:
            raise ReplicaDiedError(self._name, "it does not answer") from error
        except (RayActorError, ObjectLostError) as error:
            self._methods.clear()  # one of that name may be started again
            raise ReplicaDiedError(self._name, _why(error)) from error

    def _sent(self, method: str, args: tuple[Any, ...]) -> Any:
        if not ray.is_initialized():  # or Ray would start a cluster of its own, and look there
            found = "this process is connected to no Ray cluster"
            raise ServiceError(self._name, found, "call ray.init, and connect to the service anew")
        run = self._methods.get(method) or self._method(method)
        if method != "step":
            return run.remote([method, *args])
        session_id, epoch, key, order, given, kwargs = args
        place = None if order is None else [order.number, order.client, order.line]
        return run.remote([method, session_id, epoch, key, place, [*given], kwargs])

    def answered(self, method: str, answer: Any) -> Any:
        """What a method returned, out of what was sent."""
        return Done(*answer) if method in _COUNTED else answer

    def _method(self, method: str) -> Any:
        try:
            run = ray.get_actor(self._actor, NAMESPACE).run
        except ValueError:
            raise ReplicaDiedError(self._name, "there is no such actor") from None
        if self._grouped and method in _GROUP_OF:
            run = run.options(concurrency_group=_GROUP_OF[method])
        self._methods[method] = run
        return run


def _why(error: Exception) -> str:
    """What Ray says of an actor that does not answer, in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [repr(error)]
    if "creation task" in lines[0]:
        return f"it could not be made: {lines[-1]}"
    kind = "unreachable" if isinstance(error, ActorUnavailableError) else "dead"
    return f"its actor is {kind}: {lines[0].rstrip('.')}"


class RayAnswer:
    """What a call that is under way will return."""

    def __init__(
        self, link: RayLink, method: str, ref: Any, error: Exception | None = None
    ) -> None:
        self._link, self._method, self._ref, self._error = link, method, ref, error

    def result(self, timeout: float | None = None) -> Any:
        """Wait for it. Raises: as `Answer.result`."""
        if self._error is not None:
            raise self._error
        if timeout is not None and not ray.wait([self._ref], timeout=timeout)[0]:
            raise TimeoutError(f"no answer within {timeout} s")
        answer = self._link.translated(lambda: ray.get(self._ref))
        return self._link.answered(self._method, answer)

    def done(self) -> bool:
        """Whether it is there."""
        return self._error is not None or bool(ray.wait([self._ref], timeout=0)[0])
