"""Keys: the families of values, and the names that their members have in a session.

Owns key templates and the promise that no two members of a session share a key.

    K1  What passes has at most `MAX_MEMBERS` keys for each value, so they can be written out.
    K2  A numbered family comes last, and its number ends the key: a prefix finds all its members.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterator
from itertools import product

from statekit_codegen.check_names import ADAPTER_MEMBERS, SNAKE, member_names
from statekit_codegen.fault import Fault, closest
from statekit_codegen.language import Schema, Value
from statekit_codegen.model import Path
from statekit_codegen.module_names import RESERVED_NAMES
from statekit_codegen.scalars import shown

__all__ = [
    "KEY",
    "KEY_CHARACTERS",
    "MAX_KEY_CHARS",
    "MAX_MEMBERS",
    "NUMBERED",
    "TEXT",
    "attribute_names",
    "families",
    "key_clashes",
    "keys",
    "value_families",
]

NUMBERED = ("EncodeOnce", "HeldValue", "FixedState", "WindowedKV", "RetrievalStore")
"""The kinds of objects that a numbered family can have."""
MAX_MEMBERS = 256
MAX_KEY_CHARS = 128
_NUMBER = "{}"
"""Stands for any number at the end of an expanded key."""
_PLACE = re.compile(r"\{([^{}]*)\}")
KEY = re.compile(r"[A-Za-z0-9_./-]+")
TEXT = re.compile(r"[A-Za-z0-9_./-]*")
KEY_CHARACTERS = "letters, digits and _ . / -"


def families(schema: Schema) -> Iterator[Fault]:
    """Families that are not one of the two forms, or whose members cannot stand in a key."""
    for name, family in schema.families.items():
        path: Path = ("families", name)
        if (family.members is None) == (family.count is None):
            found = "neither members nor count" if family.members is None else "members and count"
            yield Fault(path, "CHOICE_ONE", found, "say exactly one of the two")
        elif family.members == {}:
            todo = "name each member, or use count"
            yield Fault((*path, "members"), "LIST_EMPTY", "a family without members", todo)
        for label, text in (family.members or {}).items():
            if not TEXT.fullmatch(text) or len(text) > MAX_KEY_CHARS:
                found = f"{shown(text)} cannot stand in a session key"
                yield Fault(
                    (*path, "members", label),
                    "KEY_TEMPLATE",
                    found,
                    f"use {KEY_CHARACTERS}, {MAX_KEY_CHARS} at most",
                )


def value_families(schema: Schema) -> Iterator[Fault]:
    """Families of values that are unknown, or that their object cannot have."""
    for name, value in schema.values.items():
        members = 1
        for index, family in enumerate(value.family):
            path: Path = ("values", name, "family", index)
            described = schema.families.get(family)
            if described is None:
                todo = f"{closest(family, schema.families)}describe it under families"
                yield Fault(path, "REFERENCE_UNKNOWN", f"unknown family {shown(family)}", todo)
                continue
            members *= len(described.members or ".")
            if described.count is None:
                continue
            if value.bucket == "attrs" or value.object not in (None, *NUMBERED):
                found = f"the numbered family {family} for what is none of {', '.join(NUMBERED)}"
                yield Fault(path, "FAMILY_FIT", found, "use a family with members")
            elif index != len(value.family) - 1:
                found = f"the numbered family {family} before another one"
                yield Fault(path, "FAMILY_FIT", found, "put it last, and only one of its kind")
        if members > MAX_MEMBERS:
            todo = f"have at most {MAX_MEMBERS} for one value"
            yield Fault(("values", name, "family"), "FAMILY_FIT", f"{members:,} members", todo)


def keys(schema: Schema) -> Iterator[Fault]:
    """Key templates that do not name each family once, and keys that are no keys."""
    for name, value in schema.values.items():
        if not schema.families.keys() >= set(value.family):
            continue
        fault = _key_fault(schema, name, value)
        if fault is not None:
            yield Fault(("values", name, "key"), "KEY_TEMPLATE", *fault)


def _key_fault(schema: Schema, name: str, value: Value) -> tuple[str, str] | None:
    """What was found wrong with the key of one value, and what to do."""
    key = value.key
    if key is None:
        if not value.family:
            return None
        example = name + "".join(f"{{{family}}}" for family in value.family)
        return "a family without a key template", f"add one, such as key: {shown(example)}"
    if len(key) > MAX_KEY_CHARS:
        return f"a key of {len(key)} characters", f"use at most {MAX_KEY_CHARS}"
    if not KEY.fullmatch(_PLACE.sub("x", key)):
        return f"the key {shown(key)}", f"use {KEY_CHARACTERS}, and {{NAME}} for each family"
    if sorted(_PLACE.findall(key)) != sorted(set(value.family)):
        wanted = "".join(f"{{{family}}}" for family in value.family)
        todo = f"put {wanted} into it" if wanted else "remove {...}: the value has no family"
        return f"{shown(key)} does not name each family of the value once", todo
    if value.family:
        numbered = schema.families[value.family[-1]].count is not None
        if numbered and not key.endswith(f"{{{value.family[-1]}}}"):
            todo = f"end it with {{{value.family[-1]}}}"
            return f"{shown(key)} does not end with the number", todo
    return None


def key_clashes(schema: Schema, usable: Collection[str]) -> Iterator[Fault]:
    """Values that would share a key of the session with another one, or with themselves.

    Looks at the values in `usable`: those whose families and key templates hold. Two carried
    values with one key are two attributes with one name: `attribute_names`.
    """
    entries = [(name, key) for name in usable for key in _expanded(schema, name)]
    holders: dict[str, str] = {}
    clashes: dict[str, tuple[str, str]] = {}
    for name, key in entries:
        if key in holders and not _both_carried(schema, name, holders[key]):
            clashes.setdefault(name, (key, holders[key]))
        holders.setdefault(key, name)
    for name, key in entries:
        # Digits at a key's end may be, or begin, the number of another value's member.
        stem = key.removesuffix(_NUMBER)
        for end in range(len(stem.rstrip("0123456789")), len(stem)):
            if stem[:end] + _NUMBER in holders:
                clashes.setdefault(name, (key, holders[stem[:end] + _NUMBER]))
    for name, (key, holder) in clashes.items():
        of = "another member of its family" if holder == name else holder
        written = key.replace(_NUMBER, "{" + "".join(schema.values[name].family[-1:]) + "}")
        found = f"{shown(written)} may be a key of {of} too"
        yield Fault(("values", name, "key"), "KEY_CLASH", found, "write another key")


def attribute_names(schema: Schema, usable: Collection[str]) -> Iterator[Fault]:
    """Carried values of families whose keys cannot be attributes of the generated class."""
    taken = {name for _, name, _ in member_names(schema)} | {*ADAPTER_MEMBERS, *RESERVED_NAMES}
    for name in usable:
        if schema.values[name].bucket != "attrs" or not schema.values[name].family:
            continue
        path = ("values", name, "key")
        for key in _expanded(schema, name):
            if not SNAKE.fullmatch(key) or keyword.iskeyword(key):
                todo = "write a template whose keys are names: they become attributes"
                yield Fault(path, "KEY_TEMPLATE", f"the key {shown(key)} is no name", todo)
                break
            if key in taken:
                found = f"{key} is the name of another member of the class"
                yield Fault(path, "NAME_CLASH", found, "write another key template")
                break
            taken.add(key)


def _both_carried(schema: Schema, one: str, other: str) -> bool:
    return {schema.values[one].bucket, schema.values[other].bucket} == {"attrs"}


def _expanded(schema: Schema, name: str) -> Iterator[str]:
    """The keys of all members of a value; the number of a numbered one stays `_NUMBER`."""
    value = schema.values[name]
    named = list(dict.fromkeys(value.family))  # one that is named twice is a fault already
    texts = [(schema.families[f].members or {f: _NUMBER}).values() for f in named]
    for chosen in product(*texts):
        key = value.key or name
        for family, text in zip(named, chosen, strict=True):
            key = key.replace(f"{{{family}}}", text)
        yield key
