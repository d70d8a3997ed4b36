"""What a session holds at one moment, copied: to say later that nothing of it has changed.

Owns the look: carried values, the objects with all their fields, parameters; and which objects hold
them, for whoever has read a value may still hold that very one. Brings nothing back that is parked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from statekit.adapter import StateAdapter
from statekit.objects.parkable import Away
from statekit.session import SessionState
from statekit.testing.comparison import compare
from statekit.testing.copies import Copies

__all__ = ["Held", "assert_unchanged", "holding", "unchanged"]

_UNSEEN = frozenset(["written", "_on_commit", "__orig_class__", "_codec"])
"""Marks and settings: no part of what an object holds."""


@attrs.frozen(eq=False)
class Held:
    """A session at one moment. Made by `holding`."""

    attrs: dict[str, Any]
    objects: dict[str, dict[str, Any]]
    parameters: dict[str, dict[str, int]]
    holders: dict[str, Any]
    """The live values and objects by place; kept alive, so that no other gets their address."""


def holding(state: SessionState | StateAdapter) -> Held:
    """All that a session (that of an adapter) holds now."""
    session = state.session if isinstance(state, StateAdapter) else state
    copies = Copies()
    holders: dict[str, Any] = {f"attrs[{name!r}]": one for name, one in session.attrs.items()}
    holders.update((f"objects[{name!r}]", one) for name, one in session.objects.items())
    return Held(
        attrs=dict(copies.of(dict(session.attrs))),
        objects={name: dict(copies.of(_fields(one))) for name, one in session.objects.items()},
        parameters=session.parameters,
        holders=holders,
    )


def assert_unchanged(state: SessionState | StateAdapter, before: Held) -> None:
    """Fail where a session is not what it was, bit for bit, or where another object holds it.

    Raises:
        AssertionError: names the first value that differs.
    """
    now = holding(state)
    for part in ("attrs", "objects", "parameters"):
        found = compare(getattr(now, part), getattr(before, part), strides=True).difference
        if found is not None:
            raise AssertionError(f"the session has changed: {part}{found}")
    for place, holder in before.holders.items():
        other = now.holders[place]
        if other is not holder and not _is_plain(holder):
            raise AssertionError(f"the session has changed: {place} is an equal one, not the same")


@contextmanager
def unchanged(state: SessionState | StateAdapter) -> Iterator[None]:
    """Fail where a session has changed when the `with` block ends, by an error or without."""
    before = holding(state)
    try:
        yield
    finally:
        assert_unchanged(state, before)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (int, float, complex, str, bytes, type(None)))


def _fields(obj: Any) -> dict[str, Any]:
    fields = {name: one for name, one in vars(obj).items() if name not in _UNSEEN}
    return {
        name: f"parked as {one.key!r}" if isinstance(one, Away) else one
        for name, one in fields.items()
    }
