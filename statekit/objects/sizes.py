"""Sizes that objects are allocated with: what is no such is refused before anything is done."""

from __future__ import annotations

from typing import Any

__all__ = ["require_whole"]


def require_whole(
    name: str, number: Any, *, least: int | None = None, optional: bool = False
) -> None:
    """Refuse what is no whole number, or one below `least`; None may stand for none.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is below `least`.
    """
    if number is None and optional:
        return
    if not isinstance(number, int) or isinstance(number, bool):
        kind = "a whole number or None" if optional else "a whole number"
        raise TypeError(f"{name} must be {kind}, got {number!r}")
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
