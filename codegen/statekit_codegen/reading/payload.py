"""Payload: what an expression of a method gives, read from its form alone.

Owns the idioms: factories and their dtype, shape and device, methods of tensors, concatenation to
what an attribute holds, slices that keep the newest. Nothing is evaluated but literals.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from statekit_codegen.reading.annotations import annotated, union
from statekit_codegen.reading.facts import NOTHING, UNKNOWN, Bound, Held
from statekit_codegen.reading.module import ModuleNames
from statekit_codegen.reading.tensors import (
    ARRAY_FACTORIES,
    JOINS,
    LIKE,
    TENSOR,
    TENSOR_FACTORIES,
    factory,
    tensor_method,
)
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["Scope", "held", "literal_of", "source_of"]

_NONE = TypeExpr("None")
_MAX_SOURCE = 60
_CASTS = ("int", "float", "bool", "str", "bytes")
_EMPTY = ("list", "dict", "set", "collections.deque")
_MAPPINGS = ("collections.OrderedDict", "collections.defaultdict", "collections.Counter")


class Scope(Protocol):
    """What the names of a function mean where an expression stands."""

    @property
    def module(self) -> ModuleNames:
        """The file."""

    @property
    def parameters(self) -> Mapping[str, ast.arg]:
        """The arguments of the function that nothing has replaced yet."""

    @property
    def locals(self) -> Mapping[str, Held]:
        """What local names hold by now."""

    def attribute(self, node: ast.expr) -> str | None:
        """The attribute of the state that an expression is, if it is one."""

    def element(self, node: ast.expr) -> str | None:
        """The attribute that an expression is a part of, if it is."""

    def type_of(self, name: str) -> TypeExpr:
        """The type of an attribute, as far as it is known by now."""

    def bound(self, node: ast.expr, axis: int | None) -> Bound:
        """The bound that an expression says."""


def held(node: ast.expr, scope: Scope) -> Held:
    """What `node` gives."""
    found = _held(node, scope)
    return attrs.evolve(found, source=source_of(node))


def source_of(node: ast.AST) -> str:
    """The source of a node on one line, cut where it is long."""
    try:
        text = " ".join(ast.unparse(node).split())
    except RecursionError:
        return "..."
    return text if len(text) <= _MAX_SOURCE else f"{text[: _MAX_SOURCE - 3]}..."


def literal_of(node: ast.expr | None) -> Any:
    """The plain value that a node is, `NOTHING` where it is none."""
    if isinstance(node, ast.Constant) and isinstance(
        node.value, (bool, int, float, str, type(None))
    ):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal_of(node.operand)
        return -inner if type(inner) in (int, float) else NOTHING
    if isinstance(node, (ast.List, ast.Tuple)) and not node.elts:
        return []
    if isinstance(node, ast.Dict) and not node.keys:
        return {}
    return NOTHING


def _held(node: ast.expr, scope: Scope) -> Held:
    literal = literal_of(node)
    if literal is not NOTHING:
        return Held("", _literal_type(node, literal), literal)
    if isinstance(node, ast.Constant):
        kind = type(node.value).__name__
        return Held("", TypeExpr(kind) if kind == "bytes" else UNKNOWN)
    name = scope.attribute(node)
    if name is not None:
        return Held("", scope.type_of(name), of=name)
    if isinstance(node, ast.Name):
        return _named(node, scope)
    if isinstance(node, ast.NamedExpr):
        return _held(node.value, scope)
    if isinstance(node, ast.IfExp):
        return _either(_held(node.body, scope), _held(node.orelse, scope))
    if isinstance(node, ast.BoolOp):
        parts = [_held(part, scope) for part in node.values]
        return Held("", union(part.type for part in parts))
    if isinstance(node, (ast.List, ast.Set, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp)):
        return _display(node, scope)
    if isinstance(node, ast.Call):
        return _call(node, scope)
    if isinstance(node, ast.Subscript):
        return _subscript(node, scope)
    if isinstance(node, ast.BinOp):
        return _operation(node, scope)
    if isinstance(node, ast.Compare) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    ):
        return Held("", TypeExpr("bool"))
    if isinstance(node, ast.UnaryOp):
        return Held("", _held(node.operand, scope).type)
    if isinstance(node, ast.JoinedStr):
        return Held("", TypeExpr("str"))
    return Held("")


def _literal_type(node: ast.expr, literal: object) -> TypeExpr:
    if isinstance(node, ast.Tuple):
        return TypeExpr("tuple", (UNKNOWN,), True)
    if isinstance(literal, (list, dict)):
        kind = type(literal).__name__
        return TypeExpr(kind, (UNKNOWN,) * (2 if kind == "dict" else 1))
    return _NONE if literal is None else TypeExpr(type(literal).__name__)


def _named(node: ast.Name, scope: Scope) -> Held:
    if node.id in scope.locals:
        return scope.locals[node.id]
    argument = scope.parameters.get(node.id)
    if argument is not None:
        type_ = UNKNOWN
        if argument.annotation is not None:
            type_ = annotated(argument.annotation, scope.module.full_name, scope.module.alias)
        return Held("", type_, parameter=node.id)
    number = scope.module.number(node.id)
    if number is not None:
        return Held("", TypeExpr("int"), number)
    return Held("")


def _either(one: Held, other: Held) -> Held:
    """What is one or the other: of the same attribute where one of them is."""
    made = one if one.joined is not None or one.of is not None else other
    type_ = union([one.type, other.type])
    return attrs.evolve(made, type=type_, default=NOTHING, parameter=None)


def _display(node: ast.expr, scope: Scope) -> Held:
    if isinstance(node, ast.ListComp):
        inner = _held(node.elt, scope)
        return attrs.evolve(inner, type=TypeExpr("list", (inner.type,)), default=NOTHING, of=None)
    if isinstance(node, ast.DictComp):
        parts = (_held(node.key, scope).type, _held(node.value, scope).type)
        return Held("", TypeExpr("dict", parts))
    if isinstance(node, ast.Dict):
        keys = union(_held(key, scope).type for key in node.keys if key is not None)
        return Held("", TypeExpr("dict", (keys, union(_held(v, scope).type for v in node.values))))
    assert isinstance(node, (ast.List, ast.Set, ast.Tuple))
    if isinstance(node, ast.Tuple):
        return Held("", TypeExpr("tuple", tuple(_held(part, scope).type for part in node.elts)))
    kind = "set" if isinstance(node, ast.Set) else "list"
    spread = [part.value for part in node.elts if isinstance(part, ast.Starred)]
    added = [_held(part, scope) for part in node.elts if not isinstance(part, ast.Starred)]
    item = union(part.type for part in added)
    names = [scope.attribute(part) for part in spread]
    if len(spread) == 1 and names[0] is not None and added:
        return attrs.evolve(
            added[0], type=TypeExpr(kind, (item,)), of=names[0], appended=item, default=NOTHING
        )
    return Held("", TypeExpr(kind, (UNKNOWN if spread else item,)))


def _call(node: ast.Call, scope: Scope) -> Held:
    name = scope.module.full_name(node.func)
    if name in _EMPTY or name in _MAPPINGS:
        return _container(node, name or "", scope)
    if name in _CASTS:
        return Held("", TypeExpr(name or ""))
    if name == "len":
        return Held("", TypeExpr("int"))
    if name in ("copy.copy", "copy.deepcopy") and node.args:
        return attrs.evolve(_held(node.args[0], scope), default=NOTHING)
    if name == "torch.Generator":
        return Held("", TypeExpr("torch.Generator"), device="cpu" if not node.args else None)
    if name in JOINS:
        return _join(node, name or "", scope)
    if name in LIKE and node.args:
        return attrs.evolve(_held(node.args[0], scope), type=TENSOR, default=NOTHING, of=None)
    if name in TENSOR_FACTORIES or name in ARRAY_FACTORIES:
        return factory(node, name or "", scope.module)
    if isinstance(node.func, ast.Attribute):
        return tensor_method(node, node.func.attr, _held(node.func.value, scope), scope.module)
    return Held("")


def _container(node: ast.Call, name: str, scope: Scope) -> Held:
    kind = "dict" if name in _MAPPINGS else name.rpartition(".")[2]
    arguments = {keyword.arg: keyword.value for keyword in node.keywords}
    type_ = TypeExpr(kind, (UNKNOWN,) * (2 if kind == "dict" else 1))
    if name == "collections.defaultdict":
        value = _held(ast.Call(node.args[0], [], []), scope).type if node.args else UNKNOWN
        return Held("", TypeExpr("dict", (UNKNOWN, value)), {})
    bound = None
    if kind == "deque":
        size = node.args[1] if len(node.args) > 1 else arguments.get("maxlen")
        if size is not None and literal_of(size) is not None:
            bound = scope.bound(size, None)
    of = None
    if node.args and not (literal_of(node.args[0]) in ([], {}, "") and kind == "deque"):
        inner = _held(node.args[0], scope)
        of = inner.of
        if inner.type.arguments and kind != "dict":
            type_ = TypeExpr(kind, (union(inner.type.arguments),))
        return Held("", type_, bound=bound or inner.bound, of=of)
    return Held("", type_, {} if kind == "dict" else [], bound=bound)


def _join(node: ast.Call, name: str, scope: Scope) -> Held:
    """`torch.cat([self.x, new], dim=2)`, and the like of numpy."""
    axis: int | None = 0
    for place in [*node.args[1:2], *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]:
        literal = literal_of(place)
        axis = literal if type(literal) is int else None
    type_ = TENSOR if name.startswith("torch.") else TypeExpr("np.ndarray")
    parts = (
        node.args[0].elts if node.args and isinstance(node.args[0], (ast.List, ast.Tuple)) else []
    )
    of = [part.of for part in (_held(part, scope) for part in parts) if part.of is not None]
    made = [_held(part, scope) for part in parts]
    bound = next((part.bound for part in made if part.bound is not None and part.of), None)
    device = "cpu" if type_.head == "np.ndarray" else None
    if name.endswith("stack"):
        return Held("", type_, device=device)
    return Held(
        "", type_, of=of[0] if of else None, joined=axis if of else None, bound=bound, device=device
    )


def _operation(node: ast.BinOp, scope: Scope) -> Held:
    left, right = _held(node.left, scope), _held(node.right, scope)
    if isinstance(node.op, ast.Add) and left.type.head == right.type.head == "list":
        item = union([*left.type.arguments, *right.type.arguments])
        appended = union(right.type.arguments) if left.of is not None else None
        return Held("", TypeExpr("list", (item,)), of=left.of, appended=appended, bound=left.bound)
    if isinstance(node.op, ast.Add) and left.of is not None and right.type.head == "list":
        return Held("", right.type, of=left.of, appended=union(right.type.arguments))
    if isinstance(node.op, ast.Mult) and left.type.head == "list":
        return Held("", left.type)
    heads = {left.type.head, right.type.head}
    for head in ("torch.Tensor", "np.ndarray", "str"):
        if head in heads:
            return Held("", TypeExpr(head), dtype=left.dtype or right.dtype)
    if heads <= {"int", "bool"}:
        return Held("", TypeExpr("float" if isinstance(node.op, ast.Div) else "int"))
    if heads <= {"int", "bool", "float"}:
        return Held("", TypeExpr("float"))
    return Held("")


def _subscript(node: ast.Subscript, scope: Scope) -> Held:
    base = _held(node.value, scope)
    cut, axis = _newest(node.slice)
    if cut is not None:
        of_list = axis == 0 and base.type.head in ("list", "deque")
        bound = scope.bound(cut, None if of_list else axis)
        return attrs.evolve(base, default=NOTHING, bound=bound)
    if base.type.head in ("torch.Tensor", "np.ndarray"):
        return attrs.evolve(base, default=NOTHING, shape=None, of=None)
    if isinstance(node.slice, ast.Slice):
        return attrs.evolve(base, default=NOTHING)
    arguments = base.type.arguments
    if base.type.head in ("list", "deque") and arguments:
        return Held("", arguments[0])
    if base.type.head == "dict" and arguments:
        return Held("", arguments[-1])
    return Held("")


def _newest(index: ast.expr) -> tuple[ast.expr | None, int]:
    """`N` and the axis of `[-N:]` or `[:, :, -N:]`; None of any other index."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    for axis, part in enumerate(parts):
        if not isinstance(part, ast.Slice) or part.step is not None:
            if isinstance(part, ast.Constant) and part.value is ...:
                return None, 0
            continue
        lower = part.lower
        if part.upper is None and isinstance(lower, ast.UnaryOp) and isinstance(lower.op, ast.USub):
            return lower.operand, axis
    return None, 0
