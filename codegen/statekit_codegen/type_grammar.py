"""TypeExpr: the Python types that a schema may name, as a closed grammar over `ast`.

Owns parsing, the canonical text, and the annotation that stands for a type in generated code. No
text of a schema reaches generated code: `render` writes the parsed tree anew.

Grammar: `None bool int float str bytes`, `torch.Tensor`, `torch.Generator`, `np.ndarray`,
`list[T]`, `set[T]`, `deque[T]`, `dict[K, V]`, `tuple[A, B]`, `tuple[T, ...]`, `A | B`, and
`Optional[T]` for `T | None`.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import attrs

from statekit.errors import StatekitError
from statekit_codegen.fault import closest
from statekit_codegen.scalars import shown

__all__ = ["CONTAINERS", "MAX_TYPE_CHARS", "TYPE_NAMES", "TypeExpr", "TypeExprError"]

MAX_TYPE_CHARS = 200
_MAX_DEPTH = 8

TYPE_NAMES = (
    "None", "bool", "bytes", "float", "int", "str",
    "np.ndarray", "torch.Generator", "torch.Tensor",
)  # fmt: skip
CONTAINERS = {"deque": 1, "dict": 2, "list": 1, "set": 1, "tuple": None}
"""The containers, and how many arguments they take; a tuple takes any number."""

_INSTEAD = {
    "Dict": "dict", "List": "list", "Set": "set", "Tuple": "tuple", "Deque": "deque",
    "collections.deque": "deque", "typing.Optional": "Optional", "none": "None",
    "string": "str", "integer": "int", "boolean": "bool", "double": "float",
    "Tensor": "torch.Tensor", "tensor": "torch.Tensor", "Generator": "torch.Generator",
    "ndarray": "np.ndarray", "array": "np.ndarray", "numpy.ndarray": "np.ndarray",
    "np.array": "np.ndarray",
}  # fmt: skip
_CHARACTERS = re.compile(r"[A-Za-z0-9_.,|\[\] ]*")
_NUMBER = re.compile(r"(?<!\w)[0-9]")
_GRAMMAR = (
    f"use {', '.join(TYPE_NAMES)}, {', '.join(f'{name}[...]' for name in CONTAINERS)}, "
    "and | between alternatives"
)
_NUMPY_NAMES = {"bool": "bool_"}


class TypeExprError(StatekitError, ValueError):
    """A text is not in the grammar of types."""

    def __init__(self, text: str, found: str, todo: str) -> None:
        super().__init__(text, found, todo)
        self.text, self.found, self.todo = text, found, todo

    def __str__(self) -> str:
        return f"type {shown(self.text)}: {self.found}; {self.todo}"


@attrs.frozen
class TypeExpr:
    """A parsed type. Build with `TypeExpr.parse`.

    Attributes:
        head: a name, a container, or `|` for alternatives.
        arguments: of a container, or the alternatives.
        variadic: whether this is `tuple[T, ...]`.
    """

    head: str
    arguments: tuple[TypeExpr, ...] = ()
    variadic: bool = False

    @classmethod
    def parse(cls, text: str) -> TypeExpr:
        """The type that `text` names.

        Raises:
            TypeExprError: `text` is outside the grammar, too long or too deep.
        """
        if len(text) > MAX_TYPE_CHARS:
            todo = f"use at most {MAX_TYPE_CHARS}"
            raise TypeExprError(text, f"{len(text)} characters", todo)
        # With these characters alone, `ast.parse` has nothing to warn of and little to refuse.
        if not _CHARACTERS.fullmatch(text) or _NUMBER.search(text):
            raise TypeExprError(text, "not a type", _GRAMMAR)
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise TypeExprError(text, "not a type", _GRAMMAR) from None
        return _Parser(text).parse(tree, 0)

    @property
    def text(self) -> str:
        """The type as a schema would best say it, such as `torch.Tensor | None`."""
        return self._written(lambda leaf: leaf.head)

    @property
    def alternatives(self) -> tuple[TypeExpr, ...]:
        """What `|` joins; of any other type, the type itself."""
        return self.arguments if self.head == "|" else (self,)

    @property
    def optional(self) -> bool:
        """Whether None is a value of the type."""
        return any(alternative.head == "None" for alternative in self.alternatives)

    @property
    def holds_memory(self) -> bool:
        """Whether values hold memory whose size a schema should say: tensors, arrays, bytes."""
        return self.mentions("torch.Tensor", "np.ndarray", "bytes")

    def mentions(self, *heads: str) -> bool:
        """Whether one of `heads` occurs in the type, at any depth."""
        return self.head in heads or any(part.mentions(*heads) for part in self.arguments)

    def accepts(self, default: object) -> bool:
        """Whether `default`, as a schema writes it, is a value of the type."""
        heads = {alternative.head for alternative in self.alternatives}
        if default is None:
            return "None" in heads
        if default == [] or default == {}:
            return type(default).__name__ in heads
        return type(default).__name__ in heads and isinstance(default, (bool, int, float, str))

    def render(self, dtype: str | None = None) -> str:
        """The annotation in generated code; `dtype` is that of arrays, where it is known."""
        array = f"npt.NDArray[{'Any' if dtype is None else f'np.{_NUMPY_NAMES.get(dtype, dtype)}'}]"
        return self._written(lambda leaf: array if leaf.head == "np.ndarray" else leaf.head)

    def _written(self, leaf: Any) -> str:
        parts = [part._written(leaf) for part in self.arguments]
        if self.head == "|":
            return " | ".join(parts)
        if not parts:
            return str(leaf(self))
        if self.variadic:
            parts.append("...")
        return f"{self.head}[{', '.join(parts)}]"


class _Parser:
    """Turns the syntax tree of one text into a TypeExpr, or says what it should be instead."""

    def __init__(self, text: str) -> None:
        self.text = text

    def parse(self, node: ast.expr, depth: int) -> TypeExpr:
        if depth > _MAX_DEPTH:
            raise self._error(f"nesting deeper than {_MAX_DEPTH}", "name a simpler type")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return _join([self.parse(part, depth + 1) for part in _alternatives(node)])
        if isinstance(node, ast.Subscript):
            return self._container(node, depth)
        name = _dotted(node)
        if name in TYPE_NAMES:
            return TypeExpr(name)
        if name in CONTAINERS:
            raise self._error(f"{name} without what it holds", f"write {name}[...]")
        if name is None:
            raise self._error(f"{self._source(node)} is no type", _GRAMMAR)
        raise self._unknown(name)

    def _container(self, node: ast.Subscript, depth: int) -> TypeExpr:
        name = _dotted(node.value)
        inner = node.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if name == "Optional" and len(parts) == 1:
            return _join([self.parse(parts[0], depth + 1), TypeExpr("None")])
        if name == "Union":
            raise self._error("Union", "write A | B")
        if name in TYPE_NAMES:
            todo = "say what arrays and tensors hold with dtype and shape"
            raise self._error(f"{name} takes no [...]", f"write {name}; {todo}")
        if name not in CONTAINERS:
            raise self._unknown(name or self._source(node.value))
        variadic = name == "tuple" and len(parts) == 2 and _is_ellipsis(parts[1])
        if variadic:
            parts = parts[:1]
        arguments = tuple(self.parse(part, depth + 1) for part in parts)
        wanted = CONTAINERS[name]
        if not arguments or (wanted is not None and len(arguments) != wanted):
            todo = f"give it {wanted or 'at least one'}"
            raise self._error(f"{name} with {len(arguments)} types", todo)
        return TypeExpr(name, arguments, variadic)

    def _unknown(self, name: str) -> TypeExprError:
        instead = _INSTEAD.get(name)
        todo = (
            f"write {instead}" if instead else closest(name, (*TYPE_NAMES, *CONTAINERS)) + _GRAMMAR
        )
        return self._error(f"unknown type {shown(name)}", todo)

    def _source(self, node: ast.expr) -> str:
        return shown(ast.get_source_segment(self.text.strip(), node) or self.text)

    def _error(self, found: str, todo: str) -> TypeExprError:
        return TypeExprError(self.text, found, todo)


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """The operands of a chain of `|`, from left to right."""
    operands: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        operands.append(node.right)
        node = node.left
    return [node, *reversed(operands)]


def _join(parts: list[TypeExpr]) -> TypeExpr:
    """The alternatives `parts` as one type: flat, each once, None last."""
    flat = dict.fromkeys(alternative for part in parts for alternative in part.alternatives)
    members = [member for member in flat if member.head != "None"]
    members += [member for member in flat if member.head == "None"]
    return members[0] if len(members) == 1 else TypeExpr("|", tuple(members))


def _dotted(node: ast.expr) -> str | None:
    """`torch.Tensor` of a name with dots; None of anything else."""
    if isinstance(node, ast.Constant) and node.value is None:
        return "None"
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
