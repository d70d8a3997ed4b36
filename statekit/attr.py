"""SessionAttr: the descriptor behind a carried value.

An adapter's `__dict__` *is* its session's attrs mapping (`statekit.adapter`). Python finds a key
that is present there before it asks a descriptor that has no `__set__`, so a plain SessionAttr is
only asked for keys that are absent: reads and writes cost what a plain attribute costs.

A coerced one must see every write, and a descriptor with `__set__` is asked for every read too.
It is therefore a `property` whose getter looks into the same mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

__all__ = ["SessionAttr"]

T = TypeVar("T")


class SessionAttr(Generic[T]):
    """A value that a session carries: reads fall back to the default, writes go to the session.

    Args:
        default: what a reader gets before anything was assigned, and after a delete. Immutable,
            or an empty list, dict or set: each session then gets one of its own, kept from the
            first read on.
        coerce: called with every value that is assigned; its result is stored.

    On the class the descriptor returns itself.

    Raises:
        ValueError: `default` is a container with something in it, or of another mutable kind.
    """

    name: str
    default: T
    coerce: Callable[[Any], T] | None

    def __new__(cls, *, default: T, coerce: Callable[[Any], T] | None = None) -> SessionAttr[T]:
        if default if isinstance(default, (list, dict, set)) else not isinstance(default, Hashable):
            raise ValueError(f"a SessionAttr's default must be empty or immutable: {default!r}")
        if coerce is not None and cls is SessionAttr:
            return cast("SessionAttr[T]", property.__new__(_CoercedAttr))
        return object.__new__(cls)

    def __init__(self, *, default: T, coerce: Callable[[Any], T] | None = None) -> None:
        self.default = default
        self.coerce = coerce

    def __set_name__(self, owner: type[object], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[object]) -> SessionAttr[T]: ...
    @overload
    def __get__(self, instance: object, owner: type[object]) -> T: ...
    def __get__(self, instance: object | None, owner: type[object]) -> SessionAttr[T] | T:
        if instance is None:
            return self
        default = self.default
        if default is None:  # the usual case, without another call
            return default
        return _default(default, instance.__dict__, self.name)

    if TYPE_CHECKING:
        # Declared for type checkers only: with a real __set__ every read would come here.
        def __set__(self, instance: object, value: T) -> None: ...


def _default(default: T, attrs: dict[str, Any], name: str) -> T:
    """`default`; an empty container is made anew and kept, or what is put into it would be lost."""
    if isinstance(default, (list, dict, set)):
        kept: T = attrs.setdefault(name, type(default)())
        return kept
    return default


class _CoercedAttr(property, SessionAttr[T]):
    """A SessionAttr with `coerce`; `property` comes first, so that its C code serves reads."""

    def __init__(self, *, default: T, coerce: Callable[[Any], T]) -> None:
        SessionAttr.__init__(self, default=default, coerce=coerce)

    def __set_name__(self, owner: type[object], name: str) -> None:
        self.name = name
        default, coerce = self.default, self.coerce
        assert coerce is not None

        def read(instance: Any) -> T:
            try:
                value: T = instance.__dict__[name]
            except KeyError:
                return _default(default, instance.__dict__, name)
            return value

        def write(instance: Any, value: Any) -> None:
            instance.__dict__[name] = coerce(value)

        def clear(instance: Any) -> None:
            try:
                del instance.__dict__[name]
            except KeyError:
                raise AttributeError(name) from None

        if hasattr(owner, "_carried") and not isinstance(default, (list, dict, set)):
            # No Python frame on a read: the adapter's `_carried` shares its mapping, and its
            # class holds the defaults (see `StateAdapter`).
            property.__init__(self, attrgetter(f"_carried.{name}"), write, clear)
        else:
            property.__init__(self, read, write, clear)
