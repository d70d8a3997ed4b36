"""Rules about the decision of a value: it is there, it is complete, and the bucket follows it.

The operations that a decision lists are held to the rest of the value in `operation`.
"""

from __future__ import annotations

from collections.abc import Iterator

from statekit_codegen.model import Model
from statekit_codegen.rules.record import Finding, vet_rule

__all__ = [
    "attrs_on_commit",
    "bucket_attrs",
    "bucket_state_object",
    "decision_missing",
    "decision_operations",
    "decision_why",
]


@vet_rule("DECISION_MISSING", "Every value has a decision.", since="0.1.0")
def decision_missing(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        if value.decision is None:
            yield Finding(
                ("values", name, "decision"),
                "no decision",
                "add decision: {operations: [...], why: ...}",
            )


@vet_rule(
    "DECISION_OPERATIONS",
    "A decision lists the operations of the manager, if only as an empty list.",
    since="0.1.0",
)
def decision_operations(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        if value.decision is not None and value.decision.operations is None:
            yield Finding(
                ("values", name, "decision"),
                "a decision without operations",
                "list what the manager does with the value; operations: [] if it is only carried",
            )


@vet_rule("DECISION_WHY", "A decision gives its reason.", since="0.1.0")
def decision_why(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        if value.decision is not None and not (value.decision.why or "").strip():
            yield Finding(
                ("values", name, "decision", "why"),
                "a decision without a reason",
                "say in a sentence why the value lives where it lives",
            )


@vet_rule(
    "BUCKET_STATE_OBJECT",
    "The manager acts on every StateObject: its decision lists an operation.",
    since="0.1.0",
)
def bucket_state_object(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        if value.bucket == "StateObject" and value.decision and value.decision.operations == []:
            yield Finding(
                ("values", name, "bucket"),
                "a StateObject that the manager only carries (operations: [])",
                "use bucket: attrs, or list the operation that needs an object",
            )


@vet_rule(
    "BUCKET_ATTRS",
    "The manager only carries an attrs value: its decision lists no operation.",
    since="0.1.0",
)
def bucket_attrs(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        if value.bucket == "attrs" and value.decision and value.decision.operations:
            yield Finding(
                ("values", name, "decision", "operations"),
                f"an attrs value with an operation ({', '.join(value.decision.operations)})",
                "use bucket: StateObject with an object that can do it, or list no operation",
            )


@vet_rule(
    "ATTRS_ON_COMMIT",
    "An attrs value has no on_commit: it is assigned, and nothing acts on it then.",
    since="0.1.0",
)
def attrs_on_commit(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        if value.bucket == "attrs" and value.on_commit:
            yield Finding(
                ("values", name, "on_commit"),
                f"an attrs value with on_commit ({', '.join(value.on_commit)})",
                "remove it, or use bucket: StateObject",
            )
