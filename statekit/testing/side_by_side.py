"""SideBySide: one trace, done to two objects at once, and what comes out held together.

Owns what is compared, and when:

    E1  After each call: what both gave, bit for bit; of an error its type, which for the adapter
        may be a more special one; and what was passed to both, for a method may change it.
    E2  After each method, and at each step: every public value that both have. At each step also
        which of them are one object, or one with what was passed in.
    E3  The hand-rolled object has to do what it did when it was recorded; else the trace is not
        whole, and says nothing of the adapter.
    E4  A difference passes only where the schema states a tolerance for that very value.
    E5  What the hand-rolled object lacks, the adapter may have, unless the schema names it.

The first difference ends it. Not here: what "the same" means (`statekit.testing.comparison`), and
how calls are done again (`statekit.testing.replay`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from statekit.errors import EquivalenceError
from statekit.spec import ModelSpec, Tolerance
from statekit.testing.comparison import Difference, compare
from statekit.testing.elements import Within
from statekit.testing.fields import has_attribute
from statekit.testing.replay import Outcome, Replayed
from statekit.testing.report import ADAPTER, HAND_ROLLED, RECORDED, different
from statekit.testing.sharing import Places, copied_on_purpose, lost_or_gained
from statekit.testing.trace import Call, Trace
from statekit.testing.verdict import Equivalence

__all__ = ["Look", "SideBySide", "View"]

View = Callable[[Any], Any]
"""What of a value is compared, on both sides."""
Look = Literal["call", "step"]
"""After what the values are compared: each call of a method, or each step alone."""
Looks = list[tuple[str, Outcome | None, Outcome]]


class SideBySide:
    """One replay on both sides; `hand` is None where what was recorded stands for it."""

    def __init__(
        self,
        hand: Replayed | None,
        adapter: Replayed,
        trace: Trace,
        spec: ModelSpec | None,
        views: Mapping[str, View],
        look: Look,
    ) -> None:
        self._hand = hand
        self._adapter = adapter
        self._trace = trace
        self._spec = spec
        self._views = views
        self._look_after_calls = look == "call" and hand is not None
        self._names: tuple[str, ...] = ()
        self._left_out: tuple[str, ...] = ()
        self._step = 0
        self._compared = 0
        self._within: dict[str, Within] = {}
        self._within_count = 0
        self._places = Places(), Places()
        self._copied = copied_on_purpose(spec)

    def choose_values(self, names: Iterable[str] | None) -> None:
        """Say which values are compared at each step."""
        if names is not None:
            self._names = tuple(names)
            return
        had = set(self._trace.names)
        if self._hand is not None:
            hand = self._hand.state
            had.update(one.name for one in self._spec or () if has_attribute(hand, one.name))
        if self._spec is None:
            self._names = tuple(name for name in self._trace.names if name in had)
            return
        self._names = tuple(one.name for one in self._spec if one.name in had and not one.families)
        self._left_out = tuple(one.name for one in self._spec if one.name not in self._names)

    def run(self, after_step: Callable[[int, Any], Any] | None) -> Equivalence:
        calls = 0
        for number, call in enumerate(self._trace):
            if call.kind in ("changed", "same"):
                for side in filter(None, (self._hand, self._adapter)):
                    side.change(call)
            elif call.kind == "step":
                self._compare_step(call, number)
                if after_step is not None and number:
                    self._go_on_with(after_step(self._step, self._adapter.state), call)
                self._step += 1
            else:
                calls += 1
                place = self._place(number, call)
                self._compare_call(call, place)
                if call.kind == "call" and self._look_after_calls:
                    self._compare_values(None, place)
        return Equivalence(
            steps=self._trace.steps,
            calls=calls,
            values=self._names,
            left_out=self._left_out,
            compared=self._compared,
            within_count=self._within_count,
            within=self._within,
        )

    def _go_on_with(self, state: Any, call: Call) -> None:
        """Between two steps the adapter may have become another one, with the same in it."""
        if state is not None:
            self._adapter.state = state
        for name in self._names:
            if name in call.result:
                self._adapter.know(call.result[name], self._adapter.read(name).value)
        self._places = Places(), Places()  # what was passed in may have been given up since

    def _place(self, number: int, call: Call) -> str:
        if not number:
            return "the start, before the first call"
        if call.kind == "step":
            return f"the end of step {self._step}" + (f" ({call.name})" if call.name else "")
        return f"step {self._step}, call {number} ({call})"

    # -- one call ------------------------------------------------------------------------------

    def _compare_call(self, call: Call, place: str) -> None:
        wanted = None
        if self._hand is not None:
            wanted = self._hand.run(call)
            self._compare_with_recorded(call, wanted, place)
            self._hand.know(call.result, wanted.value)
        if call.error == "AttributeError" and self._is_extra(call):
            return
        got = self._adapter.run(call)
        what = call.name if call.kind == "read" else f"the result of {call.name}"
        self._compare_outcomes(got, wanted, call, what, place)
        if wanted is not None:
            pairs = [*zip(got.args, wanted.args, strict=True)]
            pairs += [(got.kwargs[key], wanted.kwargs[key]) for key in call.kwargs]
            for index, (one, other) in enumerate(pairs):
                self._same(one, other, f"argument {index} of {call.name} after the call", place)
        self._adapter.know(call.result, got.value)
        for places, side in zip(self._places, (got, wanted), strict=True):
            if side is not None:
                for one in (*side.args, *side.kwargs.values()):
                    places.passed(f"what was passed to {call}", one)

    def _is_extra(self, call: Call) -> bool:
        """Whether a pipeline asked for what the hand-rolled class has not, and no schema names."""
        name = self._adapter.name(call.name)
        return call.kind == "read" and all(value.name != name for value in self._spec or ())

    def _compare_with_recorded(self, call: Call, wanted: Outcome, place: str) -> None:
        error = "" if wanted.error is None else wanted.error.__name__
        if error != call.error:
            found = Difference("", "outcome", str(wanted), call.error or "no error")
            raise self._other_than_recorded(call.name, found, place)
        if wanted.error is None and not call.gave_itself:
            found_bits = compare(wanted.value, call.result).difference
            if found_bits is not None and not _was_unseen(found_bits):
                raise self._other_than_recorded(call.name, found_bits, place)

    def _other_than_recorded(self, what: str, found: Difference, place: str) -> EquivalenceError:
        return different(place, what, found, of=HAND_ROLLED, to=RECORDED, tolerance=None)

    def _compare_outcomes(
        self, got: Outcome, wanted: Outcome | None, call: Call, what: str, place: str
    ) -> None:
        error = call.error if wanted is None else "" if wanted.error is None else str(wanted)
        names = {kind.__name__ for kind in (got.error.__mro__ if got.error is not None else ())}
        same = (got.error is None) == (not error)
        if same and got.error is not None:
            same = (
                call.error in names
                if wanted is None or wanted.error is None
                else issubclass(got.error, wanted.error)
            )
        if not same:
            found = Difference("", "outcome", str(got), error or "no error")
            raise self._different(found, what, place)
        if got.error is None and not call.gave_itself:
            want = call.result if wanted is None else wanted.value
            self._same(got.value, want, what, place, call.name if call.kind == "read" else "")

    # -- one step ------------------------------------------------------------------------------

    def _compare_step(self, call: Call, number: int) -> None:
        place = self._place(number, call)
        looks = self._compare_values(call.result, place)
        if self._hand is not None:
            self._compare_sharing(looks, place)

    def _compare_values(self, recorded: Mapping[str, Any] | None, place: str) -> Looks:
        """Compare all values on both sides; None is recorded after a call."""
        looks: Looks = []
        for name in self._names:
            wanted = None if self._hand is None else self._hand.read(name)
            got = self._adapter.read(name)
            if recorded is not None and name in recorded:
                if self._hand is not None and wanted is not None:
                    found = compare(wanted.value, recorded[name]).difference
                    if found is not None and not _was_unseen(found):
                        raise self._other_than_recorded(name, found, place)
                    self._hand.know(recorded[name], wanted.value)
                self._adapter.know(recorded[name], got.value)
            elif wanted is None:
                continue
            call = Call("read", name, result=(recorded or {}).get(name))
            self._compare_outcomes(got, wanted, call, name, place)
            looks.append((name, wanted, got))
        return looks

    def _compare_sharing(self, looks: Looks, place: str) -> None:
        sides: list[list[tuple[str, Any]]] = [[], []]
        for name, wanted, got in looks:
            copied = name in self._views or self._adapter.name(name) in self._copied
            if not copied and wanted is not None:
                sides[0].append((name, got.value))
                sides[1].append((name, wanted.value))
        seen = [one.shared(values) for one, values in zip(self._places, sides, strict=True)]
        found = lost_or_gained(seen[0], seen[1])
        if found is None:
            return
        how, places = found
        one, other = f"{len(places)} places are one object", "they are not"
        ours, theirs = (other, one) if how == "lost" else (one, other)
        what = " and ".join(places[:4]) + (" ..." if len(places) > 4 else "")
        raise self._different(Difference("", "sharing", ours, theirs), what, place)

    # -- one value -----------------------------------------------------------------------------

    def _same(self, got: Any, want: Any, what: str, place: str, name: str = "") -> None:
        if name in self._views:
            got, want = self._views[name](got), self._views[name](want)
        tolerance = self._tolerance(name)
        comparison = compare(got, want, tolerance=tolerance)
        if comparison.difference is not None and not (
            self._hand is None and _was_unseen(comparison.difference)
        ):
            raise self._different(comparison.difference, what, place, tolerance)
        self._compared += 1
        if comparison.within is not None:
            before = self._within.get(name)
            self._within_count += 1
            self._within[name] = (
                comparison.within if before is None else before.joined(comparison.within)
            )

    def _tolerance(self, name: str) -> Tolerance | None:
        for value in self._spec or ():
            if value.name == self._adapter.name(name):
                return value.tolerance
        return None

    def _different(
        self, found: Difference, what: str, place: str, tolerance: Tolerance | None = None
    ) -> EquivalenceError:
        to = RECORDED if self._hand is None else HAND_ROLLED
        return different(place, what, found, of=ADAPTER, to=to, tolerance=tolerance)


def _was_unseen(found: Difference) -> bool:
    """Whether the recorder had no copy of that part: then there is nothing to compare with."""
    return found.aspect == "type" and found.want == "an Unseen"
