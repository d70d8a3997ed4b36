"""The rules of `statekit breaking`, in two classes by who is hurt.

SOURCE: code that uses the generated class. SNAPSHOT: sessions that were saved; what a comparison
looks at there is `statekit.evolution`, which a restore looks at too.
"""

from __future__ import annotations

from statekit.evolution import SNAPSHOT_RULES
from statekit_codegen.rule import Rule

__all__ = ["BREAKING_RULES", "SNAPSHOT", "SOURCE"]


def _rule(id: str, purpose: str) -> Rule:
    return Rule(id, purpose, since="0.1.0", kind="source")


SOURCE = (
    _rule("SOURCE_MODEL_GONE", "A model keeps its schema, and its module in the output folder."),
    _rule("SOURCE_CLASS", "A generated class keeps its name."),
    _rule("SOURCE_VALUE_GONE", "A value keeps the attribute or the method that stands for it."),
    _rule("SOURCE_MEMBER_NEW", "A member that is new takes nothing from code that is there."),
    _rule("SOURCE_FORM", "An attribute stays one, and a method keeps its arguments."),
    _rule("SOURCE_FAMILY", "A family keeps the members that code names."),
    _rule("SOURCE_OBJECT", "An object keeps its name, its kind, and the way it is assigned to."),
    _rule("SOURCE_READ_TYPE", "A reader gets nothing that it did not get before."),
    _rule("SOURCE_WRITE_TYPE", "A writer may pass whatever it could pass before."),
    _rule("SOURCE_VIEW", "A buffer hands out a list, or its items joined along the same axis."),
    _rule("SOURCE_DEFAULT", "Before anything is assigned, a reader gets what it got before."),
    _rule("SOURCE_COERCE", "Assigned values are converted as before."),
    _rule("SOURCE_ON_COMMIT", "A reader gets what was stored from the same device, or as before."),
    _rule("SOURCE_INDEX", "A store takes the same keys, and has the same measure of how near."),
    _rule("SOURCE_LIFETIME", "A value is still there when the next request comes."),
    _rule("SOURCE_PARAMETER_GONE", "The class takes every argument that it took."),
    _rule("SOURCE_PARAMETER_BOUNDS", "An argument may have every number that it might have."),
    _rule("SOURCE_PARAMETER_DEFAULT", "An argument that is left out means what it meant."),
    _rule("SOURCE_CONSTANT", "A constant keeps its name and its number."),
    _rule("SOURCE_RESET_GONE", "A reset keeps its method."),
    _rule("SOURCE_RESET_CLEARS", "A reset clears and keeps what it did, of the values there were."),
)

SNAPSHOT = tuple(
    Rule(id, purpose, since="0.1.0", kind="snapshot") for id, purpose in SNAPSHOT_RULES.items()
)

BREAKING_RULES = (*SOURCE, *SNAPSHOT)
"""Every rule, callers first; `docs/rules.md` lists them in this order."""
