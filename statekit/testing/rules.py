"""The rules of a state machine: what is drawn for each of the things that it can do.

Owns the Hypothesis side; what is done stands in `statekit.testing.machine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from statekit.testing.drawing import Drawing
from statekit.testing.slots import Slot
from statekit.testing.writes import Write

if TYPE_CHECKING:
    from statekit.testing.machine import StateMachine

__all__ = ["rules_of"]


def rules_of(
    drawing: Drawing,
    resets: Mapping[str, str],
    calls: Mapping[str, st.SearchStrategy[tuple[Any, ...]]],
    faults: bool,
) -> dict[str, Any]:
    """The rules, for the body of a class of machines."""

    @initialize(writes=drawing.filling)
    def begin(self: StateMachine, writes: list[Write]) -> None:
        self.write(writes)

    @rule(writes=st.lists(drawing.kept, min_size=1, max_size=4), parked=st.booleans())
    def write_some(self: StateMachine, writes: list[Write], parked: bool) -> None:
        self.park(parked)
        self.write(writes)

    @rule(writes=st.lists(drawing.kept, max_size=4), parked=st.booleans())
    def run_a_step(self: StateMachine, writes: list[Write], parked: bool) -> None:
        self.park(parked)
        self.step(writes)

    @rule(writes=st.lists(drawing.any, min_size=1, max_size=4), parked=st.booleans())
    def break_a_step_off(self: StateMachine, writes: list[Write], parked: bool) -> None:
        self.failing_step(writes, parked)

    @rule(writes=st.lists(drawing.kept, max_size=3), parked=st.booleans())
    def fork_and_promote(self: StateMachine, writes: list[Write], parked: bool) -> None:
        self.park(parked)
        self.fork(writes, keep=True)

    @rule(writes=st.lists(drawing.any, max_size=3))
    def fork_and_discard(self: StateMachine, writes: list[Write]) -> None:
        self.fork(writes, keep=False)

    @rule()
    def park_all(self: StateMachine) -> None:
        self.park()

    @rule(parked=st.booleans())
    def go_through_a_file(self: StateMachine, parked: bool) -> None:
        self.park(parked)
        self.save_and_restore()

    @rule(writes=drawing.filling)
    def end_and_begin_anew(self: StateMachine, writes: list[Write]) -> None:
        self.drop_and_begin()
        self.write(writes)

    @rule()
    def make_another_adapter(self: StateMachine) -> None:
        self.adapter = self._new_adapter()

    rules: dict[str, Any] = {
        one.__name__: one
        for one in (begin, write_some, run_a_step, break_a_step_off, fork_and_promote,
                    fork_and_discard, park_all, go_through_a_file, end_and_begin_anew,
                    make_another_adapter)
    }  # fmt: skip
    if faults:

        @rule(writes=st.lists(drawing.kept, min_size=1, max_size=3), nth=st.integers(0, 40))
        def fail_within_a_step(self: StateMachine, writes: list[Write], nth: int) -> None:
            self.faulty_step(writes, nth)

        rules["fail_within_a_step"] = fail_within_a_step
    if resets:

        @rule(name=st.sampled_from(sorted(resets)), parked=st.booleans())
        def reset_by_name(self: StateMachine, name: str, parked: bool) -> None:
            self.park(parked)
            self.reset(name, resets[name])

        rules["reset_by_name"] = reset_by_name
    if drawing.deletable:

        @rule(slot=st.sampled_from(drawing.deletable))
        def delete(self: StateMachine, slot: Slot) -> None:
            if slot.value.name in self.adapter.session.attrs:
                delattr(self.adapter, slot.value.name)
            self.model[slot.label].reset()

        rules["delete"] = delete
    for name, strategy in calls.items():
        rules[f"call_{name}"] = _calling(name, strategy)
    return rules


def _calling(name: str, strategy: st.SearchStrategy[tuple[Any, ...]]) -> Any:
    @rule(args=strategy)
    def call(self: StateMachine, args: tuple[Any, ...]) -> None:
        self.call(name, args)

    call.__name__ = f"call_{name}"
    return call
