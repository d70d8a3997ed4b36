"""Facets: what a reviewer compares of a value and of a model, each as one text.

Owns the list of facets, their order and their words. Both sides of a comparison are put into words
here, so what reads the same is the same.

    F1  Everything that a schema says of a value is in exactly one facet.
    F2  What follows from something else (bytes, who clears it) is a facet of its own, because a
        decision can change without an edit of its value.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from statekit.spec import Parameter, Sharding, ValueSpec
from statekit_codegen.language import Reset, Value
from statekit_codegen.model import Model, Path
from statekit_codegen.review import Review, Row
from statekit_codegen.review_words import (
    bound_words,
    growth_words,
    index_words,
    one_line,
    tolerance_words,
)
from statekit_codegen.units import format_nbytes

__all__ = ["Facet", "model_facets", "value_facets"]


@attrs.frozen
class Facet:
    """One thing that is said.

    Attributes:
        name: what it is, such as `device`.
        text: what is said; empty where nothing is.
        exact: the same, where `text` is rounded.
        paths: where a schema says it, the best place first.
    """

    name: str
    text: str
    exact: str = ""
    paths: tuple[Path, ...] = ()


def value_facets(review: Review, row: Row) -> Iterator[Facet]:
    """The facets of one value; the same names, in the same order, for every value."""
    spec, words = row.spec, row.words
    for name, text, *keys in _said(spec, words, row):
        yield Facet(name, text, paths=tuple(("values", spec.name, *key.split(".")) for key in keys))
    yield Facet("cleared by", ", ".join(row.cleared_by), paths=(("resets",),))
    groups = [group for group, members in review.model.spec.atomic.items() if spec.name in members]
    yield Facet("atomic group", ", ".join(groups), paths=(("atomic",),))
    sizes = (("values", spec.name, "shape"), ("values", spec.name, "elements"))
    yield _nbytes("bytes", row.nbytes, sizes)
    first = None if row.first_nbytes == row.nbytes else row.first_nbytes
    yield _nbytes("bytes after the first step", first, sizes)
    growing = "" if row.growth is None else growth_words(row.growth)
    exact = "" if row.growth is None else f"+{row.growth.nbytes} B a time"
    yield Facet("bytes on top", growing, exact, (("values", spec.name, "ring"),))
    pending = row.pending_nbytes or None
    yield _nbytes("bytes while a step runs", pending, (("values", spec.name, "pending"),))


def _said(spec: ValueSpec, words: Value, row: Row) -> Iterator[tuple[str, ...]]:
    """Name, text, and the keys that say it."""
    yield "bucket", spec.bucket, "bucket"
    yield "object", spec.object or "", "object"
    yield "type", spec.type, "type", "item"
    yield "dtype", spec.dtype or "", "dtype"
    yield "size", _size(spec), "shape", "elements"
    yield "device", spec.device, "device"
    yield "bound", "" if spec.ring is None else _bound(row), "ring.bound", "ring"
    yield "grows by", _growth(spec), "ring.growth", "ring"
    yield "family", ", ".join(spec.families), "family"
    yield "members", str(row.members) if spec.families else "", "family"
    yield "default", spec.default, "default"
    yield "coerce", spec.coerce or "", "coerce"
    yield "key", spec.key if spec.key != spec.name else "", "key"
    yield "update", spec.update, "update"
    yield "on commit", ", ".join(spec.on_commit), "on_commit"
    yield "view", _view(words), "view"
    yield "rebuild", _rebuild(spec), "rebuild"
    yield "park", "" if spec.park is None else ", ".join(spec.park.tiers), "park"
    yield "keys", "" if spec.index is None else index_words(spec.index), "index"
    yield "kept as", "" if spec.codec is None else spec.codec.cast, "codec"
    yield "lifetime", spec.lifetime, "lifetime"
    yield "sharding", _sharding(words, spec.sharding), "sharding"
    yield "pending copy", _pending(words), "pending"
    yield "operations", ", ".join(spec.operations), "decision.operations", "decision"
    yield "why", row.why, "decision.why", "decision"
    yield "doc", one_line(words.doc or ""), "doc"
    measured = (f"{m.nbytes} B, {m.at} ({m.hardware}, {m.date})" for m in spec.measured)
    yield "measured", one_line("; ".join(measured)), "measured"
    tolerance = words.tolerance
    allowed = tolerance and f"{tolerance_words(tolerance)}: {one_line(tolerance.why)}"
    yield "tolerance", allowed or "", "tolerance"
    yield "questions", " ".join(map(one_line, words.questions)), "questions"


def _bound(row: Row) -> str:
    ring = row.spec.ring
    assert ring is not None
    if ring.unbounded:
        return f"no bound: {one_line(ring.unbounded)}"
    along = "" if ring.axis is None else f" along axis {ring.axis}"
    return bound_words(row) + along


def _size(spec: ValueSpec) -> str:
    size = spec.size
    if size is None:
        return ""
    text = f"{size.elements} elements" if size.shape is None else f"[{', '.join(size.shape)}]"
    return text if size.first is None else f"{text}, at first {size.first}"


def _growth(spec: ValueSpec) -> str:
    ring = spec.ring
    if ring is None or ring.bounded:
        return ""
    return f"{ring.growth.items} items every {ring.growth.every_steps} steps"


def _pending(words: Value) -> str:
    pending = words.pending
    if pending is None:
        return ""
    size = "" if pending.elements is None else f" ({pending.elements} elements)"
    return one_line(pending.why) + size


def _sharding(words: Value, sharding: Sharding | None) -> str:
    if sharding is None:
        return ""
    if words.sharding == "replicated":
        return "replicated"
    parts = {"over": sharding.over, "dim": sharding.dim, "rank": sharding.rank}
    return ", ".join(f"{name} {part}" for name, part in parts.items() if part is not None)


def _view(words: Value) -> str:
    if words.object != "LatentBuffer":
        return ""
    return f"joined along axis {words.view.concat}" if words.view != "list" else "a list"


def _rebuild(spec: ValueSpec) -> str:
    rebuild = spec.rebuild
    if rebuild is None:
        return ""
    cost = "" if rebuild.cost_ms is None else f", {rebuild.cost_ms:g} ms"
    return f"from {', '.join(rebuild.sources)}: {one_line(rebuild.cost)}{cost}"


def _nbytes(name: str, nbytes: int | None, paths: tuple[Path, ...]) -> Facet:
    if nbytes is None:
        return Facet(name, "unknown" if name == "bytes" else "", paths=paths)
    return Facet(name, format_nbytes(nbytes), f"{nbytes} B", paths)


def model_facets(model: Model) -> Iterator[Facet]:
    """The facets of a model beside its values: its numbers, resets, groups and words."""
    schema, spec = model.schema, model.spec
    yield Facet("class", schema.class_, paths=(("class",),))
    yield Facet("doc", one_line(schema.doc), paths=(("doc",),))
    questions = " ".join(map(one_line, schema.questions))
    yield Facet("questions", questions, paths=(("questions",),))
    yield Facet("may be lost", one_line(schema.may_be_lost or ""), paths=(("may_be_lost",),))
    named: list[tuple[str, str, str, str]] = []
    named += [("symbol", "symbols", name, str(number)) for name, number in spec.symbols.items()]
    named += [
        ("constant", "constants", name, str(number)) for name, number in spec.constants.items()
    ]
    for name, parameter in spec.parameters.items():
        text = f"{_parameter(parameter)}: {one_line(schema.parameters[name].doc)}"
        named.append(("parameter", "parameters", name, text))
    for name, numbers in spec.variants.items():
        said = ", ".join(f"{symbol}={number}" for symbol, number in numbers.items())
        named.append(("variant", "variants", name, said))
    for name, family in schema.families.items():
        members = ", ".join(family.members or {}) or str(family.count)
        named.append(("family", "families", name, f"{members}: {one_line(family.doc)}"))
    for name, source in schema.inputs.items():
        kept = "kept" if source.kept else "not kept"
        named.append(("input", "inputs", name, f"{kept}: {one_line(source.doc)}"))
    for name, reset in schema.resets.items():
        named.append(("reset", "resets", name, _reset(reset)))
    for name, members_of in spec.atomic.items():
        named.append(("atomic group", "atomic", name, ", ".join(members_of)))
    for name, where in schema.outside.items():
        named.append(("held elsewhere", "outside", name, one_line(where)))
    for what, section, name, text in named:
        yield Facet(f"{what} {name}", text, paths=((section, name), (section,)))


def _parameter(parameter: Parameter) -> str:
    least, most = parameter.minimum, parameter.maximum
    bounds = "" if least is None else f", at least {least}"
    bounds += "" if most is None else f", at most {most}"
    return f"default {parameter.default}{bounds}"


def _reset(reset: Reset) -> str:
    if reset.keeps is not None:
        what = f"keeps {', '.join(reset.keeps) or 'nothing'}"
    elif reset.clears == "all":
        what = "clears all"
    else:
        what = f"clears {', '.join(reset.clears or ()) or 'nothing'}"
    return f"{what}: {one_line(reset.doc)}" if reset.doc else what
