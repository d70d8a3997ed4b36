"""Recorder: a run of a hand-rolled state object, seen from outside, becomes a trace.

Owns the object that stands in for the state: it passes on what is done to it and writes it down.
What the state's own methods do to it is their business and is not written down.

    recorder = record(HandRolledState())
    for request in requests:
        with recorder.step():
            pipeline.forward(recorder.state, request)
    recorder.trace.save("run.trace")

    W1  The state is the same object and does the same as without the recorder.
    W2  What is passed and what comes back is written down as it was at that moment.
    W3  Changes of objects that were handed out or in (a list's entries, a tensor's elements, an
        instance's attributes) are written down before the next call that could tell.

One thread at a time. What was handed out and then written through `tensor.data` or through memory
shared with an array is seen at the next step mark only.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from statekit.testing.copies import Copies
from statekit.testing.fields import fields_of
from statekit.testing.trace import Call, Trace

__all__ = ["Recorded", "Recorder", "public_values", "record"]

State = TypeVar("State")

_PASSED_ON = (
    "__len__", "__bool__", "__contains__", "__iter__", "__getitem__", "__setitem__", "__delitem__",
    "__call__", "__enter__", "__exit__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__",
)  # fmt: skip


def record(hand_rolled: State) -> Recorder[State]:
    """Begin to record what is done to `hand_rolled`, by way of the result's `state`."""
    return Recorder(hand_rolled)


class Recorder(Generic[State]):
    """One recording. Made by `record`.

    Attributes:
        state: give this to the pipeline in the place of the state object; for `isinstance` it is
            an instance of its class.
    """

    state: State

    def __init__(self, hand_rolled: State) -> None:
        self._state: Any = hand_rolled
        self._copies = Copies()
        self._calls: list[Call] = []
        self._depth = 0
        stand_in: Any = _stand_in_for(type(hand_rolled))
        self.state = stand_in(self)
        self._mark("start")

    @property
    def trace(self) -> Trace:
        """All that was done until now; the last mark in it is a look at the state as it is."""
        last = self._calls[-1]
        if last.kind != "step":
            self._mark("end")
        kind = type(self._state)
        return Trace(f"{kind.__module__}.{kind.__qualname__}", tuple(self._calls))

    @contextmanager
    def step(self, label: str = "") -> Iterator[None]:
        """A step of the run, for a `with` block: at its end the public values are looked at."""
        try:
            yield
        finally:
            self._mark(label)

    def read(self, name: str) -> Any:
        """Read an attribute of the state, or a method to be called."""
        if name.startswith("__") and name.endswith("__"):
            return getattr(self._state, name)
        self._look()
        try:
            value = getattr(self._state, name)
        except Exception as error:
            self._calls.append(Call("read", name, error=type(error).__name__))
            raise
        if _is_method(self._state, name, value):
            return lambda *args, **kwargs: self.call(name, value, *args, **kwargs)
        self._look(inside=True)  # a property can do anything
        self._note(Call("read", name, result=self._copies.of(value)))
        return value

    def write(self, name: str, value: Any) -> None:
        """Write an attribute of the state."""
        self._look()
        value = self._bare(value)
        copied = self._copies.of(value)
        self._run("write", name, (copied,), {}, lambda: setattr(self._state, name, value))

    def delete(self, name: str) -> None:
        """Delete an attribute of the state."""
        self._look()
        self._run("delete", name, (), {}, lambda: delattr(self._state, name))

    def call(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method of the state."""
        self._look()
        args = tuple(self._bare(one) for one in args)
        kwargs = {key: self._bare(one) for key, one in kwargs.items()}
        copied = tuple(self._copies.of(one) for one in args)
        copied_kwargs = {key: self._copies.of(one) for key, one in kwargs.items()}
        return self._run("call", name, copied, copied_kwargs, lambda: method(*args, **kwargs))

    def _run(
        self, kind: Any, name: str, args: tuple[Any, ...], kwargs: Any, act: Callable[[], Any]
    ) -> Any:
        self._note_changes(inside=False)
        self._depth += 1
        try:
            result = act()
        except BaseException as error:
            self._look(inside=True, call=Call(kind, name, args, kwargs, error=type(error).__name__))
            raise
        finally:
            self._depth -= 1
        call = Call(kind, name, args, kwargs, gave_itself=result is self._state)
        position = len(self._calls)
        self._calls.append(call)
        self._look(inside=True)
        if result is self._state:
            return self.state
        copied = self._copies.of(result)
        self._note_changes(inside=True)
        self._calls[position] = Call(kind, name, args, kwargs, copied)
        return result

    def _bare(self, value: Any) -> Any:
        """The state itself, where its stand-in is passed back to it."""
        return self._state if value is self.state else value

    def _look(
        self, *, inside: bool = False, thorough: bool = False, call: Call | None = None
    ) -> None:
        """Write down what was changed since; `inside`: by the state's own methods."""
        if call is not None:
            self._calls.append(call)
        self._copies.look(thorough=thorough)
        self._note_changes(inside)

    def _note(self, call: Call) -> None:
        """Write a call down, behind the changes that its values have shown."""
        self._note_changes(inside=True)
        self._calls.append(call)

    def _note_changes(self, inside: bool) -> None:
        for change in self._copies.changes():
            kind: Any = "changed" if change.own and not inside else "same"
            self._calls.append(Call(kind, "", (change.before,), result=change.after))

    def _mark(self, label: str) -> None:
        self._look(thorough=True)
        look = {name: self._copies.of(one) for name, one in public_values(self._state).items()}
        self._note(Call("step", label, result=look))


def public_values(state: object) -> dict[str, Any]:
    """The attributes of an instance that are no methods, and whose names say that they are public.

    What it would have to compute, its properties, is left out.
    """
    fields = fields_of(state) or {}
    return {
        name: value
        for name, value in fields.items()
        if not name.startswith("_")
        and not isinstance(value, (types.FunctionType, types.MethodType))
    }


class Recorded:
    """Stands in for a state object; every access goes to its recorder."""

    __slots__ = ("_statekit_recorder",)

    def __init__(self, recorder: Recorder[Any]) -> None:
        object.__setattr__(self, "_statekit_recorder", recorder)

    def __getattribute__(self, name: str) -> Any:
        recorder: Recorder[Any] = object.__getattribute__(self, "_statekit_recorder")
        return recorder.read(name)

    def __setattr__(self, name: str, value: Any) -> None:
        recorder: Recorder[Any] = object.__getattribute__(self, "_statekit_recorder")
        recorder.write(name, value)

    def __delattr__(self, name: str) -> None:
        recorder: Recorder[Any] = object.__getattribute__(self, "_statekit_recorder")
        recorder.delete(name)

    def __repr__(self) -> str:
        recorder: Recorder[Any] = object.__getattribute__(self, "_statekit_recorder")
        return f"<recorded {recorder._state!r}>"


def _stand_in_for(kind: type) -> type[Recorded]:
    """A class of stand-ins with the special methods of `kind`, which Python asks classes for."""
    namespace: dict[str, Any] = {"__slots__": ()}
    for name in _PASSED_ON:
        found = getattr(kind, name, None)
        if found is not None and found is not getattr(object, name, None):
            namespace[name] = _passed_on(name)
    if "__eq__" in namespace:
        namespace["__hash__"] = lambda self: hash(self.__class__)
    return type(f"Recorded{kind.__name__}", (Recorded,), namespace)


def _passed_on(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder: Recorder[Any] = object.__getattribute__(self, "_statekit_recorder")
        return recorder.call(name, getattr(recorder._state, name), *args, **kwargs)

    return method


def _is_method(state: Any, name: str, value: Any) -> bool:
    """Whether `name` is a method of the class, and no value that the instance holds."""
    if not callable(value) or name in (fields_of(state) or {}):
        return False
    found = next((vars(kind)[name] for kind in type(state).__mro__ if name in vars(kind)), None)
    return isinstance(found, (types.FunctionType, staticmethod, classmethod)) or (
        callable(found) and not hasattr(type(found), "__get__")
    )
