"""SessionAttr: the descriptor behind a carried value, and what stands in for it on an adapter.

An adapter's `__dict__` *is* its session's attrs mapping (`statekit.adapter`). As long as the class
has a descriptor of that name, Python looks it up on every access. So a class of adapters holds, in
the place of a plain SessionAttr, its default itself: reads and writes are those of an ordinary
attribute with a default on its class. A coerced one must see every write: in its place is a
`property` over the same mapping. Asked on the class, the descriptor answers all the same
(`statekit.adapter_type`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

__all__ = ["SessionAttr", "in_place_of"]

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
        return _default(self.default, instance.__dict__, self.name)

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
    """A SessionAttr with `coerce` on a class that is no adapter; `property` sees every write."""

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

        property.__init__(self, read, write, clear)


def in_place_of(attr: SessionAttr[Any]) -> Any:
    """What a class of adapters holds under the name of `attr`, so that access is fast."""
    if isinstance(attr.default, (list, dict, set)):
        return attr  # a reader's first read must put a new container into the session
    if attr.coerce is None:
        return attr.default
    # A Python frame costs more than a C call until 3.12, which runs a property's frame inline.
    inline = sys.version_info >= (3, 12)
    return property(
        _named(_read, attr.name) if inline else attrgetter(f"_carried.{attr.name}"),
        _named(_write, attr.name, _coerce=attr.coerce),
        _named(_clear, attr.name),
    )


def _named(template: Callable[..., Any], name: str, **names: object) -> FunctionType:
    """`template` with the attribute `_NAME` under another name: a constant, which is fastest."""
    code: CodeType = template.__code__
    words = tuple(name if word == "_NAME" else word for word in code.co_names)
    return FunctionType(code.replace(co_names=words), names)


# Over `_carried`, which shares the session's mapping and whose class holds the defaults.
def _read(adapter: Any) -> Any:
    return adapter._carried._NAME


def _write(adapter: Any, value: Any) -> None:
    adapter._carried._NAME = _coerce(value)  # type: ignore[name-defined]  # noqa: F821


def _clear(adapter: Any) -> None:
    del adapter._carried._NAME
