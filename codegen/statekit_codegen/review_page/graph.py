"""The graph of sources and groups: what is rebuilt from what, what is restored together.

Owns which nodes there are and where they are drawn.

    G1  A value stands to the right of everything that it is rebuilt from, unless they go round.
        What is rebuilt from nothing, and nothing from it, is laid out in rows.
    G2  Each atomic group has a band of its own, so its frame holds its values and no others.
    G3  The picture is a function of the model: no place depends on anything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

import attrs

from statekit.spec import ModelSpec
from statekit_codegen.review import Review, Row
from statekit_codegen.review_words import bytes_words, device_words, one_line

__all__ = ["Edge", "Frame", "Graph", "Node", "graph"]

_CHAR, _SMALL = 7.3, 6.6
"""Units of a letter in a name, and in the words below it."""

_CHARS = 34
"""Characters of a name that a node shows at most; its title has all of them."""

_ROW, _HIGH, _GAP, _ACROSS, _PAD = 64, 48, 28, 88, 16

_Kind = Literal["attrs", "StateObject", "input", "unknown"]


@attrs.frozen
class Node:
    """One value, input, or source that nobody has described."""

    name: str
    label: str
    more: str
    kind: _Kind
    x: int
    y: int
    width: int
    height: int


@attrs.frozen
class Edge:
    """An arrow from a source to what is rebuilt from it."""

    source: str
    target: str
    path: str


@attrs.frozen
class Frame:
    """The frame around the values of one atomic group."""

    name: str
    x: int
    y: int
    width: int
    height: int


@attrs.frozen
class Graph:
    """The picture; and value, its sources, and what a rebuild costs, in words."""

    width: int
    height: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    frames: tuple[Frame, ...]
    rebuilds: tuple[tuple[str, str, str], ...]


def graph(review: Review) -> Graph | None:
    """The picture of a model; None where nothing is rebuilt and nothing belongs together."""
    spec = review.model.spec
    sources = {value.name: value.rebuild.sources for value in spec if value.rebuild is not None}
    if not sources and not spec.atomic:
        return None
    names = _names(spec, sources)
    depth = _depths(names, sources)
    bands = _bands(spec, names)
    linked = {name for target, of in sources.items() for name in (target, *of)}
    for _, members in bands:
        loose = [name for name in members if name not in linked]
        across = math.ceil(math.sqrt(len(loose)))
        depth.update({name: place % across for place, name in enumerate(loose)})
    rows = {row.spec.name: row for row in review.rows}
    texts = {name: _texts(rows.get(name), spec.inputs.get(name), name) for name in names}
    wide = max(round(_CHAR * len(label)) for label, _, _ in texts.values())
    wide = max(wide, *(round(_SMALL * len(more)) for _, more, _ in texts.values())) + 2 * _PAD
    nodes: list[Node] = []
    frames: list[Frame] = []
    top = 0
    for band, members in bands:
        inside = _PAD + (_GAP if band else 0)
        used: dict[int, int] = {}
        for name in members:
            column = depth[name]
            row = used[column] = used.get(column, -1) + 1
            x = _PAD * 2 + column * (wide + _ACROSS)
            y = top + inside + row * _ROW
            nodes.append(Node(name, *texts[name], x, y, wide, _HIGH))
        high = inside + max(used.values()) * _ROW + _HIGH + _PAD
        if band:
            left = _PAD + min(used) * (wide + _ACROSS)
            span = (max(used) - min(used)) * (wide + _ACROSS) + wide + 2 * _PAD
            frames.append(Frame(band, left, top + 4, span, high - 4))
        top += high + _PAD // 2
    placed = {node.name: node for node in nodes}
    edges = [_edge(placed[one], placed[name]) for name, of in sources.items() for one in of]
    return Graph(
        width=max(node.x for node in nodes) + wide + 2 * _PAD,
        height=top,
        nodes=tuple(nodes),
        edges=tuple(edges),
        frames=tuple(frames),
        rebuilds=tuple(_rebuilds(spec)),
    )


def _names(spec: ModelSpec, sources: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Inputs and what nobody describes, then values in the schema's order."""
    used = {name for of in sources.values() for name in of}
    used.update(sources, *spec.atomic.values())
    values = [value.name for value in spec if value.name in used]
    inputs = [name for name in spec.inputs if name in used and name not in values]
    return [*inputs, *sorted(used.difference(values, inputs)), *values]


def _depths(names: list[str], sources: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """The longest way from what is rebuilt from nothing; a circle is entered at its first value."""
    left = {name: set(sources.get(name, ())) - {name} for name in names}
    used_by: dict[str, list[str]] = {name: [] for name in names}
    for name, of in left.items():
        for source in sorted(of):
            used_by[source].append(name)
    depths = dict.fromkeys(names, 0)
    done: set[str] = set()
    ready = [name for name in names if not left[name]]
    waiting = iter(names)
    while len(done) < len(names):
        name = ready.pop() if ready else next(one for one in waiting if one not in done)
        done.add(name)
        for target in used_by[name]:
            if target not in done:
                depths[target] = max(depths[target], depths[name] + 1)
                left[target].discard(name)
                if not left[target]:
                    ready.append(target)
    return depths


def _bands(spec: ModelSpec, names: list[str]) -> list[tuple[str, list[str]]]:
    """Those of no group, then each group with those of its values that no other one has before."""
    band: dict[str, str] = {}
    for group, members in spec.atomic.items():
        for name in members:
            band.setdefault(name, group)
    found = [("", [name for name in names if name not in band])]
    found += [(group, [n for n in names if band.get(n) == group]) for group in spec.atomic]
    return [(group, members) for group, members in found if members]


def _texts(row: Row | None, kept: bool | None, name: str) -> tuple[str, str, _Kind]:
    """What the node of a value, or of an input, says, the words below it, and what it is."""
    label = name if len(name) <= _CHARS else f"{name[: _CHARS - 1]}…"
    if row is not None:
        return label, f"{bytes_words(row.nbytes)}, {device_words(row)}", row.spec.bucket
    if kept is None:
        return label, "described nowhere", "unknown"
    return label, "input, kept" if kept else "input, not kept", "input"


def _edge(source: Node, target: Node) -> Edge:
    y1, y2 = source.y + source.height // 2, target.y + target.height // 2
    if target.x > source.x:
        x1, x2 = source.x + source.width, target.x - 6
        bend = max(24, (x2 - x1) // 2)
        path = f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
    else:  # a circle, or two of one depth: round the right side
        x1, x2 = source.x + source.width, target.x + target.width + 6
        path = f"M{x1} {y1} C{x1 + 56} {y1} {x2 + 56} {y2} {x2} {y2}"
    return Edge(source.name, target.name, path)


def _rebuilds(spec: ModelSpec) -> Iterator[tuple[str, str, str]]:
    for value in spec:
        if value.rebuild is not None:
            cost = one_line(value.rebuild.cost)
            ms = "" if value.rebuild.cost_ms is None else f" ({value.rebuild.cost_ms:g} ms)"
            yield value.name, ", ".join(value.rebuild.sources), f"{cost}{ms}"
