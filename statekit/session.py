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
from statekit.errors import ParameterConflictError
from statekit.objects.engine_handle import EngineHandle
from statekit.pressure.release_units import ReleaseUnit, release_units
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
        parked: what of it is parked; kept by `statekit.pressure.putting_away`.
        record: a manager's bookkeeping of this session; None where no manager holds it.
    """

    __slots__ = (
        "__weakref__",
        "_attrs",
        "_lock",
        "_objects",
        "_parameters",
        "_specs",
        "_units",
        "parked",
        "record",
        "session_id",
    )

    def __init__(self, session_id: str = "default") -> None:
        self.session_id = session_id
        self._attrs: dict[str, Any] = {}
        self._lock = Lock()  # held for a few dict operations, never while anything is built
        self._objects: dict[str, StateObject[Any, Any]] = {}
        self._parameters: dict[str, dict[str, int]] = {}
        self._specs: tuple[ModelSpec, ...] = ()
        self._units: tuple[ReleaseUnit, ...] = ()
        self.parked: list[ParkedUnit] = []
        self.record: Record | None = None

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
        with self._lock:
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
        self._attrs.clear()
        self._parameters.clear()
        self._reset(tuple(self._objects.items()))

    def reset_objects(self, pattern: re.Pattern[str]) -> None:
        """Reset the objects whose whole name matches `pattern`.

        Raises:
            Exception: as `reset`.
        """
        self._reset([item for item in tuple(self._objects.items()) if pattern.fullmatch(item[0])])

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

    def claim_parameters(self, model: str, parameters: Mapping[str, int]) -> None:
        """Record the sizes that the objects of `model` are built with.

        Raises:
            ParameterConflictError: another value was recorded before; nothing is changed.
        """
        if self._parameters.get(model) == parameters:
            return
        with self._lock:
            claimed = self._parameters.get(model, {})
            for name, value in parameters.items():
                first = claimed.get(name, value)
                if first != value:
                    raise ParameterConflictError(self.session_id, name, first, value)
            self._parameters[model] = {**claimed, **parameters}

    def adopt(self, spec: ModelSpec) -> None:
        """Learn what a schema says of this session's values; adapters do so when they are made."""
        for known in self._specs:
            if known is spec:
                return
        with self._lock:
            if not any(spec is known for known in self._specs):
                self._specs = (*self._specs, spec)
                self._units = tuple(unit for one in self._specs for unit in release_units(one))

    @property
    def specs(self) -> tuple[ModelSpec, ...]:
        """The specs that adapters have brought along."""
        return self._specs

    @property
    def release_units(self) -> tuple[ReleaseUnit, ...]:
        """What of this session may be released or parked, according to its specs."""
        return self._units

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

    @property
    def nbytes(self) -> int:
        """Committed bytes over all devices; for a budget use `nbytes_by_device`."""
        return sum(self.nbytes_by_device().values())
