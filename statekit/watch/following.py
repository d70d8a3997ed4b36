"""Following: what a service says of itself, asked every so often by a thread.

Owns the thread and the last answer. Whoever reads it waits for nobody: a directory that does not
answer makes the answer old, and nothing slow.

    F1  No step waits for it: a replica is asked as its directory asks it anyway.
    F2  It keeps no embedded service alive: its thread ends with that, or with `close`. A client of
        a service that runs elsewhere is kept until `close`: nobody else may hold it.

Thread-safe. Loads without torch.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from statekit.replicas.reports import ServiceStatus

__all__ = ["Follower", "HasStatus", "Seen"]

_LATELY_S = 10.0
"""What rates are taken over, at least."""


class HasStatus(Protocol):
    """The sessions of a service: embedded, or a client's of one elsewhere."""

    def status(self) -> ServiceStatus:
        """All replicas, how many sessions are in which state, and those that were lost."""


@attrs.frozen
class Seen:
    """What is known of a service now.

    Attributes:
        status: its last answer; None where it never answered.
        age_s: how long ago that was; None with it.
        problem: why it did not answer the last time it was asked, or does not now; None where it
            does.
        rates: steps a second by replica, where that is known.
    """

    status: ServiceStatus | None
    age_s: float | None
    problem: str | None
    rates: Mapping[str, float]


@attrs.frozen
class _Look:
    """One answer, and when it came."""

    at: float
    status: ServiceStatus


class Follower:
    """Asks a service how it is, and remembers.

    Args:
        every_s: how often; an answer that is three times as old is none.
        heard: is told of each answer, or of why there is none, in the thread that asked.
    """

    def __init__(
        self,
        service: HasStatus,
        every_s: float,
        heard: Callable[[ServiceStatus | None, str | None], None] | None = None,
    ) -> None:
        self.every_s = every_s
        self._stopped = threading.Event()
        self._client = None if _is_embedded(service) else service
        self._service = weakref.ref(service, lambda _: self._stopped.set())
        self._heard = heard
        self._asking = threading.Lock()
        self._looks: tuple[_Look, ...] = ()  # replaced whole: read without a lock
        self._problem: str | None = "it has not answered yet"
        first = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(first,), name="statekit-follow", daemon=True
        )
        self._thread.start()
        first.wait(every_s)

    def close(self) -> None:
        """Ask no more; safe to repeat, and from any thread. Does not wait for an answer."""
        self._stopped.set()
        self._client = None

    @property
    def alive(self) -> bool:
        """Whether there is a service to ask."""
        return not self._stopped.is_set() and self._service() is not None

    def look(self) -> None:
        """Ask now, and wait for the answer."""
        service = self._service()
        if service is None:
            return
        with self._asking:
            status, problem = None, None
            try:
                status = service.status()
            except Exception as error:  # of a transport, say: told to who looks
                problem = str(error) or type(error).__name__
            else:
                looks = (*self._looks, _Look(time.monotonic(), status))
                while len(looks) > 2 and looks[-1].at - looks[1].at >= _LATELY_S:
                    looks = looks[1:]
                self._looks = looks
            self._problem = problem
            if self._heard is not None:
                self._heard(status, problem)

    def seen(self) -> Seen:
        """What is known now; waits for nobody."""
        looks, problem = self._looks, self._problem
        if not looks:
            return Seen(None, None, problem, {})
        age_s = time.monotonic() - looks[-1].at
        if problem is None and age_s > 3 * self.every_s:
            problem = "it does not answer"
        return Seen(looks[-1].status, age_s, problem, _rates(looks[0], looks[-1]))

    def _run(self, first: threading.Event) -> None:
        while not self._stopped.is_set():
            self.look()
            first.set()
            self._stopped.wait(self.every_s)


def _rates(first: _Look, last: _Look) -> dict[str, float]:
    took_s = last.at - first.at
    before = {one.facts.name: one.steps for one in first.status.replicas}
    return {
        one.facts.name: (one.steps - before[one.facts.name]) / took_s
        for one in last.status.replicas
        # What has fewer steps than before is a new replica of that name.
        if took_s > 0 and one.steps >= before.get(one.facts.name, one.steps + 1)
    }


def _is_embedded(service: HasStatus) -> bool:
    """Whether it lives in this process; its class is loaded then."""
    module = sys.modules.get("statekit.replicas.sessions")
    return module is not None and isinstance(service, module.EmbeddedSessions)
