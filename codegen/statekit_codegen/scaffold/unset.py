"""What a class reads of itself and no line sets: a slip of its author, or state set from elsewhere.

Owns the look at reads alone. Says nothing where a base class was not read, or where names are made
up at run time: then anything may be there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from statekit_codegen.reading.facts import HandRolled

__all__ = ["read_and_never_set"]

_DYNAMIC = ("__getattr__", "__getattribute__")


def read_and_never_set(state: HandRolled) -> dict[str, int]:
    """Names that methods read of `self` and nothing sets, with the line of the first read."""
    classes = _with_bases(state)
    if state.unread or state.blind or not classes:
        return {}
    defined = {name for node in classes for name in _names_of(node)}
    if defined & set(_DYNAMIC):
        return {}
    known = {name.removesuffix("[]") for name in state.attributes}
    known |= {*defined, *state.constants, *state.parameters}
    found: dict[str, int] = {}
    for node in classes:
        for name, line in _reads(node):
            if name not in known:
                found[name] = min(line, found.get(name, line))
    return dict(sorted(found.items(), key=lambda pair: (pair[1], pair[0])))


def _with_bases(state: HandRolled) -> list[ast.ClassDef]:
    """The class and the bases of it that are in the file."""
    nodes = () if state.tree is None else ast.walk(state.tree)
    every = [node for node in nodes if isinstance(node, ast.ClassDef)]
    chosen = [node for node in every if node.lineno == state.site.line]
    for node in chosen:
        bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
        chosen += [one for one in every if one.name in bases and one not in chosen]
    return chosen


def _names_of(node: ast.ClassDef) -> Iterator[str]:
    """What the body of a class defines."""
    for one in node.body:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield one.name
            continue
        for part in ast.walk(one):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id


def _reads(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    """Attributes of `self` that methods read where nothing asks first whether they are there."""
    for method in node.body:
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        arguments = [*method.args.posonlyargs, *method.args.args]
        decorated = {one.id for one in method.decorator_list if isinstance(one, ast.Name)}
        if not arguments or decorated & {"staticmethod", "classmethod"}:
            continue
        for part in ast.walk(method):
            if (
                isinstance(part, ast.Attribute)
                and isinstance(part.ctx, ast.Load)
                and isinstance(part.value, ast.Name)
                and part.value.id == arguments[0].arg
                and not (part.attr.startswith("__") and part.attr.endswith("__"))
            ):
                yield part.attr, part.lineno
