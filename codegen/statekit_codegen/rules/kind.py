"""Rules about single kinds of objects, and about what lives for a request only."""

from __future__ import annotations

from collections.abc import Iterator

from statekit.amounts import DTYPE_NBYTES, amounts_of
from statekit.expressions import Expression
from statekit_codegen.model import Model
from statekit_codegen.rules.record import Finding, vet_rule

__all__ = ["atomic_lifetime", "codec_smaller", "lifetime_operations", "store_bound", "store_entry"]


@vet_rule(
    "STORE_BOUND",
    "A RetrievalStore has a bound, in items or in bytes, or can be parked.",
    since="0.1.0",
)
def store_bound(model: Model) -> Iterator[Finding]:
    for value in model.spec:
        if value.object != "RetrievalStore" or value.ring is None or value.ring.bounded:
            continue
        if "park" not in value.operations:
            yield Finding(
                ("values", value.name, "ring"),
                "a store that grows without a bound, and that nothing can put away",
                "add nbytes or bound, or park it",
            )


@vet_rule(
    "STORE_ENTRY", "The bytes of a RetrievalStore have room for one entry or more.", since="0.1.0"
)
def store_entry(model: Model) -> Iterator[Finding]:
    numbers = model.spec.environment()

    def evaluate(text: str) -> int:
        return Expression.parse(text).evaluate(numbers)

    for value in model.spec:
        if value.object != "RetrievalStore" or value.ring is None or value.ring.nbytes is None:
            continue
        amounts = amounts_of(value, evaluate)
        if amounts is not None and amounts.full == 0:
            yield Finding(
                ("values", value.name, "ring", "nbytes"),
                f"{evaluate(value.ring.nbytes)} B, less than a key and a value take",
                "give it more bytes, or mend the sizes",
            )


@vet_rule(
    "CODEC_SMALLER", "A codec keeps values in fewer bytes than they have without.", since="0.1.0"
)
def codec_smaller(model: Model) -> Iterator[Finding]:
    for value in model.spec:
        if value.codec is None or value.dtype is None:
            continue
        if DTYPE_NBYTES[value.codec.cast] >= DTYPE_NBYTES[value.dtype]:
            yield Finding(
                ("values", value.name, "codec", "cast"),
                f"values of {value.dtype} kept as {value.codec.cast}, which saves nothing",
                "cast to a smaller dtype, or leave the codec out",
            )


@vet_rule(
    "LIFETIME_OPERATIONS",
    "What lives for a request only is neither parked nor released: nobody waits with it.",
    since="0.1.0",
)
def lifetime_operations(model: Model) -> Iterator[Finding]:
    for value in model.spec:
        idle = [one for one in value.operations if one in ("park", "release")]
        if value.lifetime == "request" and idle:
            yield Finding(
                (
                    "values",
                    value.name,
                    "decision",
                    "operations",
                    value.operations.index(idle[0]),
                ),
                f"{' and '.join(idle)} for what is gone when a request ends",
                "do not list it, or use lifetime: session",
            )


@vet_rule("ATOMIC_LIFETIME", "The values of an atomic group live equally long.", since="0.1.0")
def atomic_lifetime(model: Model) -> Iterator[Finding]:
    for group, members in model.spec.atomic.items():
        brief = [name for name in members if model.spec[name].lifetime == "request"]
        kept = [name for name in members if name not in brief]
        if brief and kept:
            yield Finding(
                ("atomic", group),
                f"{', '.join(brief)} cleared when a request ends, {', '.join(kept)} kept",
                "give all of them one lifetime",
            )
