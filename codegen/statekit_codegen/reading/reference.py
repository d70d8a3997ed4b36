"""Reference: which attribute of the state an expression is, or is a part of."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from statekit_codegen.reading.lineage import Lineage
from statekit_codegen.reading.module import SESSION_KEY, ModuleNames, dotted

__all__ = ["SELF", "Reference", "reference"]

_SAME = ("data", "T", "mT")
_PARTS = ("get", "setdefault", "values", "items", "__getitem__")


@attrs.frozen
class Reference:
    """An attribute by name, and how deep inside it an expression reaches; no name: the state."""

    name: str
    depth: int = 0


SELF = Reference("")


class Where(Protocol):
    """What names mean where an expression stands."""

    @property
    def module(self) -> ModuleNames:
        """The file."""

    @property
    def lineage(self) -> Lineage:
        """The class."""

    @property
    def references(self) -> Mapping[str, Reference]:
        """Names that are the state, or a part of it."""

    @property
    def constants(self) -> Mapping[str, Any]:
        """What the names of a loop over texts stand for by now."""


def reference(node: ast.expr, where: Where) -> Reference | None:
    """What `node` refers to, None where it is no part of the state."""
    # `a.b[c].d` is walked from the outside in, so that no depth of nesting is a recursion.
    path: list[ast.expr] = []
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        path.append(node)
        if isinstance(node, ast.Call):
            named = _by_text(node, where) or _looked_up(node, where)
            if named is not None:
                return _deeper(named, path[:-1], where)
            if not isinstance(node.func, ast.Attribute) or node.func.attr not in _PARTS:
                return None
            path[-1] = node.func
            node = node.func.value
        else:
            node = node.value
    if not isinstance(node, ast.Name):
        return None
    found = where.references.get(node.id)
    if found is None:
        return _in_table(node.id, path, where)
    return _deeper(found, path, where)


def _deeper(found: Reference, path: list[ast.expr], where: Where) -> Reference | None:
    """`found` followed along `path`, whose last step is the innermost."""
    for step in reversed(path):
        if found.name:
            same = isinstance(step, ast.Attribute) and step.attr in _SAME
            found = found if same else attrs.evolve(found, depth=found.depth + 1)
        elif isinstance(step, ast.Attribute):
            if step.attr == "__dict__":
                continue
            if step.attr.endswith("__") or where.lineage.is_method(step.attr):
                return None
            if where.lineage.is_constant(step.attr):
                return None
            found = Reference(step.attr)
        elif isinstance(step, ast.Subscript):
            text = text_of(step.slice, where)
            if text is None:
                return None
            found = Reference(text)
    return found


def _by_text(node: ast.Call, where: Where) -> Reference | None:
    """`getattr(self, "x")`, with the name written out."""
    if not isinstance(node.func, ast.Name) or node.func.id != "getattr" or len(node.args) < 2:
        return None
    if reference(node.args[0], where) != SELF:
        return None
    text = text_of(node.args[1], where)
    known = text is not None and not where.lineage.is_method(text)
    return Reference(text) if known and text is not None else None


def _looked_up(node: ast.Call, where: Where) -> Reference | None:
    """`CACHES.get(session_id)` and `CACHES.setdefault(session_id, ...)`."""
    function = node.func
    if not isinstance(function, ast.Attribute) or function.attr not in ("get", "setdefault"):
        return None
    base = function.value
    if not isinstance(base, ast.Name) or base.id not in where.module.tables:
        return None
    found = bool(node.args) and is_session_key(node.args[0])
    return Reference(f"{base.id}[]") if found else None


def text_of(node: ast.expr, where: Where) -> str | None:
    """The text that an expression is, in a loop over texts too."""
    if isinstance(node, ast.Name):
        known = where.constants.get(node.id)
        return known if isinstance(known, str) else None
    literal = node.value if isinstance(node, ast.Constant) else None
    return literal if isinstance(literal, str) else None


def _in_table(name: str, path: list[ast.expr], where: Where) -> Reference | None:
    """`CACHES[session_id]`: the session's own entry of a table of the module."""
    if name not in where.module.tables or not path:
        return None
    step = path[-1]
    key: ast.expr | None = None
    if isinstance(step, ast.Subscript):
        key = step.slice
    elif isinstance(step, ast.Attribute):  # `.get(session_id)`: the call has been stripped
        return None
    if key is None or not is_session_key(key):
        return None
    found = Reference(f"{name}[]")
    return _deeper(found, path[:-1], where)


def is_session_key(key: ast.expr) -> bool:
    """Whether a table is looked up by what is called a session."""
    name = dotted(key)
    if name is None and isinstance(key, ast.BoolOp):
        return any(is_session_key(part) for part in key.values)
    return name is not None and SESSION_KEY.search(name.rpartition(".")[2]) is not None
