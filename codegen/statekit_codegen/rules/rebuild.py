"""Rules about rebuild sources: known, never in a circle, still there when they are needed.

They hold for every value that states a source, released or not: the record is what later
decisions rest on.
"""

from __future__ import annotations

from collections.abc import Iterator

from statekit_codegen.model import Model
from statekit_codegen.rules.record import Finding, vet_rule

__all__ = ["rebuild_cycle", "rebuild_kept", "rebuild_unknown"]


@vet_rule("REBUILD_UNKNOWN", "A rebuild source is a value or an input.", since="0.1.0")
def rebuild_unknown(model: Model) -> Iterator[Finding]:
    for name, index, source in _sources(model):
        if source not in model.schema.values and source not in model.schema.inputs:
            yield Finding(
                ("values", name, "rebuild", "from", index),
                f"{source!r} is no value and no input",
                "name one of them, or describe it under inputs",
            )


@vet_rule("REBUILD_CYCLE", "No value is rebuilt from itself, directly or not.", since="0.1.0")
def rebuild_cycle(model: Model) -> Iterator[Finding]:
    edges: dict[str, list[str]] = {name: [] for name in model.schema.values}
    for name, _, source in _sources(model):
        edges[name].append(source)
    told: set[str] = set()
    for name, index, source in _sources(model):
        way = _way(edges, source, name)
        if way and name not in told:
            told.update(way)
            yield Finding(
                ("values", name, "rebuild", "from", index),
                f"rebuilt from itself: {' from '.join([name, *way])}",
                "break the circle with a source outside it",
            )


@vet_rule(
    "REBUILD_KEPT",
    "A rebuild source is there as long as what is rebuilt from it: an input that is kept, or a "
    "value that neither a reset clears alone nor the end of a request.",
    since="0.1.0",
)
def rebuild_kept(model: Model) -> Iterator[Finding]:
    for name, index, source in _sources(model):
        path = ("values", name, "rebuild", "from", index)
        if source in model.schema.values:
            alone = [
                reset
                for reset, cleared in model.spec.resets.items()
                if source in cleared and name not in cleared
            ]
            brief = model.spec[source].lifetime == "request"
            if brief and model.spec[name].lifetime == "session":
                yield Finding(
                    path,
                    f"{source} is cleared when a request ends, {name} is kept",
                    "keep the source as long, or name another one",
                )
            elif alone:
                yield Finding(
                    path,
                    f"{source} is cleared by {', '.join(alone)}, which keeps {name}",
                    "clear both or keep both, or name another source",
                )
        elif source in model.schema.inputs and not model.schema.inputs[source].kept:
            yield Finding(
                path,
                f"input {source} is not kept",
                "name a source that is there when it is needed, or have it kept",
            )


def _sources(model: Model) -> Iterator[tuple[str, int, str]]:
    for name, value in model.schema.values.items():
        if value.rebuild is not None:
            for index, source in enumerate(value.rebuild.sources):
                yield name, index, source


def _way(edges: dict[str, list[str]], start: str, goal: str) -> list[str]:
    """The shortest way along `edges` from `start` to `goal`, both included; empty: none."""
    ways = [[start]]
    seen = {start}
    for way in ways:
        if way[-1] == goal:
            return way
        for following in edges.get(way[-1], ()):
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return []
