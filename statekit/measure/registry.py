"""Registry: the managers of this process, known weakly, and who wants to hear of new ones.

Owns the one hook that every manager calls when it is made. Loads nothing of a recorder unless one
is asked for: by `statekit.measure.record`, or by the variable `STATEKIT_MEASURE`, which names a
folder and is set by `statekit measure` for the command that it runs.

Thread-safe.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from statekit.manager import SessionStateManager

__all__ = ["VARIABLE", "announce", "listen", "managers"]

VARIABLE = "STATEKIT_MEASURE"
"""A folder; the process records all its managers into a file there."""

Listener = Callable[["SessionStateManager"], None]

_lock = threading.RLock()
_managers: WeakSet[SessionStateManager] = WeakSet()
_listeners: tuple[Listener, ...] = ()


def announce(manager: SessionStateManager) -> None:
    """A manager has been made; whoever records all of them is told."""
    if VARIABLE in os.environ:
        from statekit.measure.child import record_from_now_on

        record_from_now_on(os.environ[VARIABLE])
    with _lock:
        _managers.add(manager)
        listeners = _listeners
    for listener in listeners:
        listener(manager)


def managers() -> tuple[SessionStateManager, ...]:
    """The managers that live."""
    with _lock:
        return tuple(_managers)


def listen(listener: Listener) -> Callable[[], None]:
    """Tell `listener` of every manager that is made from now on; the result takes it off again."""
    global _listeners
    with _lock:
        _listeners = (*_listeners, listener)

    def stop() -> None:
        global _listeners
        with _lock:
            _listeners = tuple(one for one in _listeners if one is not listener)

    return stop
