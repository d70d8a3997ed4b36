"""SessionState: what one session holds, in its two buckets.

Owns the mapping of carried values (`attrs`) and the table of named StateObjects. Not here: which
sessions exist (`statekit.manager`), and how a value is named and typed (`statekit.adapter`).

    N1  After `reset()`, `attrs` is empty and no object is resident.
    N2  `attrs` is one dict for the session's whole life: adapters hold it as their `__dict__`.
    N3  Under one name there is one object, also when two threads ask for it at once.

Thread rule: the table may be read and grown from any thread; the values belong to one request
at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from statekit.accounting import SeenStorages, device_bytes, merge_bytes
from statekit.adopted import NOTHING_ADOPTED
from statekit.capture.fork import forked, promoted
from statekit.capture.step import Checks, Step
from statekit.errors import ForkError, ParameterConflictError
from statekit.objects.engine_handle import EngineHandle
from statekit.spec import ModelSpec
from statekit.state_object import StateObject

if TYPE_CHECKING:
    from statekit.books.record import Record
    from statekit.pressure.putting_away import ParkedUnit

__all__ = ["SessionState"]

Object = TypeVar("Object", bound=StateObject[Any, Any])


class SessionState:
    """The state of one session.

    Attributes:
        session_id: the id under which a manager knows it.
        adopted: what schemas say of its values.
        parked: what of it is parked; kept by `statekit.pressure.putting_away`.
        record: a manager's bookkeeping of this session; None where no manager holds it.
        lock: guards the table of objects and what is open; held for a few dict operations.
        open_step: the innermost step that is under way.
        checks: compares it with its schemas, in checking mode; else None.
        visitors: wait for the next moment at which the session is whole, to look at it.
        origin: the session that this one is a fork of, as long as it can become that one.
        since: of a fork, the `past` of its origin when it was made.
        past: another object after each reset and each promotion of a fork: what came before.
    """

    __slots__ = (
        "__weakref__",
        "_attrs",
        "_objects",
        "_parameters",
        "adopted",
        "checks",
        "lock",
        "open_step",
        "origin",
        "parked",
        "past",
        "record",
        "session_id",
        "since",
        "visitors",
    )

    def __init__(self, session_id: str = "default") -> None:
        self.session_id = session_id
        self._attrs: dict[str, Any] = {}
        self.lock = Lock()
        self._objects: dict[str, StateObject[Any, Any]] = {}
        self._parameters: dict[str, dict[str, int]] = {}
        self.adopted = NOTHING_ADOPTED
        self.parked: list[ParkedUnit] = []
        self.record: Record | None = None
        self.open_step: Step | None = None
        self.origin: SessionState | None = None
        self.past: object = object()
        self.since: object = None
        self.checks: Checks | None = None
        self.visitors: list[Callable[[SessionState], None]] = []

    def __repr__(self) -> str:
        counts = f"{len(self.attrs)} attrs, {len(self._objects)} objects"
        return f"<SessionState {self.session_id!r}: {counts}>"

    @property
    def attrs(self) -> dict[str, Any]:
        """The carried values by name."""
        return self._attrs

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the objects, resident or not, in the order in which they came."""
        return tuple(self._objects)

    def get(self, name: str) -> StateObject[Any, Any] | None:
        """The object called `name`, or None."""
        return self._objects.get(name)

    def put(self, name: str, obj: StateObject[Any, Any]) -> None:
        """Hold `obj` as `name`, in place of any other.

        Raises:
            TypeError: `obj` is no StateObject; carried values go into `attrs`.
        """
        if not isinstance(obj, StateObject):
            raise TypeError(
                f"session object {name!r} must be a StateObject, got {type(obj).__name__}; "
                "put a value that is only carried into attrs"
            )
        self._keep(name, obj)

    def get_or_create(self, name: str, factory: Callable[[], Object], cls: type[Object]) -> Object:
        """The object called `name`; built by `factory` if absent, of another type, or not resident.

        `factory` runs without a lock; if two threads build at once, one object is kept.
        """
        found = self._objects.get(name)
        if isinstance(found, cls) and found.resident:
            return found
        built = factory()
        with self.lock:
            found = self._objects.get(name)
            if isinstance(found, cls) and found.resident:
                return found
            self._keep(name, built)
        return built

    def remove(self, name: str) -> bool:
        """Take the object called `name` out; whether there was one."""
        if self.record is not None:
            self.record.engines.pop(name, None)
            self.record.released.discard(name)
        return self._objects.pop(name, None) is not None

    def reset(self) -> None:
        """Reset every object and clear the carried values and parameters.

        Raises:
            Exception: what an object's reset raised first, an engine's close say; all others are
                reset, and all else is cleared, nevertheless.
        """
        self.past = object()
        self._attrs.clear()
        self._parameters.clear()
        self._reset(tuple(self._objects.items()))

    def reset_objects(self, pattern: re.Pattern[str]) -> None:
        """Reset the objects whose whole name matches `pattern`.

        Raises:
            Exception: as `reset`.
        """
        self._reset([item for item in tuple(self._objects.items()) if pattern.fullmatch(item[0])])

    def end_request(self) -> None:
        """Clear the values that live only as long as a request; a manager does so when the last
        lease on the session ends.

        Raises:
            Exception: as `reset`.
        """
        for carried, pattern in self.adopted.passing:
            if carried:
                for name in [name for name in tuple(self._attrs) if pattern.fullmatch(name)]:
                    self._attrs.pop(name, None)
            else:
                self.reset_objects(pattern)

    def _reset(self, objects: Iterable[tuple[str, StateObject[Any, Any]]]) -> None:
        first: Exception | None = None
        for name, obj in objects:
            if self.record is not None:
                self.record.released.discard(name)  # what comes next is no rebuild
            try:
                obj.reset()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first

    def _keep(self, name: str, obj: StateObject[Any, Any]) -> None:
        self._objects[name] = obj
        if self.record is not None:
            if isinstance(obj, EngineHandle):
                self.record.engines[name] = obj
            else:
                self.record.engines.pop(name, None)

    # -- going back, and going on in several ways --------------------------------------------------

    def step(self) -> Step:
        """A forward, for a `with` block: on an error the session is as it was, and the error goes
        on; on success what is staged is committed.

        The returned step raises when it begins:
            StepError: another thread or task is in a step of this session, or a value of it
                cannot be captured.
            ParkError: a value is parked and cannot be brought back now.
        """
        return Step(self)

    def fork(self) -> SessionState:
        """Another session that holds what this one holds now, sharing memory until either writes.

        Under the same id, in no table: it lives as long as somebody holds it, and is counted as
        long as it lives. `promote` makes this session what the fork has become.

        Raises:
            ForkError: another thread or task is in a step, or a value cannot be shared.
            ParkError: a value is parked and cannot be brought back now.
        """
        return forked(self)

    def promote(self) -> SessionState:
        """Make the origin of this fork what the fork is, and return it; the fork is empty then.

        Raises:
            ForkError: this is no fork, or one of another past: its origin has been reset or
                dropped, or another fork was promoted. Or one of the two is in a step.
        """
        return promoted(self)

    def discard(self) -> None:
        """End this fork: what it alone holds is freed.

        Raises:
            ForkError: this is no fork; end a session with its manager's `drop_session`.
        """
        if self.origin is None:
            raise ForkError(self.session_id, "it is none", "use drop_session to end a session")
        self.origin = None
        self.reset()

    @property
    def parameters(self) -> dict[str, dict[str, int]]:
        """The sizes that the objects were built with, by model, in a new dict."""
        return self._parameters.copy()

    def hold(
        self, objects: Mapping[str, StateObject[Any, Any]], parameters: Mapping[str, dict[str, int]]
    ) -> None:
        """Hold these objects in place of all others, none of which is reset."""
        with self.lock:
            self._parameters.clear()
            self._parameters.update(parameters)
            self._objects.clear()
            self._objects.update(objects)
            if self.record is not None:
                self.record.engines = {
                    name: obj for name, obj in objects.items() if isinstance(obj, EngineHandle)
                }

    def claim_parameters(self, model: str, parameters: Mapping[str, int]) -> None:
        """Record the sizes that the objects of `model` are built with.

        Raises:
            ParameterConflictError: another value was recorded before; nothing is changed.
        """
        if self._parameters.get(model) == parameters:
            return
        with self.lock:
            claimed = self._parameters.get(model, {})
            for name, value in parameters.items():
                first = claimed.get(name, value)
                if first != value:
                    raise ParameterConflictError(self.session_id, name, first, value)
            self._parameters[model] = {**claimed, **parameters}

    def adopt(self, spec: ModelSpec) -> None:
        """Learn what a schema says of this session's values; adapters do so when they are made."""
        if self.adopted.knows(spec):
            return
        with self.lock:
            if not self.adopted.knows(spec):
                self.adopted = self.adopted.and_also(spec)

    def committed(self) -> dict[str, Any]:
        """What the objects hold, by name, for a look at their memory."""
        return {name: obj.committed() for name, obj in tuple(self._objects.items())}

    @property
    def objects(self) -> dict[str, StateObject[Any, Any]]:
        """The objects by name, in a new dict."""
        return self._objects.copy()

    def nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Committed bytes of both buckets by device, each storage once.

        Parked bytes are under the device where they lie: "cpu", or "disk" for files.
        """
        seen = SeenStorages() if seen is None else seen
        total: dict[str, int] = {}
        for obj in tuple(self._objects.values()):
            merge_bytes(total, obj.nbytes_by_device(seen))
        for unit in tuple(self.parked):
            merge_bytes(total, unit.count(seen))
        return merge_bytes(total, device_bytes(self.attrs, seen))

    def staged_nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Staged bytes by device, less the storages that `seen` has met."""
        seen = SeenStorages() if seen is None else seen
        total: dict[str, int] = {}
        for obj in tuple(self._objects.values()):
            merge_bytes(total, obj.staged_nbytes_by_device(seen))
        return total

    def undo_nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Bytes by device that open steps keep to go back to, less what `seen` has met.

        Most of it the session holds as well: count that first.
        """
        seen = SeenStorages() if seen is None else seen
        total: dict[str, int] = {}
        step = self.open_step
        while step is not None:
            if step.capture is not None:
                merge_bytes(total, device_bytes(step.capture.held(), seen))
            step = step.outer
        return total

    @property
    def nbytes(self) -> int:
        """Committed bytes over all devices; for a budget use `nbytes_by_device`."""
        return sum(self.nbytes_by_device().values())
