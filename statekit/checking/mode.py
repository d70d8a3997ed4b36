"""Whether checking mode is on, for adapters that are made from now on.

Owns the switch alone, so that it can be asked for without loading any check.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from statekit.settings import resolve_validation

if TYPE_CHECKING:
    from statekit.adapter import StateAdapter

__all__ = ["check_from_now_on", "enabled", "is_on"]

_on: bool = resolve_validation()  # the variable, as it is when statekit is imported


def is_on() -> bool:
    """Whether an adapter that is made now is checked."""
    return _on


@contextmanager
def enabled(on: bool = True) -> Iterator[None]:
    """Adapters that are made inside, by any thread, are checked (with False: are not)."""
    global _on
    before, _on = _on, on
    try:
        yield
    finally:
        _on = before


def check_from_now_on(adapter: StateAdapter) -> None:
    """Make `adapter` one that checks, and have steps and leases of its session look as well."""
    from statekit import checking
    from statekit.checking.adapter_class import checked_class

    adapter.__class__ = checked_class(type(adapter))
    adapter.session.checks = checking
