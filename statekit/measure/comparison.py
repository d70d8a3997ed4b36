"""Comparison: one value of one session beside its declaration, ready for the rules."""

from __future__ import annotations

import attrs

from statekit.declared import DeclaredBytes, declared_bytes
from statekit.errors import ExpressionError
from statekit.expressions import Expression
from statekit.measure.finding import Finding
from statekit.measure.numbers import Numbers
from statekit.measure.recording import MeasuredSession, MeasuredValue
from statekit.spec import ModelSpec, ValueSpec

__all__ = ["Comparison"]


@attrs.frozen
class Comparison:
    """What is compared.

    Attributes:
        spec, value: what the schema declares.
        measured, session: what was measured.
        numbers: of the schema's names, in this session.
        model_device: what `model` stands for here.
    """

    spec: ModelSpec
    value: ValueSpec
    measured: MeasuredValue
    session: MeasuredSession
    numbers: Numbers
    model_device: str

    def finding(
        self, rule: str, found: str, todo: str, measured: int | None = None,
        declared: int | None = None,
    ) -> Finding:  # fmt: skip
        """A finding about the value."""
        return Finding(
            rule,
            self.spec.model,
            self.value.name,
            self.spec.schema,
            self.value.line,
            found,
            todo,
            measured,
            declared,
            self.session.session_id,
            key=_key(rule, self.value),
        )

    @property
    def declared(self) -> DeclaredBytes | None:
        """The figures of the schema; None where it does not say enough, or none come out."""
        try:
            return declared_bytes(self.spec, self.value, self.numbers.values)
        except ExpressionError:
            return None

    def limit(self, text: str) -> int | None:
        """The number of an expression."""
        return self.numbers.evaluate(Expression.parse(text))


def _key(rule: str, value: ValueSpec) -> str:
    """The key of a value that a rule speaks of."""
    if rule in ("MEASURED_DEVICE", "MEASURED_DTYPE", "MEASURED_SHAPE"):
        return rule.removeprefix("MEASURED_").lower()
    if rule == "MEASURED_PINNED":
        return "on_commit" if value.on_commit else ""
    if rule in ("MEASURED_BOUND", "MEASURED_GROWTH"):
        return "ring" if value.ring is not None else ""
    size = value.size
    return "" if size is None else "elements" if size.shape is None else "shape"
