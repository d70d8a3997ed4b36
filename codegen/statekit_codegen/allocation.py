"""Allocation: the arguments of `allocate` in generated code, by kind of object.

Owns how a bound becomes a number that the adapter has when it runs: a literal, a constant of the
class, or a parameter.
"""

from __future__ import annotations

from statekit.errors import ExpressionError, SchemaError
from statekit.expressions import Expression
from statekit.spec import Ring, ValueSpec
from statekit_codegen.layout import Call, Expr, literal, string
from statekit_codegen.model import Model

__all__ = ["allocation", "unusable"]

Arguments = list[tuple[str, Expr]]


def allocation(model: Model, value: ValueSpec) -> Arguments:
    """The arguments of `allocate`.

    Raises:
        SchemaError: something of the value has no form as code.
    """
    arguments: Arguments = []
    ring = value.ring
    if ring is not None:
        arguments += _kept(model, value, ring)
    if value.index is not None:
        arguments.append(("metric", string(value.index.metric)))
    if value.codec is not None:
        arguments.append(("codec", Call("Cast", [("", f"torch.{value.codec.cast}")])))
    if value.on_commit:
        arguments.append(("on_commit", Call("OnCommit", _on_commit(model, value))))
    if value.object in ("LatentBuffer", "HeldValue") and value.update != "replaced":
        arguments.append(("update", string(value.update)))
    return arguments


def _kept(model: Model, value: ValueSpec, ring: Ring) -> Arguments:
    found: Arguments = []
    if ring.bound is not None:
        name = "maxlen" if value.object == "LatentBuffer" else "bound"
        found.append((name, _number(model, value, "bound", ring.bound)))
    if ring.nbytes is not None:
        found.append(("nbytes", _number(model, value, "nbytes", ring.nbytes)))
    if ring.bound is not None and ring.axis is not None:
        found.append(("axis", literal(ring.axis)))
    if ring.sink is not None:
        found.append(("sink", _number(model, value, "sink", ring.sink)))
    return found


def _number(model: Model, value: ValueSpec, key: str, text: str) -> Expr:
    """A constant or a parameter by its name; else the value of an expression over constants."""
    spec = model.spec
    if text in spec.constants or text in spec.parameters:
        return f"self.{text}"
    try:
        number = Expression.parse(text).evaluate(spec.constants)
    except ExpressionError:
        number = -1
    if number >= (0 if key == "sink" else 1):
        return literal(number)
    raise unusable(
        model,
        value,
        f"ring.{key}",
        "RING_BOUND",
        f"the {key} {text!r}",
        "use a positive number, a constant or a parameter",
    )


def _on_commit(model: Model, value: ValueSpec) -> Arguments:
    steps: Arguments = []
    if "detach" in value.on_commit:
        steps.append(("detach", "True"))
    if "move" in value.on_commit:
        if value.device in ("model", "none"):
            raise unusable(
                model,
                value,
                "on_commit",
                "ON_COMMIT_MOVE",
                f"move with device: {value.device}, which names no device",
                "name the device, such as cpu, or do not move",
            )
        steps.append(("device", string(value.device)))
    if "compact" in value.on_commit:
        steps.append(("compact", "True"))
    return steps


def unusable(
    model: Model, value: ValueSpec, key: str, rule: str, found: str, todo: str
) -> SchemaError:
    """A problem that, `move` aside, `check` has refused already."""
    path = ("values", value.name, *key.split("."))
    return SchemaError([model.loaded.positions.problem(path, rule, found, todo)])
