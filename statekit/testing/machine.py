"""state_machine: any sequence of writes, steps, parks and restores, for one adapter class.

Owns what is done, and what always holds; when and with what is drawn (`statekit.testing.rules`).
What is stored comes from the schema (`statekit.testing.payloads`), what should be read from a plain
model of it (`statekit.testing.plain`), and, where there is one, from an object of the hand-rolled
class that is driven in parallel.

    TestMyState = state_machine(MyState).TestCase

    S1  After every rule each value reads, bit for bit, as the model says; staged data, too.
    S2  A step that fails, at its end or at any access within it, leaves the session as it was.
    S3  What was parked, saved and restored, or reached through another adapter is the same.

With a hand-rolled object, values that it has are assigned and changed within, as it can be; what
statekit alone can do is done between, and must not be seen.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from statekit.adapter import StateAdapter
from statekit.errors import UnsavableError
from statekit.manager import SessionStateManager
from statekit.testing.comparison import compare
from statekit.testing.drawing import Drawing
from statekit.testing.faults import FaultError, Faults
from statekit.testing.fields import has_attribute
from statekit.testing.held import assert_unchanged, holding
from statekit.testing.parking import park_now
from statekit.testing.payloads import Payloads
from statekit.testing.plain import Once
from statekit.testing.replay import Outcome, Replayed
from statekit.testing.rules import rules_of
from statekit.testing.slots import AttrSlot, ObjectSlot, Slot, slots_of
from statekit.testing.trace import Call
from statekit.testing.writes import Write

__all__ = ["StateMachine", "state_machine"]

_SESSION = "s"
View = Callable[[Any], Any]


class _BreaksOffError(Exception):
    """What ends a step that is to fail."""


def state_machine(
    adapter_class: type[StateAdapter],
    hand_rolled_factory: Callable[[], Any] | None = None,
    *,
    strategies: Mapping[str, st.SearchStrategy[Any]] | None = None,
    calls: Mapping[str, st.SearchStrategy[tuple[Any, ...]]] | None = None,
    resets: Mapping[str, str] | None = None,
    views: Mapping[str, View] | None = None,
    parameters: Mapping[str, int] | None = None,
    faults: bool = True,
) -> type[StateMachine]:
    """A Hypothesis state machine for adapters of one class; its `TestCase` is for pytest.

    Args:
        adapter_class: a generated class, or a hand-written subclass of one.
        hand_rolled_factory: makes an object of the class that it replaces, at its beginning.
        strategies: by name of a value what is stored in it (one item, for a buffer), where the
            schema's type says too little, or is a class of your own.
        calls: by name of a method a strategy of its positional arguments. With a hand-rolled object
            it is called on both, and what comes of it is compared with that one alone.
        resets: by name of a reset in the schema what the hand-rolled class calls it, where that is
            not `reset_NAME`. One that it lacks is not done.
        views: by name of a value what of it is compared with the hand-rolled one.
        parameters: with which adapters are made.
        faults: whether steps also fail at single accesses within them.

    Raises:
        NoPayloadError: a value is of a class of your own, and there is no strategy for it.
    """
    slots = list(slots_of(adapter_class, Payloads(adapter_class.SPEC, parameters)))
    sample = None if hand_rolled_factory is None else hand_rolled_factory()
    shared = [one for one in slots if sample is not None and _has(sample, one)]
    own = {name: (resets or {}).get(name, f"reset_{name}") for name in adapter_class.SPEC.resets}
    if sample is not None:
        own = {name: method for name, method in own.items() if hasattr(sample, method)}
    namespace: dict[str, Any] = {
        "adapter_class": adapter_class,
        "make_hand": None if hand_rolled_factory is None else staticmethod(hand_rolled_factory),
        "slots": slots,
        "shared": shared,
        "views": dict(views or {}),
        "parameters": dict(parameters or {}),
        **rules_of(Drawing(slots, shared, dict(strategies or {})), own, calls or {}, faults),
    }
    machine: Any = type(f"{adapter_class.__name__}Machine", (StateMachine,), namespace)
    machine.TestCase.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
    made: type[StateMachine] = machine
    return made


def _has(sample: Any, slot: Slot) -> bool:
    """Whether the hand-rolled object has the value as an attribute, as the adapter has."""
    single = isinstance(slot, AttrSlot) or (isinstance(slot, ObjectSlot) and slot.has_property)
    return single and has_attribute(sample, slot.value.name)


class StateMachine(RuleBasedStateMachine):
    """One session of an adapter class, beside what it should hold. Made by `state_machine`.

    Attributes:
        manager: holds the session.
        adapter: an adapter over it.
        model: the plain value of each slot.
        hand: the hand-rolled object, or None.
    """

    adapter_class: type[StateAdapter]
    make_hand: Callable[[], Any] | None
    slots: Sequence[Slot]
    shared: Sequence[Slot]
    views: Mapping[str, View]
    parameters: Mapping[str, int]

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="statekit-")
        self.manager = self._new_manager()
        self.adapter = self._new_adapter()
        self.model = {slot.label: slot.plain() for slot in self.slots}
        self.hand = None if self.make_hand is None else self.make_hand()

    def teardown(self) -> None:
        """Close what was opened."""
        self.manager.close()
        self._folder.cleanup()

    def _new_manager(self) -> SessionStateManager:
        return SessionStateManager(park_folder=Path(self._folder.name, "parked"))

    def _new_adapter(self) -> StateAdapter:
        if _SESSION not in self.manager:
            with self.manager.lease(_SESSION, begin=self.adapter_class.SPEC):
                pass  # only what a lease has begun is ever parked
        return self.adapter_class(_SESSION, self.manager, **self.parameters)

    # -- what the rules do -----------------------------------------------------------------------

    def park(self, really: bool = True) -> None:
        """Park what may be parked."""
        if really:
            park_now(self.manager)

    def took(self, writes: Sequence[Write]) -> None:
        """The adapter has kept these writes: so does the model, and the hand-rolled object."""
        for write in writes:
            plain = self.model[write.slot.label]
            refused = isinstance(plain, Once) and plain.held is not None
            refused = refused and write.action == "assign" and write.payload is not None
            write.to_model(plain)
            if self.hand is not None and write.slot in self.shared and not refused:
                write.to_hand(self.hand)

    def write(self, writes: Sequence[Write]) -> None:
        """Writes outside of any step."""
        for write in writes:
            write.to_adapter(self.adapter)
        self.took(writes)

    def step(self, writes: Sequence[Write]) -> None:
        """A step that succeeds."""
        with self.adapter.step():
            for write in writes:
                write.to_adapter(self.adapter)
        self.took(writes)
        for plain in self.model.values():
            plain.commit()

    def failing_step(self, writes: Sequence[Write], parked: bool) -> None:
        """A step that fails at its end."""
        self.park(parked)
        before = None if parked else holding(self.adapter)
        try:
            with self.adapter.step():
                for write in writes:
                    write.to_adapter(self.adapter)
                raise _BreaksOffError
        except _BreaksOffError:
            pass
        if before is not None:
            assert_unchanged(self.adapter, before)

    def faulty_step(self, writes: Sequence[Write], nth: int) -> None:
        """A step that fails before its `nth` access, if it has so many."""
        before = holding(self.adapter)
        with Faults().failing("access", nth) as fault:
            try:
                with self.adapter.step():
                    for write in writes:
                        write.to_adapter(self.adapter)
            except FaultError:
                assert fault.happened
        if fault.happened:
            assert_unchanged(self.adapter, before)
        else:
            self.took(writes)
            for plain in self.model.values():
                plain.commit()

    def reset(self, name: str, method: str) -> None:
        """A reset of the schema."""
        getattr(self.adapter, f"reset_{name}")()
        for slot in self.slots:
            if slot.value.name in self.adapter.SPEC.resets[name]:
                self.model[slot.label].reset()
        if self.hand is not None:
            getattr(self.hand, method)()

    def fork(self, writes: Sequence[Write], keep: bool) -> None:
        """A fork that is written into, and then kept or not."""
        fork = self.adapter.fork()
        for write in writes:
            write.to_adapter(fork)
        self.compare_all()
        if keep:
            fork.session.promote()
            self.took(writes)
        else:
            fork.session.discard()

    def save_and_restore(self) -> None:
        """The session goes on under another manager, from a file."""
        path = Path(self._folder.name, "session.snap")
        try:
            self.manager.save(_SESSION, path)
        except UnsavableError:
            return  # it holds something of a class that no file can
        other = self._new_manager()
        other.restore(path, self.adapter.SPEC)
        self.manager.close()
        self.manager = other
        self.adapter = self._new_adapter()
        for slot in self.slots:
            if slot.value.lifetime == "request":  # it was restored under a lease, which has ended
                self.model[slot.label].reset()

    def drop_and_begin(self) -> None:
        """The session ends, and another one begins under its id."""
        self.manager.drop_session(_SESSION)
        self.adapter = self._new_adapter()
        for plain in self.model.values():
            plain.reset()
        self.hand = None if self.make_hand is None else self.make_hand()

    def call(self, name: str, args: tuple[Any, ...]) -> None:
        """A method, on both sides; what the adapter holds then is what the model holds, too."""
        for slot in self.slots:
            if isinstance(slot, ObjectSlot):
                slot.object(self.adapter).discard()  # what of it stays, the model could not know
                self.model[slot.label].discard()
        call = Call("call", name, args)
        got = Replayed(self.adapter).run(call)
        if self.hand is not None:
            _same_outcome(got, Replayed(self.hand).run(call), name)
        for slot in self.slots:
            self.model[slot.label].take(slot.read(self.adapter))

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def compare_all(self) -> None:
        """Each value reads as the model and the hand-rolled object say."""
        for slot in self.slots:
            plain = self.model[slot.label]
            for staged in (True, False):
                want = plain.read(staged=staged)
                _same(slot.read(self.adapter, staged=staged), want, slot.label)
            if isinstance(slot, ObjectSlot) and slot.has_property:
                shown = slot.shown(self.adapter)
                _same(shown, slot.joined(plain, shown), slot.label)
        for slot in self.shared:
            name = slot.value.name
            view = self.views.get(name, _as_it_is)
            got, want = (view(getattr(one, name)) for one in (self.adapter, self.hand))
            found = compare(got, want, tolerance=slot.value.tolerance).difference
            assert found is None, f"{name}, against the hand-rolled one{found}"


def _as_it_is(value: Any) -> Any:
    return value


def _same(got: Any, want: Any, what: str) -> None:
    found = compare(got, want).difference
    assert found is None, f"{what}{'' if found is None or found.path else ': '}{found}"


def _same_outcome(got: Outcome, want: Outcome, name: str) -> None:
    if want.error is None:
        assert got.error is None, f"{name} raised {got}, and the hand-rolled one did not"
        _same(got.value, want.value, f"the result of {name}")
    else:
        assert got.error is not None, f"{name} did not raise, and the hand-rolled one {want}"
        assert issubclass(got.error, want.error), f"{name} raised {got}, the hand-rolled one {want}"
