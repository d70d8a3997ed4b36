"""Names: each is one that Python takes, that generated code leaves free, and that means one thing.

Owns the form of every name in a schema, and the two namespaces: the members of the generated
class, and the numbers that expressions may name. Not here: session keys (`check_keys`).
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from statekit.expressions import FUNCTIONS
from statekit_codegen.fault import Fault
from statekit_codegen.language import Schema
from statekit_codegen.model import Path
from statekit_codegen.module_names import RESERVED_NAMES
from statekit_codegen.scalars import shown

__all__ = [
    "ADAPTER_MEMBERS",
    "CAPS",
    "CONSTANTS_OF_PYTHON",
    "MAX_NAME_CHARS",
    "NAME_FORMS",
    "PLAIN",
    "SNAKE",
    "member_names",
    "name_clashes",
    "name_forms",
    "number_clashes",
    "reserved_at",
]

ADAPTER_MEMBERS = ("SPEC", "fork", "session", "session_id", "step")
"""The public members of `statekit.adapter.StateAdapter`, which loads torch; a test compares."""

MAX_NAME_CHARS = 64
SNAKE = re.compile(r"[a-z][a-z0-9_]*")
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
CAPS = re.compile(r"[A-Z][A-Za-z0-9]*")
NAME_FORMS = {
    SNAKE: "lower-case letters, digits and _, a letter first",
    PLAIN: "letters, digits and _, a letter first",
    CAPS: "CapWords: letters and digits, a capital first",
}
CONSTANTS_OF_PYTHON = frozenset({"Ellipsis", "NotImplemented"})


def name_forms(schema: Schema) -> Iterator[Fault]:
    """Names that have not the form of their kind, or that Python or generated code keeps."""
    for path, name, form in _names(schema):
        if not form.fullmatch(name):
            yield Fault(
                path, "NAME_FORM", f"{shown(name)} is no name here", f"use {NAME_FORMS[form]}"
            )
        elif len(name) > MAX_NAME_CHARS:
            todo = f"use at most {MAX_NAME_CHARS}"
            yield Fault(path, "NAME_FORM", f"{len(name)} characters", todo)
        elif keyword.iskeyword(name) or name in CONSTANTS_OF_PYTHON:
            yield Fault(path, "NAME_RESERVED", f"{name} is a word of Python", "choose another name")
        elif name in reserved_at(path):
            found = f"{name} is a name that {_reserved_by(path)} uses itself"
            yield Fault(path, "NAME_RESERVED", found, "choose another name")


def name_clashes(schema: Schema) -> Iterator[Fault]:
    """Members of the generated class that would have one name."""
    taken = dict.fromkeys(ADAPTER_MEMBERS, "a member that every adapter has")
    for path, name, what in member_names(schema):
        if name in taken:
            found = f"{what} and {taken[name]} are both called {name}"
            yield Fault(path, "NAME_CLASH", found, "choose another name")
        else:
            taken[name] = what


def number_clashes(schema: Schema) -> Iterator[Fault]:
    """Numbers that expressions could not tell apart."""
    taken: dict[str, str] = {}
    for section in ("symbols", "constants", "parameters"):
        for name in getattr(schema, section):
            if name in taken:
                found = f"{name} is among the {taken[name]} too"
                yield Fault((section, name), "NAME_CLASH", found, "choose another name")
            taken.setdefault(name, section)


def member_names(schema: Schema) -> Iterator[tuple[Path, str, str]]:
    """Every member of the generated class: where it comes from, its name, what it is."""
    for name in schema.constants:
        yield ("constants", name), name, "the constant"
    for name in schema.parameters:
        if name not in schema.constants:  # that is a clash of numbers already
            yield ("parameters", name), name, "the parameter"
    for name, value in schema.values.items():
        path = ("values", name)
        if value.bucket == "attrs" and value.family:
            continue  # its members have the names of its keys: `check_keys`
        yield path, name, "the value"
        if value.bucket == "StateObject" and not value.family:
            yield path, f"{name}_object", f"the object of the value {name}"
    for name in schema.resets:
        yield ("resets", name), f"reset_{name}", "the reset"


def _names(schema: Schema) -> Iterator[tuple[Path, str, re.Pattern[str]]]:
    yield ("model",), schema.model, SNAKE
    yield ("class",), schema.class_, CAPS
    for section in ("symbols", "constants"):
        for name in getattr(schema, section):
            yield (section, name), name, PLAIN
    sections = ("outside", "variants", "parameters", "families", "inputs", "values", "atomic")
    for section in (*sections, "resets"):
        for name in getattr(schema, section):
            yield (section, name), name, SNAKE
    for name, family in schema.families.items():
        for label in family.members or {}:
            yield ("families", name, "members", label), label, SNAKE


def reserved_at(path: Path) -> frozenset[str]:
    """The names that are not free for what lies at `path`."""
    free = ("model", "outside", "variants", "inputs", "atomic", "resets")
    if len(path) > 2 or path[0] in free:
        return frozenset()
    if path[0] == "symbols":
        return frozenset(FUNCTIONS)
    return RESERVED_NAMES.union(FUNCTIONS).difference(ADAPTER_MEMBERS)  # those are clashes


def _reserved_by(path: Path) -> str:
    return "the grammar of expressions" if path[0] == "symbols" else "the generated module"
