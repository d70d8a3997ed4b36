"""Rules about what is cleared and kept together: resets and atomic groups."""

from __future__ import annotations

from collections.abc import Iterator

from statekit_codegen.model import Model, Path
from statekit_codegen.rules.record import Finding, vet_rule

__all__ = ["atomic_members", "atomic_release", "atomic_torn", "reset_empty", "value_never_cleared"]


@vet_rule(
    "VALUE_NEVER_CLEARED",
    "Every value is cleared by some reset, or lives for a request only.",
    since="0.1.0",
)
def value_never_cleared(model: Model) -> Iterator[Finding]:
    if not model.spec.resets:
        yield Finding(
            ("resets",),
            "no reset, so no value is ever cleared",
            "add resets: {session: {clears: all}}",
        )
        return
    for value in model.spec:
        if value.lifetime == "session" and not model.spec.cleared_by(value.name):
            yield Finding(
                ("values", value.name),
                "no reset clears this value",
                "let a reset clear it, such as session: {clears: all}",
            )


@vet_rule("RESET_EMPTY", "Every reset clears something.", since="0.1.0")
def reset_empty(model: Model) -> Iterator[Finding]:
    for name, cleared in model.spec.resets.items():
        if not cleared:
            yield Finding(
                _reset_path(model, name),
                "a reset that clears nothing",
                "name what it clears, or remove it",
            )


@vet_rule(
    "ATOMIC_TORN",
    "A reset clears all values of an atomic group or none of them.",
    since="0.1.0",
)
def atomic_torn(model: Model) -> Iterator[Finding]:
    for name, cleared in model.spec.resets.items():
        for group, members in model.spec.atomic.items():
            kept = [member for member in members if member not in cleared]
            if kept and len(kept) < len(members):
                gone = [member for member in members if member in cleared]
                yield Finding(
                    _reset_path(model, name),
                    f"atomic group {group} torn apart: {', '.join(gone)} cleared, "
                    f"{', '.join(kept)} kept",
                    "clear the whole group or none of it",
                )


@vet_rule("ATOMIC_MEMBERS", "An atomic group has at least two members.", since="0.1.0")
def atomic_members(model: Model) -> Iterator[Finding]:
    for group, members in model.spec.atomic.items():
        if len(set(members)) < 2:
            yield Finding(
                ("atomic", group),
                f"a group of {len(set(members))}",
                "name the values that belong together, or remove the group",
            )


@vet_rule(
    "ATOMIC_RELEASE",
    "The manager may release all values of an atomic group or none of them.",
    since="0.1.0",
)
def atomic_release(model: Model) -> Iterator[Finding]:
    for group, members in model.spec.atomic.items():
        may = [name for name in members if "release" in model.spec[name].operations]
        held = [name for name in members if name not in may]
        if may and held:
            yield Finding(
                ("atomic", group),
                f"{', '.join(may)} may be released, {', '.join(held)} may not",
                "list release for all of them or for none",
            )


def _reset_path(model: Model, name: str) -> Path:
    return ("resets", name, "keeps" if model.schema.resets[name].keeps is not None else "clears")
