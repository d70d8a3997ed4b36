"""Mappings: the classes of the language in the order in which a reader meets them."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import attrs

from statekit_codegen import language

__all__ = ["mappings"]


def mappings() -> list[type[attrs.AttrsInstance]]:
    """The mappings of the language, each once, each one before those that only it uses."""
    found: list[type[attrs.AttrsInstance]] = [language.Schema]
    for cls in found:
        for hint in typing.get_type_hints(cls).values():
            found += [part for part in _mappings_in(hint) if part not in found]
    return found


def _mappings_in(hint: Any) -> Iterator[type[attrs.AttrsInstance]]:
    if attrs.has(hint):
        yield hint
    for argument in typing.get_args(hint):
        yield from _mappings_in(argument)
