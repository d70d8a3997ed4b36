"""Rules about bytes: what holds memory can be computed, agrees with measurements, and ends."""

from __future__ import annotations

from collections.abc import Iterator

from statekit.declared import DeclaredBytes, declared_bytes, measurable
from statekit.expressions import Expression
from statekit.spec import Measured, ValueSpec
from statekit_codegen.model import Model
from statekit_codegen.rules.record import Finding, vet_rule
from statekit_codegen.type_grammar import TypeExpr

__all__ = [
    "bytes_unknown",
    "device_none",
    "growth_rate",
    "measured_bytes",
    "parameter_minimum",
    "ring_reason",
    "sharding_dim",
]


@vet_rule(
    "BYTES_UNKNOWN",
    "The bytes of every value that holds memory follow from the schema.",
    since="0.1.0",
)
def bytes_unknown(model: Model) -> Iterator[Finding]:
    for value in model.spec:
        if declared_bytes(model.spec, value) is not None:
            continue
        if TypeExpr.parse(value.type).holds_memory:
            lacking = ["dtype"] if value.dtype is None else []
            if value.size is None:
                lacking.append("shape or elements")
            todo = f"add {' and '.join(lacking)}"
        else:
            todo = f"use device: none, as {value.type} holds no memory to speak of"
        yield Finding(
            ("values", value.name, "device"),
            f"nobody can compute its bytes on {value.device}",
            todo,
        )


@vet_rule("DEVICE_NONE", "A value with device: none holds no memory.", since="0.1.0")
def device_none(model: Model) -> Iterator[Finding]:
    for value in model.spec:
        if value.device == "none" and TypeExpr.parse(value.type).holds_memory:
            yield Finding(
                ("values", value.name, "device"),
                f"device: none, which counts 0 bytes, for a value of type {value.type}",
                "name the device that it lies on",
            )


@vet_rule("MEASURED_BYTES", "Measured bytes are those that follow from the schema.", since="0.1.0")
def measured_bytes(model: Model) -> Iterator[Finding]:
    for value in model.spec:
        declared = declared_bytes(model.spec, value)
        if declared is None:
            continue
        for index, measured in enumerate(value.measured):
            if not _agree(value, declared, measured):
                expected = measurable(value, declared, measured.at)
                when = "after the first step" if measured.at == "first" else "in the steady state"
                yield Finding(
                    ("values", value.name, "measured", index, "nbytes"),
                    f"{measured.nbytes} B measured {when}, {expected} B by the schema",
                    "mend the size, the dtype, the symbols, or measure again",
                )


@vet_rule("SHARDING_DIM", "A value is cut along a dimension that its shape has.", since="0.1.0")
def sharding_dim(model: Model) -> Iterator[Finding]:
    for value in model.spec:
        dim = value.sharding.dim if value.sharding else None
        if dim is None or value.size is None or value.size.shape is None:
            continue
        rank = len(value.size.shape)
        if dim >= rank:
            yield Finding(
                ("values", value.name, "sharding", "dim"),
                f"dimension {dim} of a shape with {rank}",
                f"dimensions count from 0, so use one up to {rank - 1}",
            )


@vet_rule("RING_REASON", "A buffer without a bound says why it has none.", since="0.1.0")
def ring_reason(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        ring = value.ring
        if ring is not None and ring.unbounded is not None and not ring.unbounded.strip():
            yield Finding(
                ("values", name, "ring", "unbounded"),
                "growth without a bound, and without a reason",
                "say what ends it, or give a bound",
            )


@vet_rule("GROWTH_RATE", "A buffer without a bound says how fast it grows.", since="0.1.0")
def growth_rate(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        ring = value.ring
        if ring is not None and ring.unbounded is not None and ring.growth is None:
            yield Finding(
                ("values", name, "ring"),
                "growth without a bound, and at no stated rate",
                "add growth: {items: 1, every_steps: 1}, with its numbers",
            )


@vet_rule(
    "PARAMETER_MINIMUM",
    "A parameter that bounds a ring is never below 1, nor one that bounds a window at its sink.",
    since="0.1.0",
)
def parameter_minimum(model: Model) -> Iterator[Finding]:
    numbers = model.spec.environment()
    wanted: dict[str, int] = {}
    for ring in (value.ring for value in model.spec if value.ring is not None):
        sink = 0 if ring.sink is None else Expression.parse(ring.sink).evaluate(numbers)
        for bound in filter(None, (ring.bound, ring.nbytes)):
            wanted[bound] = max(wanted.get(bound, 1), sink + 1)
    for name, parameter in model.schema.parameters.items():
        least = parameter.minimum
        if name in wanted and (least is None or least < wanted[name]):
            found = "no minimum" if least is None else f"minimum {least}"
            of = "a ring" if wanted[name] == 1 else f"a ring with a sink of {wanted[name] - 1}"
            yield Finding(
                ("parameters", name, "minimum"),
                f"{found} for a parameter that bounds {of}",
                f"use minimum: {wanted[name]} or more",
            )


def _agree(value: ValueSpec, declared: DeclaredBytes, measured: Measured) -> bool:
    expected = measurable(value, declared, measured.at)
    if measured.at == "steady" and declared.growth and measured.nbytes > expected:
        return (measured.nbytes - expected) % declared.growth == 0
    if value.sharding is not None and value.sharding.over is not None and measured.nbytes:
        # One rank's part may have been measured; how many ranks there were, nobody recorded.
        return expected % measured.nbytes == 0
    return measured.nbytes == expected
