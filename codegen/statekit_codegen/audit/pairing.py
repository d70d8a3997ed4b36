"""Pairing: which attribute of the class is which value of the schema.

Owns names: those that differ by convention only (`_cache` and `cache`), those that the user says
are one (`--rename`), those that are elsewhere on purpose (`outside`, `--ignore`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from statekit.errors import GenerateError
from statekit_codegen.fault import closest, listed
from statekit_codegen.language import Schema
from statekit_codegen.reading.facts import HandRolled
from statekit_codegen.reading.names import snake
from statekit_codegen.scaffold.holder import holders, names_of

__all__ = ["Pairing", "pair"]


@attrs.frozen
class Pairing:
    """The attributes and values of one class and one schema.

    Attributes:
        both: attribute to value.
        missing: attributes that the schema has not.
        invented: values that the class has not.
    """

    both: Mapping[str, str]
    missing: tuple[str, ...]
    invented: tuple[str, ...]


def pair(
    state: HandRolled, schema: Schema, ignored: Sequence[str], renamed: Mapping[str, str]
) -> Pairing:
    """Pair the attributes of a class with the values of a schema.

    Raises:
        GenerateError: a name to ignore or to rename is in neither.
    """
    _check_names(state, schema, ignored, renamed)
    drafted = names_of(state)
    elsewhere = {*schema.outside, *schema.constants, *schema.parameters, *ignored}
    both: dict[str, str] = {}
    missing: list[str] = []
    for name, kind in holders(state).items():
        if kind == "adapter" or name in ignored:
            continue
        attribute = state.attributes[name]
        written = drafted.get(name, name)
        candidates = [renamed.get(name, ""), name, written]
        if snake(name) not in state.attributes:  # which would be that one
            candidates.append(snake(name))
        free = [c for c in candidates if c in schema.values and c not in both.values()]
        if free:
            both[name] = free[0]
        elif not elsewhere & {name, snake(name), written, attribute.parameter or name}:
            missing.append(name)
    taken = {*both.values(), *ignored}
    invented = tuple(name for name in schema.values if name not in taken)
    return Pairing(both, tuple(missing), invented)


def _check_names(
    state: HandRolled, schema: Schema, ignored: Sequence[str], renamed: Mapping[str, str]
) -> None:
    methods = [clearing.method for clearing in state.clearings]
    both = [*state.attributes, *schema.values, *schema.resets, *methods, *state.constants]
    both += [*schema.constants, *schema.parameters, *state.parameters]
    for option, names, known in (
        ("--ignore", ignored, both),
        ("--rename", renamed, list(state.attributes)),
        ("--rename", renamed.values(), list(schema.values)),
    ):
        for name in names:
            if name not in known:
                todo = f"{closest(name, known)}known names: {listed(list(dict.fromkeys(known)))}"
                raise GenerateError(option, f"nothing is called {name}", todo)
