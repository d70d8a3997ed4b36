"""Rules about operations: each one fits the object, and what it needs is stated.

They look at StateObjects only; an attrs value with an operation is `BUCKET_ATTRS`, once.
"""

from __future__ import annotations

from collections.abc import Iterator

from statekit.spec import Operation
from statekit_codegen.check_values import HOLDERS
from statekit_codegen.language import Value
from statekit_codegen.model import Model, Path
from statekit_codegen.rules.record import Finding, vet_rule
from statekit_codegen.type_grammar import TypeExpr

__all__ = [
    "on_commit_move",
    "on_commit_tensor",
    "operation_accumulate",
    "operation_source",
    "park_host",
    "park_tiers",
    "update_once",
    "update_type",
]

_BUFFERS = HOLDERS["item"]
"""The kinds of objects that gain more than they are given at once."""
_CONTAINERS = ("deque", "dict", "list", "set")
_WRITABLE = ("np.ndarray", "torch.Generator", "torch.Tensor")


@vet_rule(
    "OPERATION_ACCUMULATE",
    "`accumulate` is what a LatentBuffer, a WindowedKV and a RetrievalStore do, and only they.",
    since="0.1.0",
)
def operation_accumulate(model: Model) -> Iterator[Finding]:
    for path, value, operations in _acted_on(model):
        if value.object in _BUFFERS and "accumulate" not in operations:
            yield Finding(
                path,
                f"a {value.object} that does not accumulate (operations: {', '.join(operations)})",
                "list accumulate, or use another object",
            )
        elif value.object not in _BUFFERS and "accumulate" in operations:
            yield Finding(
                (*path, operations.index("accumulate")),
                f"accumulate on a value that is stored whole ({value.object})",
                f"use object: {' or '.join(_BUFFERS)}, or do not list accumulate",
            )


@vet_rule(
    "OPERATION_SOURCE",
    "What the manager may release or rebuild says what it is rebuilt from.",
    since="0.1.0",
)
def operation_source(model: Model) -> Iterator[Finding]:
    for path, value, operations in _acted_on(model):
        needing = [name for name in ("release", "rebuild") if name in operations]
        if needing and (value.rebuild is None or not value.rebuild.sources):
            yield Finding(
                path,
                f"{' and '.join(needing)} without a source to rebuild from",
                "add rebuild: {from: [...], cost: ...}, or the value is lost for good",
            )


@vet_rule(
    "PARK_TIERS",
    "A value that the manager parks names its tiers, and only such a value does.",
    since="0.1.0",
)
def park_tiers(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        operations = value.decision.operations if value.decision else None
        if operations is None or (value.bucket == "attrs" and operations):
            continue
        if "park" in operations and (value.park is None or not value.park.tiers):
            yield Finding(
                ("values", name, "decision", "operations", operations.index("park")),
                "park without a tier to park in",
                "add park: {tiers: [host, disk]}, or one of the two",
            )
        elif value.park is not None and "park" not in operations:
            yield Finding(
                ("values", name, "park"),
                "tiers to park in, but no operation park",
                "list park in the decision's operations, or remove the tiers",
            )


@vet_rule("PARK_HOST", "A value in host memory is not parked in host memory.", since="0.1.0")
def park_host(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        if value.device == "cpu" and value.park is not None and "host" in value.park.tiers:
            yield Finding(
                ("values", name, "park", "tiers", value.park.tiers.index("host")),
                "tier host for a value on cpu, which frees nothing",
                "use tiers: [disk], or do not park it",
            )


@vet_rule("ON_COMMIT_MOVE", "`move` has a device to move to that the schema names.", since="0.1.0")
def on_commit_move(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        if "move" in value.on_commit and value.device in ("model", "none"):
            yield Finding(
                ("values", name, "on_commit", value.on_commit.index("move")),
                f"move with device: {value.device}, which names no device",
                "name the device, such as cpu, or do not move",
            )


@vet_rule(
    "ON_COMMIT_TENSOR", "`detach` and `move` are for values that hold tensors.", since="0.1.0"
)
def on_commit_tensor(model: Model) -> Iterator[Finding]:
    for value in model.spec:
        steps = [step for step in value.on_commit if step != "compact"]
        no_tensor = not TypeExpr.parse(value.type).mentions("torch.Tensor")
        if steps and value.bucket == "StateObject" and no_tensor:
            yield Finding(
                ("values", value.name, "on_commit", value.on_commit.index(steps[0])),
                f"{' and '.join(steps)} on {value.type}, which has no tensor to act on",
                "remove it, or mend the type",
            )


@vet_rule(
    "UPDATE_ONCE",
    "What an EncodeOnce holds is not changed in any way: it is reread.",
    since="0.1.0",
)
def update_once(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        if value.object == "EncodeOnce" and value.update != "replaced":
            yield Finding(
                ("values", name, "update"),
                f"an EncodeOnce that the model changes (update: {value.update})",
                "use update: replaced, or object: HeldValue",
            )


@vet_rule(
    "UPDATE_TYPE",
    "A value of the type can be changed as `update` says, and a generator's state is: it draws "
    "in place.",
    since="0.1.0",
)
def update_type(model: Model) -> Iterator[Finding]:
    for value in model.spec:
        if value.object == "EncodeOnce":
            continue
        held = TypeExpr.parse(value.type)
        found = f"update: {value.update} on {value.type}"
        if held.mentions("torch.Generator") and value.update != "in_place":
            yield Finding(
                ("values", value.name, "update"),
                f"{found}, whose state every draw changes",
                "write update: in_place",
            )
        elif value.update == "entries" and not held.mentions(*_CONTAINERS):
            what = "in_place if the model writes into it, else replaced"
            todo = what if held.mentions(*_WRITABLE) else "replaced"
            yield Finding(
                ("values", value.name, "update"),
                f"{found}, which has no entries to replace",
                f"write update: {todo}",
            )
        elif value.update == "in_place" and not held.mentions(*_CONTAINERS, *_WRITABLE):
            yield Finding(
                ("values", value.name, "update"),
                f"{found}, which nothing can write into",
                "write update: replaced",
            )


def _acted_on(model: Model) -> Iterator[tuple[Path, Value, list[Operation]]]:
    """The StateObjects with operations, and where these are listed."""
    for name, value in model.schema.values.items():
        operations = value.decision.operations if value.decision else None
        if value.bucket == "StateObject" and operations:
            yield ("values", name, "decision", "operations"), value, operations
