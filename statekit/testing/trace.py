"""Trace: what was done to a state object, in order, with what came back.

Owns the words for it and the file that holds it. Not here: how it is recorded
(`statekit.testing.recorder`), and how it is done again (`statekit.testing.replay`).

    A1  Values in a trace are copies, made when the call was; nothing changes them later.
    A2  What was one object is one object in the trace, across calls and across `save` and `load`.
        An object that was changed in between has one copy for each content: a call of kind
        "changed" or "same" says that the one copy is the other, later.
    A3  A file holds plain values, tensors and arrays, checked when read; it runs no code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import attrs

from statekit.errors import DamagedSnapshotError
from statekit.snapshot_file.file import open_snapshot, write_snapshot

__all__ = ["Call", "Kind", "Trace"]

Kind = Literal["read", "write", "delete", "call", "step", "changed", "same"]
"""What was done: to an attribute, or a method called; "step" marks where a step has ended.

"changed" is a change, from outside, of an object that had been handed out or in; "same" says that
the state itself has changed one, and changes nothing when the trace is replayed.
"""
_KINDS = frozenset(get_args(Kind))
_FORMAT = 1


@attrs.frozen(eq=False)
class Call:
    """One thing that was done.

    Attributes:
        kind: which thing.
        name: of the attribute or method; of a step its label.
        args, kwargs: what was passed: to a method, or the value that was written. Of a changed
            object the copy from before.
        result: what came back. Of a step the public values by name; of a changed object its copy
            from after.
        error: the name of the type that was raised instead, such as `ValueError`.
        gave_itself: whether a method returned the state object.
    """

    kind: Kind
    name: str = ""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = attrs.field(factory=dict)
    result: Any = None
    error: str = ""
    gave_itself: bool = False

    def __str__(self) -> str:
        if self.kind == "call":
            return f"{self.name}({', '.join(['...'] * bool(self.args or self.kwargs))})"
        return f"{self.kind} {self.name}".rstrip()


@attrs.frozen(eq=False)
class Trace:
    """The calls of one run, in order; the first one is a look at the state before it.

    Attributes:
        state: the class that was recorded, in words.
        calls: what was done to it.
    """

    state: str
    calls: tuple[Call, ...]

    def __iter__(self) -> Iterator[Call]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def steps(self) -> int:
        """How many steps have ended in it."""
        return sum(call.kind == "step" for call in self.calls) - 1

    @property
    def names(self) -> tuple[str, ...]:
        """The public values that the recorded object had at any look, in their order."""
        looks = [call.result for call in self.calls if call.kind == "step"]
        return tuple(dict.fromkeys(name for look in looks for name in look))

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write it to a file, whole or not at all; its bytes.

        Raises:
            UnsavableError: a value is none that a snapshot file can hold; its place is named.
            SnapshotError: the file cannot be written; what was at `path` is still there.
        """
        calls = [list(attrs.astuple(call, recurse=False)) for call in self.calls]
        for call in calls:
            call[3] = dict(call[3])
        about = {"trace": _FORMAT, "state": self.state, "steps": self.steps}
        return write_snapshot(path, {"calls": calls}, about)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """The trace that a file holds.

        Raises:
            DamagedSnapshotError: it is no trace, or not as it was written.
            SnapshotError: it cannot be read.
        """
        with open_snapshot(path) as snapshot:
            about = snapshot.about
            value = snapshot.read() if about.get("trace") == _FORMAT else None
        calls = value.get("calls") if isinstance(value, dict) else None
        if not isinstance(calls, list) or not calls or not all(map(_is_call, calls)):
            found = "it holds no trace of this format"
            raise DamagedSnapshotError(os.fspath(path), found, "record it anew")
        return cls(str(about.get("state")), tuple(Call(*call) for call in calls))


def _is_call(data: Any) -> bool:
    if not isinstance(data, list) or len(data) != len(attrs.fields(Call)):
        return False
    kind, name, args, kwargs, result, error, gave_itself = data
    return (
        isinstance(kind, str)
        and kind in _KINDS
        and isinstance(name, str)
        and isinstance(args, tuple)
        and len(args) == {"write": 1, "changed": 1, "same": 1}.get(kind, len(args))
        and isinstance(kwargs, dict)
        and all(isinstance(key, str) for key in kwargs)
        and (kind != "step" or isinstance(result, dict))
        and isinstance(error, str)
        and isinstance(gave_itself, bool)
    )
