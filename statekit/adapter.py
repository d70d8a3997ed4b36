"""StateAdapter: what every generated class inherits; a view of one session.

Owns the join between an adapter and its session: carried values are the adapter's own attributes
(its `__dict__` is the session's attrs mapping), objects are looked up by key. Holds no state of
its own beyond the session it looks at, so an adapter made anew for every forward sees what the
last one wrote, and one that is kept keeps its session alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar

from statekit.adapter_type import AdapterType
from statekit.capture.step import Step
from statekit.checking.mode import check_from_now_on, is_on
from statekit.errors import ParameterError
from statekit.manager import SessionStateManager
from statekit.session import SessionState
from statekit.spec import ModelSpec
from statekit.state_object import StateObject

__all__ = ["StateAdapter"]

Object = TypeVar("Object", bound=StateObject[Any, Any])
Self = TypeVar("Self", bound="StateAdapter")


class _Carried:
    """Shares a session's attrs mapping; its class attributes are the defaults of coerced values."""


class StateAdapter(metaclass=AdapterType):
    """The base of generated adapters.

    Args:
        session_id: the id as the caller knows it; None or "" means the session "default".
        manager: holds the sessions; the session is made if there is none.
        parameters: sizes that the session's objects are built with.

    Raises:
        ParameterError: a parameter is out of its bounds.
        ParameterConflictError: the session was built with another value of a parameter.
    """

    __slots__ = ("__dict__", "__weakref__", "_carried", "_parameters", "_session", "_session_id")

    SPEC: ClassVar[ModelSpec]
    _carried_class: ClassVar[type[_Carried] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._carried_class = None  # made with the first instance, when the class is complete

    def __init__(
        self, session_id: str | None, manager: SessionStateManager, **parameters: int
    ) -> None:
        for name, value in parameters.items():
            _check_parameter(self.SPEC, name, value)
        session = manager.get_or_create_session(session_id)
        session.claim_parameters(self.SPEC.model, parameters)
        session.adopt(self.SPEC)
        self._parameters = parameters
        self._session_id = session_id
        self._session = session
        self._carried = (self._carried_class or _carried_class(type(self)))()
        self._carried.__dict__ = self.__dict__ = session.attrs
        if is_on():
            check_from_now_on(self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is a view of a session of this process and cannot be copied "
            "or pickled; make another one over the same manager"
        )

    @property
    def session_id(self) -> str | None:
        """The id that was passed in."""
        return self._session_id

    @property
    def session(self) -> SessionState:
        """The session that this adapter is a view of."""
        return self._session

    def step(self) -> Step:
        """A forward, for a `with` block: whole or not at all. See `SessionState.step`."""
        return self._session.step()

    def fork(self: Self) -> Self:
        """An adapter of the same kind over a fork of the session. See `SessionState.fork`.

        To keep what became of it: `fork.session.promote()`; else `fork.session.discard()`.

        Raises:
            ForkError: another thread or task is in a step, or a value cannot be shared.
            ParkError: a value is parked and cannot be brought back now.
        """
        holder: Any = _Holder(self._session.fork())
        return type(self)(self._session_id, holder, **self._parameters)

    def _object(self, key: str, factory: Callable[[], Object], kind: type[Object]) -> Object:
        """The session's object under `key`, made by `factory` where there is none.

        Raises:
            ParameterConflictError: since the session was reset, another adapter has claimed other
                sizes than this one would build with.
        """

        found = self._session.get(key)
        if isinstance(found, kind) and found.resident:
            return found

        def build() -> Object:
            self._session.claim_parameters(self.SPEC.model, self._parameters)
            return factory()

        return self._session.get_or_create(key, build, kind)

    def _clear(self, *names: str) -> None:
        """Clear the values with these names: carried ones fall back to their defaults."""
        for name in names:
            value = self.SPEC[name]
            if value.bucket == "attrs":
                for key in self.SPEC.keys_of(value):
                    self._session.attrs.pop(key, None)
            else:
                pattern = self.SPEC.key_pattern(value)
                self._session.reset_objects(pattern)


class _Holder:
    """Stands in for a manager where the session is at hand."""

    def __init__(self, session: SessionState) -> None:
        self._session = session

    def get_or_create_session(self, session_id: object) -> SessionState:
        return self._session


def _carried_class(cls: type[StateAdapter]) -> type[_Carried]:
    attrs = cls._session_attrs
    defaults = {name: one.default for name, one in attrs.items() if one.coerce is not None}
    cls._carried_class = type("_Carried", (_Carried,), defaults)
    return cls._carried_class


def _check_parameter(spec: ModelSpec, name: str, value: object) -> None:
    parameter = spec.parameters[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise ParameterError(name, value, "pass a whole number")
    if parameter.minimum is not None and value < parameter.minimum:
        raise ParameterError(name, value, f"pass at least {parameter.minimum}")
    if parameter.maximum is not None and value > parameter.maximum:
        raise ParameterError(name, value, f"pass at most {parameter.maximum}")
