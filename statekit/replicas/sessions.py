"""Sessions: what a client of a service calls.

Owns the calls; the way of a step is `statekit.replicas.client`, what the directory does about the
others is `statekit.replicas.service`.

    C3  What is gone is an error; nothing is ever begun but by `begin`.

Thread-safe. Steps of one session that are sent side by side run one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from statekit.replicas.client import Client, Known
from statekit.replicas.fleet import Options
from statekit.replicas.links import EmbeddedLink
from statekit.replicas.pending import Pending
from statekit.replicas.reports import Done, Drained, Place, ServiceStatus
from statekit.replicas.saving import Store
from statekit.replicas.service import Begin, Service

if TYPE_CHECKING:
    from statekit.replicas.replica import Replica

__all__ = ["EmbeddedSessions", "Sessions"]


class Sessions(Client):
    """The sessions of a service.

    Args:
        service: the link to the directory.
        link_to: makes a link to the replica of a name.
    """

    @classmethod
    def embedded(
        cls,
        replicas: Iterable[Replica],
        *,
        store: Store | None = None,
        options: Options | None = None,
    ) -> EmbeddedSessions:
        """A service in this process: the same calls, and the same rules.

        Args:
            store: where the replicas keep snapshots, if they do.
            options: what an operator decides.
        """
        return EmbeddedSessions(replicas, store, options)

    # -- a session's life --------------------------------------------------------------------------

    def begin(
        self,
        session_id: str,
        *args: Any,
        model: str | None = None,
        overrides: Mapping[str, int] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Begin a session; what its model's `begin` returned.

        Args:
            args: for the model's `begin`, as `kwargs` are.
            model: by the name in its schema; None where only one is served.
            overrides: numbers for the schema's, where this session's differ.

        Raises:
            SessionExistsError: a session of this id lives.
            SessionAdmissionError: it fits nowhere.
            ServiceError: no replica serves the model, or too many steps wait.
            Exception: what the model raised; nothing of the session is left.
        """
        begun: Begin = self._service.call("begin", session_id, model, overrides, args, kwargs)
        known = self._known[session_id] = Known(begun.place)
        known.seen = known.sent = 0
        return begun.output

    def step(self, session_id: str, *args: Any, **kwargs: Any) -> Any:
        """Do a step of a session; what its model returned.

        Raises:
            SessionStateLostError: it does not live; says what became of it.
            SessionRewoundError: it was restored from its last snapshot; says how many steps that
                has, this one among them where they are more than the client has `seen`.
            QueueFullError: too many wait already; it has not run.
            StepUnknownError: its replica did not answer; nobody knows whether it ran.
            ServiceError: where the session is could not be found out in time; it has not run.
            Exception: what the model raised; the session is as it was before the step.
        """
        known = self._known.get(session_id) or self._locate(session_id)

        def run(place: Place) -> Any:
            link = self.link(place.owner)
            return link.call("step", session_id, place.epoch, None, None, args, kwargs)

        return self.carried(session_id, known, run)

    def submit(self, session_id: str, *args: Any, **kwargs: Any) -> Pending:
        """Send a step and go on. Steps of a session that one client submits run in that order.

        Raises:
            SessionStateLostError, ServiceError: as `step`, where the session has to be found first.
        """
        known = self._known.get(session_id) or self._locate(session_id)
        if known.sent is None:
            self.count(session_id)
        with self._lock:
            order = known.next(self._client)
        key = f"{self._client}/{next(self._calls)}"
        return Pending(self, session_id, known, key, order, args, kwargs)

    def count(self, session_id: str) -> int:
        """How many steps a session has done.

        Raises:
            SessionStateLostError, SessionRewoundError, ServiceError: as `step`.
        """
        known = self._known.get(session_id) or self._locate(session_id)

        def run(place: Place) -> Done:
            done: Done = self.link(place.owner).call("count", session_id, place.epoch)
            return Done(done.step, done.step)

        count: int = self.carried(session_id, known, run)
        return count

    def close(self, session_id: str) -> bool:
        """End a session; whether there was one.

        What waits is refused; a step that runs may end.

        Raises:
            ServiceError: it did not settle in time.
            Exception: what the end of one of its objects raised; it is gone all the same.
        """
        self._known.pop(session_id, None)
        closed: bool = self._service.call("close", session_id)
        return closed

    def where(self, session_id: str) -> Place:
        """Where a session is. Raises: SessionStateLostError, ServiceError."""
        return self._where(session_id, 0)

    # -- for the operator --------------------------------------------------------------------------

    def move(self, session_id: str, to: str | None = None) -> Place:
        """Move a session between two of its steps; where it is then.

        Raises:
            SessionStateLostError: it does not live.
            MoveError: it could not be moved, and goes on where it is.
            ServiceError: it did not settle in time, or there is no such replica.
        """
        place: Place = self._service.call("move", session_id, to)
        return place

    def restore(
        self,
        session_id: str,
        *,
        model: str | None = None,
        overrides: Mapping[str, int] | None = None,
    ) -> Place:
        """Begin a session with what its last snapshot holds; where it is, and at which step.

        Raises:
            SessionExistsError: one of this id lives.
            ServiceError: there is no snapshot of it.
            Exception: why no replica has taken it.
        """
        place: Place = self._service.call("restore", session_id, model, overrides)
        known = self._known[session_id] = Known(place)
        known.seen = known.sent = place.step
        return place

    def drain(self, replica: str) -> Drained:
        """Move all sessions of a replica elsewhere; no more will begin there.

        Raises:
            ServiceError: there is no such replica.
        """
        drained: Drained = self._service.call("drain", replica)
        return drained

    def remove(self, replica: str) -> None:
        """End a replica that has no sessions any more. Raises: ServiceError."""
        self._service.call("remove", replica)
        self._links.pop(replica, None)

    def status(self) -> ServiceStatus:
        """All replicas, how many sessions are in which state, and which were lost."""
        status: ServiceStatus = self._service.call("status")
        return status


class EmbeddedSessions(Sessions):
    """The sessions of a service in this process; made by `Sessions.embedded`."""

    def __init__(
        self, replicas: Iterable[Replica], store: Store | None, options: Options | None
    ) -> None:
        self._embedded: dict[str, EmbeddedLink] = {}
        self.service = Service(store=store, options=options)
        super().__init__(EmbeddedLink("directory", self.service), self._embedded.__getitem__)
        for replica in replicas:
            self.add(replica)

    def add(self, replica: Replica) -> None:
        """A replica serves from now on.

        Raises:
            ServiceError: one of that name does already.
        """
        link = EmbeddedLink(replica.name, replica)
        self.service.add(link)
        self._embedded[replica.name] = link

    def kill(self, replica: str) -> None:
        """Let a replica die as a process does: nothing comes back from it. For tests."""
        self._embedded[replica].kill()
