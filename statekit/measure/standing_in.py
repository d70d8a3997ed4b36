"""Standing in for a method of one manager, so that without a recorder nothing is any slower."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from statekit.manager import SessionStateManager

__all__ = ["stand_in"]


def stand_in(
    manager: SessionStateManager, name: str, instead: Callable[..., Any]
) -> Callable[[], None]:
    """Have `instead` called in place of a method of this one manager; the result undoes it."""
    weakly = ref(manager)  # or a manager that nobody holds would wait for the garbage collector
    before = vars(manager).get(name)
    method = getattr(type(manager), name)

    def call(*args: Any, **kwargs: Any) -> Any:
        here: Any = weakly()
        return instead(here, before or partial(method, here), *args, **kwargs)

    vars(manager)[name] = call

    def undo() -> None:
        here = weakly()
        if here is None or vars(here).get(name) is not call:
            return  # another recorder stands before this one, which lets everything through now
        if before is None:
            del vars(here)[name]
        else:
            vars(here)[name] = before

    return undo
