"""assert_equivalent: the same calls on the hand-rolled object and on the adapter, compared.

Owns what a caller may pass. What is compared, and when, stands in `statekit.testing.side_by_side`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from statekit.spec import ModelSpec
from statekit.testing.replay import Replayed
from statekit.testing.side_by_side import Look, SideBySide, View
from statekit.testing.trace import Trace
from statekit.testing.verdict import Equivalence

__all__ = ["assert_equivalent"]


def assert_equivalent(
    hand_rolled: Any,
    adapter: Any,
    trace: Trace,
    *,
    names: Iterable[str] | Mapping[str, str] | None = None,
    spec: ModelSpec | None = None,
    views: Mapping[str, View] | None = None,
    look: Look = "call",
    after_step: Callable[[int, Any], Any] | None = None,
) -> Equivalence:
    """Do to both what the trace says, and compare all that comes out.

    Args:
        hand_rolled: an object like the one that was recorded, as it was then; or what makes one, a
            class or a function. None compares the adapter with what was recorded.
        adapter: the adapter, new; or a function that makes one.
        trace: the calls.
        names: the values to compare at each look; a mapping says what the adapter calls them.
            Without, the values of the schema that the hand-rolled object has.
        spec: the schema; without, that of the adapter.
        views: by name of a value what is compared of it, on both sides: the newest two frames,
            say, where the hand-rolled object keeps all and the adapter those that are read.
        look: after what the values are compared: each "call" of a method, or each "step" alone, for
            values so large that it takes too long.
        after_step: called with the step's number and the adapter, to park it, say, or to save and
            restore it; the adapter to go on with, or None for the same.

    Raises:
        EquivalenceError: they differ; says where first, and how.
    """
    hand = None if hand_rolled is None else Replayed(_fresh(hand_rolled))
    state = _fresh(adapter)
    spec = getattr(type(state), "SPEC", None) if spec is None else spec
    comparing = SideBySide(hand, Replayed(state, _renamed(names)), trace, spec, views or {}, look)
    comparing.choose_values(names)
    return comparing.run(after_step)


def _fresh(given: Any) -> Any:
    makers = (type, types.FunctionType, types.MethodType, functools.partial)
    return given() if isinstance(given, makers) else given


def _renamed(names: Iterable[str] | Mapping[str, str] | None) -> Mapping[str, str]:
    return dict(names) if isinstance(names, Mapping) else {}
