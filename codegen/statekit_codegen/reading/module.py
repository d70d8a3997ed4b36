"""ModuleNames: what the names of a file mean, and what its comments say beside them.

Owns imports, numbers, aliases of types, functions, classes and tables of the module, as far as
they are written at its top level. Knows nothing of state classes.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from statekit_codegen.reading.source import Source, classes_in

__all__ = ["SESSION_KEY", "ModuleNames", "dotted"]

Function = ast.FunctionDef | ast.AsyncFunctionDef

SESSION_KEY = re.compile(r"session|(^|_)sid$|request_id|rollout_id|stream_id|client_id", re.I)
"""Names of what a table of sessions is looked up by."""
_DICTS = frozenset(
    {"dict", "collections.OrderedDict", "collections.defaultdict", "weakref.WeakValueDictionary"}
)
_BUILTINS = frozenset(dir(builtins))


@attrs.frozen
class ModuleNames:
    """The top level of one file.

    Attributes:
        imports: a name to the full name that it stands for.
        assigned: a name to the last expression that it is assigned at the top level.
        annotations: a name to its annotation at the top level.
        tables: the dicts of the module, with the line of each.
        comments: what a comment says, by line; one of its own stands for the line after it.
    """

    source: Source
    imports: Mapping[str, str]
    assigned: Mapping[str, ast.expr]
    annotations: Mapping[str, ast.expr]
    functions: Mapping[str, Function]
    classes: Mapping[str, ast.ClassDef]
    tables: Mapping[str, int]
    comments: Mapping[int, str]

    @classmethod
    def of(cls, source: Source) -> ModuleNames:
        """The names of a parsed file."""
        imports: dict[str, str] = {}
        assigned: dict[str, ast.expr] = {}
        annotations: dict[str, ast.expr] = {}
        functions: dict[str, Function] = {}
        lines: dict[str, int] = {}
        for node in _top_level(source.tree.body):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    imports[name] = alias.name if alias.asname else name
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    module = "." * node.level + (node.module or "")
                    imports[alias.asname or alias.name] = f"{module}.{alias.name}"
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                functions[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        assigned[target.id] = node.value
                        lines[target.id] = node.lineno
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                annotations[node.target.id] = node.annotation
                if node.value is not None:
                    assigned[node.target.id] = node.value
                    lines[node.target.id] = node.lineno
            elif type(node).__name__ == "TypeAlias":  # Python 3.12
                alias_of: Any = node
                assigned[alias_of.name.id] = alias_of.value
        names = cls(
            source=source,
            imports=imports,
            assigned=assigned,
            annotations=annotations,
            functions=functions,
            classes=dict(classes_in(source.tree)),
            tables={},
            comments=_comments(source.text),
        )
        tables = {name: lines[name] for name, value in assigned.items() if names._is_dict(value)}
        return attrs.evolve(names, tables=tables)

    def full_name(self, node: ast.expr) -> str | None:
        """The full name of what a name with dots stands for, such as `torch.zeros`."""
        name = dotted(node)
        if name is None:
            return None
        head, dot, rest = name.partition(".")
        return self.imports.get(head, head) + dot + rest

    def alias(self, name: str) -> ast.expr | None:
        """The expression behind a name that the module assigns and that may be a type."""
        return None if name in _BUILTINS else self.assigned.get(name)

    def number(self, name: str) -> int | None:
        """The whole number that a name of the module is, if it is one."""
        value = self.assigned.get(name)
        if isinstance(value, ast.Constant) and type(value.value) is int:
            return value.value
        return None

    def comment(self, line: int) -> str:
        """What the comment on a line, or the one right above it, says."""
        return self.comments.get(line, "")

    def _is_dict(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Dict):
            return not value.keys
        return isinstance(value, ast.Call) and self.full_name(value.func) in _DICTS


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` of a name with dots; None of anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under `if` and `try` too."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try)):
            inner = [*node.body, *node.orelse]
            for handler in getattr(node, "handlers", ()):
                inner += handler.body
            yield from _top_level(inner)


def _comments(text: str) -> dict[int, str]:
    """Comments by the line that they are about."""
    found: dict[int, str] = {}
    above: dict[int, str] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.COMMENT:
                continue
            words = token.string.lstrip("#:! ").strip()
            if re.match(r"(type:|noqa|pragma|fmt:|pylint|ruff|mypy|TODO|FIXME|-{2,}|={2,})", words):
                continue
            line = token.start[0]
            if token.line[: token.start[1]].strip():
                found[line] = words
            else:
                above[line] = f"{above.pop(line - 1, '')} {words}".strip()
    except (tokenize.TokenError, SyntaxError):
        pass  # what was parsed can be told; comments are a nicety
    for line, words in above.items():
        found.setdefault(line + 1, words)
    return found
