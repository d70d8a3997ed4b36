"""Resets: what the methods of a class clear against what the resets of a schema clear.

Owns which method is which reset: by name where both have it, else by what is cleared, else the
nearest. What a method clears under conditions, or sets to something else, is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from statekit_codegen.audit.values import Said
from statekit_codegen.reading.facts import Clearing, HandRolled
from statekit_codegen.reading.names import snake
from statekit_codegen.scaffold.resets import reset_word
from statekit_codegen.scaffold.words import series

__all__ = ["compare_resets"]


@attrs.frozen
class _Way:
    """One way to call a reset of the class, in the names of the schema."""

    clearing: Clearing
    cleared: frozenset[str]
    open: frozenset[str]

    def differs(self, wanted: frozenset[str]) -> frozenset[str]:
        """The values that one of the two clears and the other keeps."""
        return (self.cleared ^ wanted) - self.open


def compare_resets(
    state: HandRolled,
    resets: Mapping[str, Sequence[str]],
    both: Mapping[str, str],
    ignored: Sequence[str],
) -> Iterator[tuple[str, Said]]:
    """Name and finding of every reset that differs; `both` are the values that are compared."""
    values = frozenset(both.values())
    wanted = {
        name: frozenset(cleared) & values for name, cleared in resets.items() if name not in ignored
    }
    used: set[str] = set()
    told: set[tuple[str, frozenset[str]]] = set()
    for way in _ways(state, both, ignored):
        label = way.clearing.label
        name = _partner(way, wanted)
        if name is None:
            found = f"clears {_listed(way.cleared)}; no reset of the schema does"
            yield label, Said("RESET_MISSING", way.clearing.site, ("resets",), found, "add a reset")
            continue
        used.add(name)
        difference = way.differs(wanted[name])
        if not difference or (name, difference) in told:
            continue
        told.add((name, difference))
        more, less = difference & way.cleared, difference - way.cleared
        parts = [f"the class clears {_listed(more)} too"] if more else []
        parts += [f"the class keeps {_listed(less)}"] if less else []
        found = f"against reset {name} of the schema, {' and '.join(parts)}"
        site = next(
            (way.clearing.events[a].site for a, v in both.items()
             if v in more and a in way.clearing.events),
            way.clearing.site,
        )  # fmt: skip
        yield label, Said("RESET_DIFFERS", site, ("resets", name), found)
    for name, cleared in wanted.items():
        if name not in used and cleared != values and cleared:
            found = f"clears {_listed(cleared)}; no method of the class does"
            site = state.site
            yield (
                name,
                Said("RESET_INVENTED", site, ("resets", name), found, "remove it, or add it"),
            )


def _ways(state: HandRolled, both: Mapping[str, str], ignored: Sequence[str]) -> Iterator[_Way]:
    for clearing in state.clearings:
        if clearing.method in ignored:
            continue
        cleared = frozenset(both[name] for name in clearing.cleared if name in both)
        others = (*clearing.sometimes, *clearing.others)
        undecided = frozenset(both[name] for name in others if name in both)
        if cleared:
            yield _Way(clearing, cleared, undecided)


def _partner(way: _Way, wanted: Mapping[str, frozenset[str]]) -> str | None:
    """The reset of the schema that a method is."""
    names = [snake(way.clearing.method), snake(reset_word(way.clearing.method) or "session")]
    if not way.clearing.choice:
        for name in names:
            if name in wanted:
                return name
    same = [name for name, cleared in wanted.items() if not way.differs(cleared)]
    if same:
        return same[0]
    # One with which it shares less than half of what both clear is another one.
    near = [
        name
        for name, cleared in wanted.items()
        if 2 * len(way.cleared & cleared) >= len(way.cleared | cleared)
    ]
    return min(near, key=lambda name: len(way.differs(wanted[name])), default=None)


def _listed(names: frozenset[str]) -> str:
    return series(sorted(names))
