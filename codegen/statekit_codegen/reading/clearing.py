"""Clearings: which methods put which attributes back to what they are at the start.

Owns the rule for what is a reset: a method that says so by its name, or one that does nothing but
clear. One that arguments steer is several, one for each way that its tests tell apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from statekit_codegen.reading.choices import Function, choices
from statekit_codegen.reading.facts import Clearing, Event, Held, Site

__all__ = ["CONSTRUCTORS", "clearings", "is_reset_name"]

CONSTRUCTORS = ("__init__", "__new__", "__post_init__", "__attrs_post_init__", "__attrs_init__")
_RESET = re.compile(r"_*(re_?set|clear|wipe|re_?init|restart|forget|invalidate)(_|$|[A-Z])")
_ENDING = re.compile(
    r"_*(drop|release|free|flush|discard|new|begin|start|end|close|finish|evict)(_|$|[A-Z])"
)
_ZEROING = ("zero_", "clear", "reset")

Run = Callable[[Function, Mapping[str, Any], str], Iterable[Event]]
"""The events of a method under chosen arguments, with its helpers; the class that has it."""


def is_reset_name(name: str) -> bool:
    """Whether a method says by its name that it resets."""
    return _RESET.match(name) is not None


def clearings(
    methods: Iterable[tuple[str, Function]],
    initial: Mapping[str, Held],
    order: Iterable[str],
    called: frozenset[str],
    run: Run,
    doc: Callable[[Function], str],
) -> list[Clearing]:
    """The resets of a class, in the order of the source.

    Args:
        methods: of an instance, with the class of each.
        initial: what each attribute is at the start, where that is known.
        order: all attributes.
        called: methods that other methods of the class call.
    """
    found: list[Clearing] = []
    names = list(order)
    for owner, function in sorted(methods, key=lambda pair: pair[1].lineno):
        if function.name in CONSTRUCTORS or function.name.startswith("__"):
            continue
        if function.name.startswith("_") and function.name in called:
            continue
        ways = [
            (way, _cleared(list(run(function, way, owner)), initial, is_reset_name(function.name)))
            for way in choices(function)
        ]
        if not any(_is_reset(function.name, states) for _, states in ways):
            continue
        outcomes = {tuple(sorted(states.items(), key=str)) for _, (states, _) in ways}
        if len(outcomes) == 1:
            ways = [({}, ways[0][1])]
        for number, (way, (states, events)) in enumerate(ways):
            usual = number == 0
            by_state = {
                state: tuple(name for name in names if states.get(name) == state)
                for state in ("cleared", "sometimes", "other")
            }
            if not by_state["cleared"] and not by_state["sometimes"]:
                continue
            site = Site(function.lineno, function.col_offset + 1, function.name)
            found.append(
                Clearing(
                    function.name, site, tuple(way.items()), by_state["cleared"],
                    by_state["sometimes"], by_state["other"], events, doc(function), usual,
                )
            )  # fmt: skip
    return found


States = tuple[dict[str, str], dict[str, Event]]


def _is_reset(name: str, outcome: States) -> bool:
    states = list(outcome[0].values())
    cleared = states.count("cleared") + states.count("sometimes")
    if is_reset_name(name):
        return cleared > 0
    pure = bool(states) and "other" not in states
    return pure and "cleared" in states and (len(states) > 1 or _ENDING.match(name) is not None)


def _cleared(events: list[Event], initial: Mapping[str, Held], named: bool) -> States:
    """What becomes of each attribute that the events touch, and the event that decides it."""
    states: dict[str, str] = {}
    last: dict[str, Event] = {}
    for event in events:
        if event.kind == "read":
            continue
        name = event.name
        clears = _clears(event, initial.get(name), named)
        before = states.get(name)
        if clears and _runs(event):
            states[name] = "cleared"
        elif clears:
            states[name] = before if before == "cleared" else "sometimes"
        elif event.kind == "entry" and event.depth and named and before == "cleared":
            continue
        else:
            states[name] = "other"
        last[name] = event
    return states, last


def _runs(event: Event) -> bool:
    """Whether it runs always, or wherever there is something of its own to clear."""
    return event.certain or (bool(event.guards) and "?" not in event.guards)


def _clears(event: Event, initial: Held | None, named: bool) -> bool:
    if event.kind in ("clear", "delete"):
        return True
    if event.kind == "write":
        return event.how in _ZEROING or (
            event.how == "fill_" and event.held is not None and event.held.default in (0, False)
        )
    if event.kind != "set" or event.held is None:
        return False
    if initial is not None and event.held.same_default(initial):
        return True
    if not named or event.held.of is not None:
        return False
    # In a reset a literal is what the value starts anew as, even if that is not what it began as.
    return event.held.is_literal or initial is None
