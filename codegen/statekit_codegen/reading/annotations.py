"""Annotations: types as source writes them, in the grammar of schemas; `?` for what it has not.

Owns the names that annotations have for a type (`List`, `np.typing.NDArray`), aliases of the same
file, and how the types of several assignments make one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from statekit_codegen.reading.facts import UNKNOWN
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["annotated", "known_text", "union", "without_none"]

Names = Callable[[ast.expr], str | None]
"""From an expression to the full name of what it names, such as `torch.Tensor`."""
Aliases = Callable[[str], ast.expr | None]
"""From a name to the expression that the module gives it, if it does."""

_PLAIN = {
    **{name: name for name in ("bool", "int", "float", "str", "bytes", "None")},
    "torch.Tensor": "torch.Tensor",
    "torch.nn.Parameter": "torch.Tensor",
    **dict.fromkeys(
        (f"torch.{kind}Tensor" for kind in ("Float", "Long", "Int", "Half", "BFloat16", "Bool")),
        "torch.Tensor",
    ),
    "torch.Generator": "torch.Generator",
    "numpy.ndarray": "np.ndarray",
    "numpy.typing.NDArray": "np.ndarray",
}
_SEQUENCES = ("list", "List", "Sequence", "MutableSequence")
_CONTAINERS = {
    **dict.fromkeys(_SEQUENCES, "list"),
    **dict.fromkeys(("dict", "Dict", "Mapping", "MutableMapping", "OrderedDict"), "dict"),
    **dict.fromkeys(("DefaultDict", "defaultdict", "WeakValueDictionary"), "dict"),
    **dict.fromkeys(("set", "Set", "MutableSet"), "set"),
    **dict.fromkeys(("deque", "Deque"), "deque"),
    **dict.fromkeys(("tuple", "Tuple"), "tuple"),
}
_MODULES = ("", "typing", "typing_extensions", "collections", "collections.abc", "weakref")
_WRAPPERS = ("Annotated", "ClassVar", "Final", "InitVar", "Required", "NotRequired")
_MAX_DEPTH = 8


def annotated(node: ast.expr, names: Names, aliases: Aliases, depth: int = 0) -> TypeExpr:
    """The type that an annotation says."""
    if depth > _MAX_DEPTH:
        return UNKNOWN
    deeper = depth + 1
    if isinstance(node, ast.Constant):
        if node.value is None:
            return TypeExpr("None")
        return _quoted(node.value, names, aliases, deeper)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return union(annotated(part, names, aliases, deeper) for part in (node.left, node.right))
    if isinstance(node, ast.Subscript):
        return _subscript(node, names, aliases, deeper)
    name = names(node)
    if name is None:
        return UNKNOWN
    if name in _PLAIN:
        return TypeExpr(_PLAIN[name])
    container = _container(name)
    if container is not None:
        return _filled(container, [])
    aliased = aliases(name)
    return UNKNOWN if aliased is None else annotated(aliased, names, aliases, deeper)


def _quoted(value: object, names: Names, aliases: Aliases, depth: int) -> TypeExpr:
    if not isinstance(value, str):
        return UNKNOWN
    try:
        inner = ast.parse(value.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return UNKNOWN
    return annotated(inner, names, aliases, depth)


def _subscript(node: ast.Subscript, names: Names, aliases: Aliases, depth: int) -> TypeExpr:
    name = names(node.value) or ""
    module, _, last = name.rpartition(".")
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name in _PLAIN:
        return TypeExpr(_PLAIN[name])
    if not parts:  # `tuple[()]`
        return UNKNOWN
    if last in _WRAPPERS or module == "jaxtyping":
        return annotated(parts[0], names, aliases, depth)
    if last == "Optional":
        return union([annotated(parts[0], names, aliases, depth), TypeExpr("None")])
    if last == "Union":
        return union(annotated(part, names, aliases, depth) for part in parts)
    if last == "Literal":
        kinds = dict.fromkeys(
            type(part.value).__name__ for part in parts if isinstance(part, ast.Constant)
        )
        return union(TypeExpr(kind.replace("NoneType", "None")) for kind in kinds)
    container = _container(name)
    if container is None:
        return UNKNOWN
    ends_open = isinstance(parts[-1], ast.Constant) and parts[-1].value is ...
    if container == "tuple" and ends_open and len(parts) == 2:
        return TypeExpr("tuple", (annotated(parts[0], names, aliases, depth),), variadic=True)
    return _filled(container, [annotated(part, names, aliases, depth) for part in parts])


def _container(name: str) -> str | None:
    module, _, last = name.rpartition(".")
    return _CONTAINERS.get(last) if module in _MODULES else None


def _filled(container: str, parts: list[TypeExpr]) -> TypeExpr:
    wanted = {"list": 1, "set": 1, "deque": 1, "dict": 2}.get(container)
    if wanted is None:
        return TypeExpr("tuple", tuple(parts)) if parts else TypeExpr("tuple", (UNKNOWN,), True)
    return TypeExpr(container, tuple((parts + [UNKNOWN] * wanted)[:wanted]))


def union(types: Iterable[TypeExpr]) -> TypeExpr:
    """One type for all of `types`: containers of a kind become one, None comes last."""
    flat: list[TypeExpr] = []
    for type_ in types:
        for part in type_.alternatives:
            same = [i for i, other in enumerate(flat) if _alike(other, part)]
            if same:
                flat[same[0]] = _merged(flat[same[0]], part)
            else:
                flat.append(part)
    none = [part for part in flat if part.head == "None"]
    known = [part for part in flat if part.head not in ("None", "?")]
    members = (known or [part for part in flat if part.head == "?"]) + none
    if not members:
        return UNKNOWN
    return members[0] if len(members) == 1 else TypeExpr("|", tuple(members))


def _alike(one: TypeExpr, other: TypeExpr) -> bool:
    shapes = [(part.head, len(part.arguments), part.variadic) for part in (one, other)]
    return shapes[0] == shapes[1]


def _merged(one: TypeExpr, other: TypeExpr) -> TypeExpr:
    pairs = zip(one.arguments, other.arguments, strict=True)
    return TypeExpr(one.head, tuple(union(pair) for pair in pairs), one.variadic)


def without_none(type_: TypeExpr) -> TypeExpr:
    """`type_` without None among its alternatives; `?` where nothing is left."""
    return union(part for part in type_.alternatives if part.head != "None")


def known_text(type_: TypeExpr) -> str:
    """`type_` in the grammar of schemas, with None in the place of what is unknown."""
    if type_.head == "?":
        return "None"
    if type_.head == "|":
        members = dict.fromkeys(known_text(part) for part in type_.arguments)
        members.pop("None", None)
        return " | ".join([*members, "None"] if type_.optional else members) or "None"
    if not type_.arguments:
        return type_.head
    parts = [known_text(part) for part in type_.arguments]
    return f"{type_.head}[{', '.join([*parts, '...'] if type_.variadic else parts)}]"
