"""Imports: the lines of a file that another one needs for some of its names: imports, plain names.

A plain name is one that the file gives an expression which runs no code of its own: a number, a
text, a type such as `KV = tuple[Tensor, Tensor]`.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Collection, Iterable

import attrs

__all__ = ["Imports"]

_PLAIN = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.expr_context),
    *(ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop),
)
_BUILTINS = frozenset(dir(builtins))


@attrs.frozen
class _Import:
    module: str
    name: str | None
    bound: str

    @property
    def line(self) -> str:
        if self.name is None:
            return f"import {self.module}" + self._alias(self.module.partition(".")[0])
        return f"from {self.module} import {self.name}{self._alias(self.name)}"

    def _alias(self, name: str) -> str:
        return "" if name == self.bound else f" as {self.bound}"


@attrs.frozen
class Imports:
    """What a file imports and what it calls by plain names; relative imports are not among them."""

    by_name: dict[str, _Import]
    plain: dict[str, ast.expr] = attrs.field(factory=dict)

    @classmethod
    def of(cls, tree: ast.Module) -> Imports:
        """The imports at the top level of a file."""
        found: dict[str, _Import] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    found[bound] = _Import(alias.name, None, bound)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    if node.module and node.module != "__future__" and alias.name != "*":
                        bound = alias.asname or alias.name
                        found[bound] = _Import(node.module, alias.name, bound)
        plain: dict[str, ast.expr] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                plain.pop(name, None)
                read = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
                known = all(n in found or n in _BUILTINS or n in plain for n in read)
                if known and all(isinstance(part, _PLAIN) for part in ast.walk(node.value)):
                    plain[name] = node.value
        return cls(found, plain)

    def has(self, name: str) -> bool:
        """Whether a name is imported, a plain one, or one of Python's own."""
        return name in self.by_name or name in _BUILTINS or name in self.plain

    def definitions(self, names: Collection[str]) -> dict[str, ast.expr]:
        """Those of `names` that are plain ones, with those that they are made of, in order."""
        wanted = set(names)
        for name in reversed(self.plain):
            if name in wanted:
                parts = ast.walk(self.plain[name])
                wanted.update(part.id for part in parts if isinstance(part, ast.Name))
        return {name: value for name, value in self.plain.items() if name in wanted}

    def groups(self, names: Collection[str]) -> list[list[str]]:
        """The lines that import `names`: the standard library's, then all others."""
        used = [self.by_name[name] for name in names if name in self.by_name]
        standard = [one for one in used if one.module.partition(".")[0] in sys.stdlib_module_names]
        others = [one for one in used if one not in standard]
        return [_lines(group) for group in (standard, others) if group]


def _lines(imports: Iterable[_Import]) -> list[str]:
    plain = sorted({one.line for one in imports if one.name is None})
    modules: dict[str, list[str]] = {}
    for one in imports:
        if one.name is not None:
            modules.setdefault(one.module, []).append(one.line.partition(" import ")[2])
    names = [
        f"from {module} import {', '.join(sorted(set(texts)))}"
        for module, texts in sorted(modules.items())
    ]
    return [*plain, *names]
