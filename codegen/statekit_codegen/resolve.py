"""Resolve: from a checked schema to the spec that the runtime and every later step work on.

Owns the translation, and nothing that can fail: `check` has seen to that. Words that only a
person reads (doc, why) stay behind: where a value lies in the file apart, the spec changes only
when behaviour does.
"""

from __future__ import annotations

from statekit import spec
from statekit.expressions import Expression
from statekit_codegen.language import Dimension, Elements, Reset, Schema, Sharding, Value
from statekit_codegen.layout import lay, literal
from statekit_codegen.model import Loaded
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["resolve"]


def resolve(loaded: Loaded) -> spec.ModelSpec:
    """The spec of a schema in which `check` finds nothing."""
    schema = loaded.schema
    return spec.ModelSpec(
        model=schema.model,
        symbols=dict(schema.symbols),
        constants=dict(schema.constants),
        parameters={
            name: spec.Parameter(parameter.default, parameter.minimum, parameter.maximum)
            for name, parameter in schema.parameters.items()
        },
        variants={name: dict(numbers) for name, numbers in schema.variants.items()},
        families={
            name: spec.Family(members=dict(family.members or {}), count=_optional(family.count))
            for name, family in schema.families.items()
        },
        inputs={name: described.kept for name, described in schema.inputs.items()},
        values=tuple(
            _value(name, value, loaded.positions.place("values", name)[0])
            for name, value in schema.values.items()
        ),
        resets={name: _cleared(schema, reset) for name, reset in schema.resets.items()},
        atomic={name: tuple(members) for name, members in schema.atomic.items()},
        may_be_lost=schema.may_be_lost is not None,
        schema=loaded.positions.file,
    )


def _value(name: str, value: Value, line: int) -> spec.ValueSpec:
    decision = value.decision
    return spec.ValueSpec(
        name=name,
        bucket=value.bucket,
        type=TypeExpr.parse(value.item or value.type or "").text,
        device=value.device,
        key="" if value.key in (None, name) else value.key or "",
        object=value.object,
        default=lay(literal(value.default), 0) if value.bucket == "attrs" else "",
        coerce=value.coerce,
        dtype=value.dtype,
        size=_size(value),
        update="in_place" if value.object == "FixedState" else value.update,
        ring=_ring(value),
        on_commit=tuple(value.on_commit),
        families=tuple(value.family),
        rebuild=_rebuild(value),
        park=spec.Park(tiers=tuple(value.park.tiers)) if value.park else None,
        sharding=_sharding(value.sharding),
        pending=spec.Pending(elements=_optional(value.pending.elements)) if value.pending else None,
        index=_index(value),
        codec=spec.Codec(cast=value.codec.cast) if value.codec else None,
        lifetime=value.lifetime,
        tolerance=_tolerance(value),
        measured=tuple(
            spec.Measured(nbytes=one.nbytes, hardware=one.hardware, date=one.date, at=one.at)
            for one in value.measured
        ),
        operations=tuple((decision.operations if decision else None) or ()),
        line=line,
    )


def _size(value: Value) -> spec.Size | None:
    if value.shape is not None:
        return spec.Size(shape=tuple(_text(extent) for extent in value.shape))
    if isinstance(value.elements, Elements):
        return spec.Size(elements=_text(value.elements.then), first=_text(value.elements.first))
    if value.elements is not None:
        return spec.Size(elements=_text(value.elements))
    return None


def _ring(value: Value) -> spec.Ring | None:
    ring = value.ring
    if ring is None:
        return None
    growth = spec.Growth()
    if ring.growth is not None:
        given = ring.growth
        growth = spec.Growth(_text(given.items), given.every_steps, _text(given.first))
    return spec.Ring(
        bound=_optional(ring.bound),
        axis=ring.axis,
        sink=_optional(ring.sink),
        nbytes=_optional(ring.nbytes),
        unbounded=ring.unbounded or "",
        growth=growth,
    )


def _index(value: Value) -> spec.Index | None:
    index = value.index
    if index is None:
        return None
    return spec.Index(tuple(_text(extent) for extent in index.shape), index.dtype, index.metric)


def _tolerance(value: Value) -> spec.Tolerance | None:
    tolerance = value.tolerance
    return spec.Tolerance(tolerance.atol, tolerance.rtol) if tolerance else None


def _rebuild(value: Value) -> spec.Rebuild | None:
    rebuild = value.rebuild
    if rebuild is None:
        return None
    return spec.Rebuild(tuple(rebuild.sources), rebuild.cost, rebuild.cost_ms)


def _sharding(sharding: str | Sharding | None) -> spec.Sharding | None:
    if sharding is None:
        return None
    if isinstance(sharding, str):
        return spec.Sharding()
    return spec.Sharding(over=sharding.over, dim=sharding.dim, rank=sharding.rank)


def _cleared(schema: Schema, reset: Reset) -> tuple[str, ...]:
    """The values that a reset clears, in the order of the schema."""
    if reset.keeps is not None:
        return tuple(name for name in schema.values if name not in reset.keeps)
    if reset.clears == "all":
        return tuple(schema.values)
    return tuple(name for name in schema.values if name in (reset.clears or ()))


def _text(dimension: Dimension) -> str:
    return Expression.parse(dimension).text


def _optional(dimension: Dimension | None) -> str | None:
    return None if dimension is None else _text(dimension)
