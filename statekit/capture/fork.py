"""Fork: a session that goes on in several ways, of which one is kept.

Owns how a fork is made of a session and how it becomes that session again. A fork is a whole
session: all values or none, so neither an atomic group nor a pair of CFG branches can be torn.

    G1  A fork shares memory with its origin until either writes; what both hold is counted once.
    G2  After `promote` the origin is what the fork was, for everyone who holds it; the fork is
        empty, and the other forks of that origin can only be discarded: they are of another past.
    G3  What is refused has changed neither.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from statekit.capture.capture import Capture, UncapturedError
from statekit.capture.step import in_turn
from statekit.errors import ForkError

if TYPE_CHECKING:
    from statekit.session import SessionState

__all__ = ["forked", "promoted"]


def forked(origin: SessionState) -> SessionState:
    """A new session that holds what `origin` holds now. Raises: as `SessionState.fork` says."""
    key = origin.session_id
    if not in_turn(origin):
        raise ForkError(key, "another thread or task is in a step of it", "fork between two steps")
    try:
        capture = Capture(origin)
    except UncapturedError as error:
        raise ForkError(key, error.found, error.todo) from error
    with ExitStack() as stack:
        stack.callback(capture.settle)
        try:
            objects = capture.new_objects()
        except UncapturedError as error:
            raise ForkError(key, error.found, error.todo) from error
        fork = type(origin)(key)
        fork.attrs.update(capture.new_attrs())
        fork.hold(objects, capture.parameters)
    fork.adopted, fork.checks = origin.adopted, origin.checks
    fork.origin, fork.since = origin, origin.past
    if origin.record is not None:
        origin.record.shelter(fork)
    return fork


def promoted(fork: SessionState) -> SessionState:
    """The origin of `fork`, which is what that was. Raises: as `SessionState.promote` says.

    Raises also what an engine raised that was to close what the origin held; all else is done.
    """
    origin = fork.origin
    if origin is None:
        raise ForkError(fork.session_id, "it is none", "promote what fork() returned, once")
    if origin.past is not fork.since:
        found = "its origin was reset or dropped, or another fork was promoted, since"
        raise ForkError(fork.session_id, found, "discard it, and fork anew")
    for session in (fork, origin):
        if session.open_step is not None:
            raise ForkError(session.session_id, "it is in a step", "promote between two steps")
    try:
        capture = Capture(fork)
    except UncapturedError as error:
        raise ForkError(fork.session_id, error.found, error.todo) from error
    before: dict[str, Any] = origin.objects
    objects: dict[str, Any] = {}
    with ExitStack() as every:
        for (name, obj), memo in zip(capture.objects.items(), capture.memos, strict=True):
            own = before.pop(name, None)
            if type(own) is type(obj):
                every.callback(own.take_over, memo)
                objects[name] = own
            else:
                every.callback(obj.settle, memo)
                objects[name] = obj
                before.update({} if own is None else {name: own})
        for gone in before.values():
            every.callback(gone.reset)
        attrs, parameters = capture.attrs, capture.parameters
        origin.attrs.clear()
        origin.attrs.update(attrs)
        origin.hold(objects, parameters)
        fork.attrs.clear()
        fork.hold({}, {})
        origin.past = fork.past = object()
        fork.origin = None
    return origin
