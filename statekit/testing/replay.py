"""Replay: the calls of a trace, done to another object.

Owns which live object stands for which copy of the trace. Not here: what is compared
(`statekit.testing.equivalence`).

    L1  What was one object in the recorded run is one object here: an argument that was passed
        twice, or that had been handed out before.
    L2  What changed an object from outside changes the one that stands for it, where it is.
    L3  The trace is not changed; nothing that a replayed object holds shares memory with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import torch

from statekit.testing.copies import Unseen, copied_leaf, fill, is_leaf, parts_of, shell_of
from statekit.testing.fields import fields_of
from statekit.testing.trace import Call

__all__ = ["ITSELF", "Outcome", "Replayed"]


@attrs.frozen
class _Itself:
    """What a method gave that returned its own object."""


ITSELF = _Itself()
_HOLDERS = (list, tuple, dict, set, frozenset)


@attrs.frozen(eq=False)
class Outcome:
    """What a call gave: a value, or an error's type and words; and what was passed, as it is after.

    An error itself is not kept: it holds on to frames.
    """

    value: Any = None
    error: type[BaseException] | None = None
    words: str = ""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = attrs.field(factory=dict)

    def __str__(self) -> str:
        if self.error is None:
            return "no error"
        return f"{self.error.__name__}: {self.words}" if self.words else self.error.__name__


class Replayed:
    """One object to which the calls of a trace are done again.

    Args:
        state: the object.
        names: what it calls the values of the trace, where that is different.
    """

    def __init__(self, state: Any, names: Mapping[str, str] | None = None) -> None:
        self.state = state
        self._names = names or {}
        self._live: dict[int, Any] = {}

    def name(self, name: str) -> str:
        """What the object calls the value of this name."""
        return self._names.get(name, name)

    def run(self, call: Call) -> Outcome:
        """Do what a call says, a read, a write, a delete or a method."""
        args = tuple(self._live_of(one) for one in call.args)
        kwargs = {key: self._live_of(one) for key, one in call.kwargs.items()}
        try:
            value = self._act(call.kind, self.name(call.name), args, kwargs)
        except Exception as error:
            words = " ".join(str(error).split())[:200]
            return Outcome(error=type(error), words=words, args=args, kwargs=kwargs)
        if value is self.state:
            value = ITSELF
        return Outcome(value, args=args, kwargs=kwargs)

    def read(self, name: str) -> Outcome:
        """Read a value by the name that it has in the trace."""
        return self.run(Call("read", name))

    def _act(self, kind: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kind == "read":
            return getattr(self.state, name)
        if kind == "write":
            setattr(self.state, name, args[0])
            return None
        if kind == "delete":
            delattr(self.state, name)
            return None
        return getattr(self.state, name)(*args, **kwargs)

    def know(self, copied: Any, live: Any) -> None:
        """What stands for a copy of the trace from now on, and for what is in it."""
        todo = [(copied, live)]
        while todo:
            one, other = todo.pop()
            if is_leaf(one):
                if type(one) is type(other):
                    self._live[id(one)] = other
            elif type(one) is type(other) and _holds_parts(one):
                if id(one) in self._live and self._live[id(one)] is other:
                    continue
                self._live[id(one)] = other
                parts = parts_of(one), parts_of(other)
                if len(parts[0]) == len(parts[1]):
                    todo += zip(*parts, strict=True)

    def change(self, call: Call) -> None:
        """Change an object as a call of kind "changed" or "same" says."""
        (before,) = call.args
        live = self._live.get(id(before))
        if live is None:
            return  # never crossed the border here
        self._live[id(call.result)] = live
        if call.kind == "changed":
            self._write(live, call.result)

    def _write(self, live: Any, wanted: Any) -> None:
        if isinstance(live, torch.Tensor):
            _write_tensor(live, wanted)
        elif isinstance(live, np.ndarray):
            with contextlib.suppress(ValueError):  # read-only here: who changed it had another view
                np.copyto(live, wanted)
        elif is_leaf(live):
            _write_generator(live, wanted)
        elif not isinstance(live, (tuple, frozenset)):
            fill(wanted, live, [self._live_of(part) for part in parts_of(wanted)])

    def _live_of(self, copied: Any) -> Any:
        """What stands for a copy of the trace; made where nothing does yet."""
        if id(copied) in self._live:
            return self._live[id(copied)]
        if is_leaf(copied):
            made = copied_leaf(copied)
        elif _holds_parts(copied):
            shell = shell_of(copied)
            if shell is not None:
                self._live[id(copied)] = shell
            parts = parts_of(copied)
            live = [self._live_of(part) for part in parts]
            if shell is None and all(a is b for a, b in zip(parts, live, strict=True)):
                return copied
            made = fill(copied, shell, live)
        else:
            return copied
        self._live[id(copied)] = made
        return made


def _holds_parts(value: Any) -> bool:
    if isinstance(value, (torch.Size, Unseen)):
        return False
    return isinstance(value, _HOLDERS) or hasattr(value, "maxlen") or fields_of(value) is not None


def _write_tensor(live: torch.Tensor, wanted: torch.Tensor) -> None:
    with torch.inference_mode():
        if live.shape != wanted.shape:
            live.resize_(wanted.shape)
        if live.dtype == wanted.dtype and not live.is_meta:
            live.copy_(wanted)


def _write_generator(live: Any, wanted: Any) -> None:
    if isinstance(live, torch.Generator):
        live.set_state(wanted.get_state())
    elif isinstance(live, np.random.Generator):
        live.bit_generator.state = wanted.bit_generator.state
    elif isinstance(live, np.random.RandomState):
        live.set_state(wanted.get_state())
    else:
        live.setstate(wanted.getstate())
