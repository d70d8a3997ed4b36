"""The class of checked adapters: a subclass of the adapter's own, made when checking is on.

Owns what stands in the way of reads and writes: a property for each carried value, and the look-up
of objects. The class that was generated is left as it is, so an adapter that is not checked runs
none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from statekit.attr import SessionAttr
from statekit.checking.book import book_of
from statekit.checking.declaration import Place, declarations_of
from statekit.checking.objects import check_family, check_object
from statekit.family import ObjectFamily
from statekit.state_object import StateObject

__all__ = ["checked_class"]


@cache
def checked_class(cls: type[Any]) -> type[Any]:
    """The checked subclass of `cls`, an adapter's class; `cls` itself where it is one."""
    if "_checks" in vars(cls):
        return cls

    def _object(adapter: Any, key: str, factory: Callable[[], Any], kind: type[Any]) -> Any:
        obj: StateObject[Any, Any] = cls._object(adapter, key, factory, kind)
        check_object(book_of(adapter._session), key, obj)
        return obj

    names = {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "_checks": True,
        "_object": _object,
    }
    metaclass: Any = type(cls)
    checked: type[Any] = metaclass(cls.__name__, (cls,), names)
    known = declarations_of(cls.SPEC)
    for name, attr in cls._session_attrs.items():
        place = known.place(name, "attrs")
        if place is not None:  # set afterwards: on the class, the descriptor still answers
            type.__setattr__(checked, name, _checked_value(place, attr))
    for declaration in known.values:
        if declaration.value.families:
            method = getattr(cls, declaration.name, None)
            if callable(method):
                type.__setattr__(checked, declaration.name, _checked_family(method))
    return checked


def _checked_value(place: Place, attr: SessionAttr[Any]) -> property:
    """What stands in the place of a carried value."""

    def read(adapter: Any) -> Any:
        book_of(adapter._session).read(place)
        attrs = adapter._session.attrs
        return attrs[place.key] if place.key in attrs else attr.__get__(adapter, type(adapter))

    def write(adapter: Any, value: Any) -> None:
        coerced = value if attr.coerce is None else attr.coerce(value)
        book_of(adapter._session).assign(place, coerced)

    def clear(adapter: Any) -> None:
        book_of(adapter._session).read(place)
        try:
            del adapter._session.attrs[place.key]
        except KeyError:
            raise AttributeError(place.key) from None

    return property(read, write, clear)


def _checked_family(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def checked(adapter: Any, *args: Any, **kwargs: Any) -> Any:
        found = method(adapter, *args, **kwargs)
        if isinstance(found, ObjectFamily):
            check_family(found)
        return found

    return checked
