"""VetRule: a rule with the function that looks for what breaks it.

Owns the record and how it is made. Not here: the rules themselves (one module for each subject),
and their order and run (`statekit_codegen.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from statekit_codegen.model import Model, Path
from statekit_codegen.rule import Rule

__all__ = ["Find", "Finding", "VetRule", "vet_rule"]


@attrs.frozen
class Finding:
    """One thing that breaks a rule: where, what was found, what to do."""

    path: Path
    found: str
    todo: str


Find = Callable[[Model], Iterator[Finding]]


@attrs.frozen
class VetRule(Rule):
    """A rule of `statekit vet`.

    Attributes:
        find: what breaks the rule in a model that loads and checks; never raises.
    """

    find: Find


def vet_rule(id: str, purpose: str, *, since: str) -> Callable[[Find], VetRule]:
    """Make the decorated function the rule called `id`."""
    return lambda find: VetRule(id=id, purpose=purpose, since=since, kind="vet", find=find)
