"""What a review says in words: short phrases that the text and the Markdown layout share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from statekit.expressions import Expression
from statekit.spec import Bucket, Index, Measured, Sharding, Tier, Update, ValueSpec
from statekit_codegen.language import Tolerance
from statekit_codegen.review import Growth, ResetRow, Review, Row, Total
from statekit_codegen.units import format_nbytes

__all__ = [
    "BUCKETS",
    "bound_words",
    "bytes_words",
    "device_words",
    "facts",
    "growth_words",
    "index_words",
    "notes",
    "number_words",
    "object_words",
    "one_line",
    "sections",
    "sessions_words",
    "tolerance_words",
    "total_extras",
]

BUCKETS: Mapping[Bucket, str] = {
    "attrs": "the manager only carries the value",
    "StateObject": "the manager acts on the value",
}

_TIERS: Mapping[Tier, str] = {"host": "in host memory", "disk": "on disk"}
_UPDATES: Mapping[Update, str] = {
    "entries": "entries are replaced, tensors never written into",
    "in_place": "written into in place",
}


def object_words(row: Row) -> str:
    """The kind of object, and how many there are; empty for a single carried value."""
    kind = row.spec.object or ""
    return f"{kind} x{row.members}".strip() if row.spec.families else kind


def bound_words(row: Row) -> str:
    """What ends the growth of the value."""
    bound = row.bound
    if bound is not None:
        limit = f"{bound.limit} {bound.unit}"
        if bound.unit == "bytes":
            limit = format_nbytes(bound.limit)
        given = bound.text == str(bound.limit)
        sink = f", the first {bound.sink} for good" if bound.sink else ""
        return (limit if given else f"{limit} ({bound.text})") + sink
    if row.spec.ring is not None:
        return "no bound"
    if row.spec.object == "FixedState":
        return "fixed size, in place"
    return "written once" if row.spec.object == "EncodeOnce" else "fixed size"


def growth_words(growth: Growth) -> str:
    """How fast something grows: `+0.21 MiB a step`."""
    every = "a step" if growth.every_steps == 1 else f"every {growth.every_steps} steps"
    return f"+{format_nbytes(growth.nbytes)} {every}"


def device_words(row: Row) -> str:
    """Where the value lies."""
    return "no memory" if row.spec.device == "none" else row.spec.device


def bytes_words(nbytes: int | None) -> str:
    """Bytes, or that nobody can compute them."""
    return "unknown" if nbytes is None else format_nbytes(nbytes)


def number_words(review: Review) -> str:
    """The numbers that the figures were computed with."""
    variant = f"variant {review.model.variant}: " if review.model.variant else ""
    return variant + ", ".join(f"{name}={number}" for name, number in review.numbers.items())


def facts(review: Review, row: Row) -> str:
    """What else the schema records about a value; empty where that is nothing."""
    phrases = _facts(review, row)
    said = "; ".join(phrases)
    return f"Also: {said}{'' if said.endswith(('?', '.')) else '.'}" if said else ""


def _facts(review: Review, row: Row) -> list[str]:
    spec, words = row.spec, row.words
    found = []
    if spec.families:
        each = (_family_words(review, name) for name in spec.families)
        found.append(f"one for each {' and '.join(each)}")
    if spec.key and spec.key != spec.name:
        found.append(f"under the key {spec.key}")
    if spec.ring is not None and spec.ring.unbounded:
        found.append(f"no bound: {one_line(spec.ring.unbounded)}")
    if row.growth is not None:
        found.append(f"{growth_words(row.growth)}, with one item counted")
    if row.first_nbytes is not None and row.first_nbytes != row.nbytes:
        found.append(f"{format_nbytes(row.first_nbytes)} after the first step")
    if words.pending is not None:
        copy = "a pending copy" if row.nbytes is None else f"+{format_nbytes(row.pending_nbytes)}"
        found.append(f"{copy} while a step runs: {one_line(words.pending.why)}")
    if spec.lifetime == "request":
        size = "" if row.nbytes is None else f"+{format_nbytes(row.pending_nbytes)} "
        found.append(f"{size}only while a request runs")
    found += _kind_words(spec)
    if spec.update != "replaced" and spec.object != "FixedState":
        found.append(_UPDATES[spec.update])
    if spec.on_commit:
        found.append(f"on commit: {', '.join(spec.on_commit)}")
    if spec.rebuild is not None:
        cost = "" if spec.rebuild.cost_ms is None else f", {spec.rebuild.cost_ms:g} ms"
        sources = ", ".join(spec.rebuild.sources)
        found.append(f"can be rebuilt from {sources}: {one_line(spec.rebuild.cost)}{cost}")
    if spec.park is not None:
        found.append(f"can be parked {' or '.join(_TIERS[tier] for tier in spec.park.tiers)}")
    if spec.sharding is not None:
        found.append(_sharding_words(spec.sharding, spec.families))
    found += _measured_words(spec.measured)
    if words.tolerance is not None:
        why = one_line(words.tolerance.why)
        found.append(f"tests allow {tolerance_words(words.tolerance)}: {why}")
    if words.questions:
        found.append(f"open: {' '.join(map(one_line, words.questions))}")
    return found


def _kind_words(spec: ValueSpec) -> list[str]:
    """What only a store has: its keys, and the form of its values."""
    found = [] if spec.index is None else [f"under keys {index_words(spec.index)}"]
    return found + ([] if spec.codec is None else [f"kept as {spec.codec.cast}"])


def index_words(index: Index) -> str:
    """The keys of a store."""
    return f"[{', '.join(index.shape)}] {index.dtype}, the nearest by {index.metric}"


def tolerance_words(tolerance: Tolerance) -> str:
    """What may differ in tests."""
    parts = {"atol": tolerance.atol, "rtol": tolerance.rtol}
    return ", ".join(f"{name} {number:g}" for name, number in parts.items() if number)


def total_extras(total: Total) -> list[str]:
    """What comes on top of a total: growth, and copies while a step runs."""
    extras = [growth_words(growth) for growth in total.growth]
    if total.pending_nbytes:
        extras.append(f"+{format_nbytes(total.pending_nbytes)} while a step runs")
    return extras


def notes(review: Review) -> list[str]:
    """What the totals leave out or count only in part."""
    found = []
    growing = [row.spec.name for row in review.rows if row.growth is not None]
    if growing:
        found.append(f"One item is counted of what has no bound: {', '.join(growing)}.")
    brief = [row.spec.name for row in review.rows if row.spec.lifetime == "request"]
    if brief:
        found.append(f"Only while a request runs, like a second copy: {', '.join(brief)}.")
    if review.unknown:
        found.append(f"Not counted, as its bytes are unknown: {', '.join(review.unknown)}.")
    if any(row.spec.sharding is not None and row.spec.sharding.over for row in review.rows):
        found.append("A value that is cut over ranks is counted whole.")
    return found


def _family_words(review: Review, name: str) -> str:
    family = review.model.spec.families[name]
    if family.count is None:
        return f"{name} ({', '.join(family.members)})"
    count = Expression.parse(family.count).evaluate(review.numbers)
    return f"{name} (0 to {count - 1})"


def _measured_words(measurements: Iterable[Measured]) -> list[str]:
    """What was measured, a phrase for each place and day."""
    figures: dict[str, list[str]] = {}
    for measured in measurements:
        when = " after the first step" if measured.at == "first" else ""
        place = f"{one_line(measured.hardware)}, {measured.date}"
        figures.setdefault(place, []).append(f"{format_nbytes(measured.nbytes)}{when}")
    return [f"measured {', '.join(found)} ({place})" for place, found in figures.items()]


def _sharding_words(sharding: Sharding, families: Sequence[str]) -> str:
    if sharding.rank is not None:
        return f"on rank {sharding.rank} only"
    if sharding.over is None:
        return "the same on every rank"
    if sharding.dim is None:
        if families:
            return f"dealt out over the {sharding.over} ranks"
        return f"another one on each {sharding.over} rank"
    return f"cut over {sharding.over} along dimension {sharding.dim}"


def sessions_words(review: Review) -> str:
    """How many sessions the second column of figures is for."""
    return "1 session" if review.sessions == 1 else f"{review.sessions} sessions"


def sections(review: Review) -> list[tuple[str, list[tuple[str, str]]]]:
    """What is shown below the totals: a title, and names with what there is to say."""
    schema, spec = review.model.schema, review.model.spec
    kept = {True: "kept", False: "not kept"}
    found = [
        ("Resets", [(reset.name, _reset_words(reset)) for reset in review.resets]),
        (
            "Restored together or not at all",
            [(name, ", ".join(members)) for name, members in spec.atomic.items()],
        ),
        (
            "Variants",
            [
                (name, ", ".join(f"{symbol}={number}" for symbol, number in numbers.items()))
                for name, numbers in spec.variants.items()
            ],
        ),
        ("Parameters", [(name, one_line(p.doc)) for name, p in schema.parameters.items()]),
        ("Families", [(name, one_line(family.doc)) for name, family in schema.families.items()]),
        (
            "Inputs",
            [(name, f"{one_line(i.doc)} ({kept[i.kept]})") for name, i in schema.inputs.items()],
        ),
        ("Held elsewhere", [(name, one_line(text)) for name, text in schema.outside.items()]),
        (
            "Open questions",
            [(str(n), one_line(text)) for n, text in enumerate(schema.questions, 1)],
        ),
    ]
    return [(title, entries) for title, entries in found if entries]


def one_line(text: str) -> str:
    """`text` without its line breaks."""
    return " ".join(text.split())


def _reset_words(reset: ResetRow) -> str:
    """When it happens, and the shorter one of what it clears and what it keeps."""
    if not reset.keeps:
        what = "Clears all."
    elif not reset.clears:
        what = "Clears nothing."
    elif len(reset.clears) <= len(reset.keeps):
        what = f"Clears {', '.join(reset.clears)}; keeps all others."
    else:
        what = f"Keeps {', '.join(reset.keeps)}; clears all others."
    return f"{one_line(reset.doc)} {what}".strip()
