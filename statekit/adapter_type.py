"""AdapterType: the type of adapter classes, which keeps their SessionAttrs out of Python's way.

Owns where the descriptors are (`_session_attrs`, by name, those of base classes included) and that
`Class.name` still gives the descriptor. Instances never come through here.
"""

from __future__ import annotations

from typing import Any

from statekit.attr import SessionAttr, in_place_of

__all__ = ["AdapterType"]


class AdapterType(type):
    """Puts into a class, in the place of each SessionAttr, what makes access on instances fast."""

    _session_attrs: dict[str, SessionAttr[Any]]

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> AdapterType:
        found: dict[str, SessionAttr[Any]] = {}
        cls = super().__new__(mcls, name, bases, {**namespace, "_session_attrs": found}, **kwargs)
        for base in reversed(cls.__mro__[1:]):
            found.update(vars(base).get("_session_attrs", {}))
        for key, value in namespace.items():
            found.pop(key, None)  # whatever it is, it hides what a base class has
            if isinstance(value, SessionAttr):
                found[key] = value
                type.__setattr__(cls, key, in_place_of(value))
        return cls

    def __getattribute__(cls, name: str) -> Any:
        attrs: dict[str, SessionAttr[Any]] = type.__getattribute__(cls, "_session_attrs")
        return attrs[name] if name in attrs else type.__getattribute__(cls, name)
