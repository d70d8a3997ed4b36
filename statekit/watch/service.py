"""Watching a service: metrics and the live view of its replicas, from any process that uses it.

Owns what ties a service to a registry and to a socket. Whoever has the sessions of a service can
show it: the process that it is embedded in, or any client of one that runs elsewhere. What is known
is what its directory says, asked in a thread of its own (`following`), so that neither a scrape nor
a viewer waits for a replica, and no step for them.

    M1  A scrape, and a viewer, get the last answer and how old it is.
    M2  No embedded service is kept alive; one that is gone has no metrics and no socket any more.

Metrics need the extra `metrics` (prometheus-client). Loads without torch. Thread-safe.
"""

from __future__ import annotations

import itertools
import os
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING

from statekit.watch import wire
from statekit.watch.exporting import Exporter, Values, registry_of
from statekit.watch.following import Follower, HasStatus
from statekit.watch.picture import Happening
from statekit.watch.server import Server, open_server
from statekit.watch.service_names import SERVICE_METRICS
from statekit.watch.service_news import News, news
from statekit.watch.service_values import picture_of, values_of
from statekit.watch.sources import REMEMBERED, happening

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

    from statekit.replicas.reports import ServiceStatus

__all__ = ["ServiceCollection", "collect_service", "serve_service"]

EVERY_S = 2.0
"""How often a service is asked, unless told otherwise."""

_exporter = Exporter(SERVICE_METRICS, "service")


def collect_service(
    sessions: HasStatus,
    registry: CollectorRegistry | None = None,
    name: str = "default",
    *,
    every_s: float = EVERY_S,
) -> ServiceCollection:
    """Have a registry export the metrics of a service and its replicas from now on.

    Args:
        sessions: those of an embedded service, or of a client of one: one process of a deployment
            is enough.
        registry: None is the one that `prometheus_client` serves by default.
        name: the value of the label `service`, one for each service of a registry.
        every_s: how often the service is asked how it is.

    Returns what ends it: `close()`, or the end of a `with` block.

    Raises:
        WatchError: prometheus-client is missing, the registry has a service of this name, or
            somebody else's metrics of our names.
    """
    return ServiceCollection(sessions, registry_of(registry), name, every_s)


def serve_service(
    sessions: HasStatus,
    path: str | os.PathLike[str] | None = None,
    name: str = "default",
    *,
    every_s: float = EVERY_S,
) -> Server:
    """Let this user watch a service with `statekit top`, from now on.

    Args:
        sessions: those of an embedded service, or of a client of one.
        path: of the socket, as `statekit.watch.server.serve` has it.
        name: what the view calls the service.
        every_s: how often the service is asked how it is.

    Raises:
        WatchError: there is no such socket here, its folder is not private, or its place is taken.
    """
    return open_server(sessions, lambda: _ServiceSource(sessions, name, every_s), path)


class ServiceCollection:
    """The metrics of one service in one registry; made by `collect_service`.

    Counters count from when the directory came to know a replica, and are gone with it.
    """

    def __init__(
        self, sessions: HasStatus, registry: CollectorRegistry, name: str, every_s: float
    ) -> None:
        self.name = name
        self._registry = weakref.ref(registry)  # which holds this
        self._follower = Follower(sessions, every_s)
        try:
            _exporter.add(self)
        except BaseException:
            self._follower.close()
            raise

    def close(self) -> None:
        """Export nothing of the service any more; safe to repeat."""
        self._follower.close()
        _exporter.remove(self)

    def __enter__(self) -> ServiceCollection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def registry(self) -> CollectorRegistry | None:
        """Where the metrics are; None where nobody holds that any more."""
        return self._registry()

    @property
    def alive(self) -> bool:
        """Whether there is a service to ask."""
        return self._follower.alive

    def look(self) -> None:
        """Ask the service now, and wait for its answer."""
        self._follower.look()

    def values(self) -> dict[str, Values] | None:
        """The values of all metrics, by name and by labels; None where the service is gone."""
        return values_of(self._follower.seen()) if self._follower.alive else None


class _ServiceSource:
    """Shows one service, and remembers what became of it."""

    def __init__(self, sessions: HasStatus, name: str, every_s: float) -> None:
        self._name = name
        self._happened: tuple[Happening, ...] = ()  # replaced whole: read without a lock
        self._number = itertools.count(1)
        self._before: ServiceStatus | None = None
        self._problem: str | None = None
        self._follower = Follower(sessions, every_s, self._hear)

    def answer(self, ask: wire.Ask) -> bytes:
        """A picture of the service as it was when it last answered."""
        seen = self._follower.seen()
        return wire.answer_line(picture_of(seen, ask, self._name, self._happened))

    def close(self) -> None:
        """Ask no more."""
        self._follower.close()

    def _hear(self, status: ServiceStatus | None, problem: str | None) -> None:
        at, before = time.time(), self._problem
        self._problem = problem
        if status is None:
            if before is None:
                self._tell(at, News("silent", True, f"the directory does not answer: {problem}"))
            return
        if before is not None:
            self._tell(at, News("answers", False, "the directory answers again"))
        for one in news(self._before, status):
            self._tell(at, one)
        self._before = status

    def _tell(self, at: float, one: News) -> None:
        number = next(self._number)
        told = happening(number, at, one.kind, one.warning, one.text)
        self._happened = (*self._happened, told)[-REMEMBERED:]
