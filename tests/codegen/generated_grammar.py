"""The grammar of generated modules, written down a second time: which syntax they may consist of.

The generator's own code is not asked. `check_module` walks the whole tree of a module and fails at
the first node that is none of the shapes below, so a text of a schema that became code is found
whatever it does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

__all__ = ["UnknownSyntaxError", "check_module"]

_IMPORTS = {
    "__future__": {"annotations"},
    "collections": {"deque"},
    "collections.abc": {"Iterable"},
    "typing": {"Any", "ClassVar", "Literal"},
    "statekit.adapter": {"StateAdapter"},
    "statekit.attr": {"SessionAttr"},
    "statekit.family": {"ObjectFamily"},
    "statekit.manager": {"SessionStateManager"},
    "statekit.objects": {
        *("Cast", "EncodeOnce", "FixedState", "HeldValue", "LatentBuffer", "RetrievalStore"),
        "WindowedKV",
    },
    "statekit.on_commit": {"OnCommit"},
    "statekit.spec": {
        *("Codec", "Family", "Growth", "Index", "Measured", "ModelSpec", "Parameter", "Park"),
        *("Pending", "Rebuild", "Ring", "Sharding", "Size", "Tolerance", "ValueSpec"),
    },
}
_MODULES = {("numpy", "np"), ("numpy.typing", "npt"), ("torch", None)}
_KINDS = _IMPORTS["statekit.objects"] - {"Cast"}
_PLAIN_TYPES = {"bool", "bytes", "float", "int", "str"}
_CONTAINERS = {"deque", "dict", "list", "set", "tuple"}
_NUMBERS = {"bound", "maxlen", "nbytes", "sink"}
_ON_OBJECT = {"clear", "commit", "joined", "replace", "reset", "view"}


class UnknownSyntaxError(AssertionError):
    """A node of a generated module has none of the shapes that one may have."""


def check_module(source: str) -> None:
    """Fail if `source` is anything but a generated module."""
    tree = ast.parse(source)
    docstring, *imports, exported, cls = tree.body
    _docstring(docstring)
    for statement in imports:
        _import(statement)
    _require(isinstance(cls, ast.ClassDef), cls)
    assert isinstance(cls, ast.ClassDef)
    _require(ast.unparse(exported) == f"__all__ = [{cls.name!r}]", exported)
    _class(cls)


def _require(holds: bool, node: ast.AST) -> None:
    if not holds:
        raise UnknownSyntaxError(ast.dump(node, indent=1)[:2_000])


def _docstring(node: ast.stmt) -> None:
    _require(isinstance(node, ast.Expr) and _is_text(node.value), node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _import(node: ast.stmt) -> None:
    if isinstance(node, ast.Import):
        _require(all((one.name, one.asname) in _MODULES for one in node.names), node)
    else:
        _require(isinstance(node, ast.ImportFrom) and node.level == 0, node)
        assert isinstance(node, ast.ImportFrom)
        known = _IMPORTS.get(node.module or "", set())
        _require(all(one.name in known and one.asname is None for one in node.names), node)


# -- the class ------------------------------------------------------------------------------------


def _class(cls: ast.ClassDef) -> None:
    _require([ast.unparse(base) for base in cls.bases] == ["StateAdapter"], cls)
    _require(not cls.keywords and not cls.decorator_list, cls)
    docstring, slots, *members, spec = cls.body
    _docstring(docstring)
    _require(isinstance(slots, ast.Assign) and ast.unparse(slots.targets[0]) == "__slots__", slots)
    assert isinstance(slots, ast.Assign)
    _literal(slots.value)
    for member in members:
        if isinstance(member, ast.Expr):
            _docstring(member)
        elif isinstance(member, ast.AnnAssign):
            _attribute(member)
        else:
            _require(isinstance(member, ast.FunctionDef), member)
            assert isinstance(member, ast.FunctionDef)
            _function(member)
    _require(isinstance(spec, ast.AnnAssign) and ast.unparse(spec.target) == "SPEC", spec)
    assert isinstance(spec, ast.AnnAssign)
    _require(ast.unparse(spec.annotation) == "ClassVar[ModelSpec]", spec)
    _require(isinstance(spec.value, ast.Call), spec)
    _data(spec.value)


def _attribute(node: ast.AnnAssign) -> None:
    """A constant, or the descriptor of a carried value."""
    _require(isinstance(node.target, ast.Name) and node.value is not None, node)
    if ast.unparse(node.annotation) == "ClassVar[int]":
        _literal(node.value)
        return
    declared, call = node.annotation, node.value
    _require(isinstance(declared, ast.Subscript) and _name(declared.value) == "SessionAttr", node)
    assert isinstance(declared, ast.Subscript)
    _type(declared.slice)
    _require(isinstance(call, ast.Call) and _name(call.func) == "SessionAttr", node)
    assert isinstance(call, ast.Call)
    _require(not call.args, node)
    for keyword in call.keywords:
        if keyword.arg == "coerce":
            _require(_name(keyword.value) in _PLAIN_TYPES, node)
        else:
            _require(keyword.arg == "default", node)
            _literal(keyword.value)


def _data(node: ast.AST | None) -> None:
    """Records of the spec, nested, out of literals."""
    if isinstance(node, ast.Call):
        _require(_name(node.func) in _IMPORTS["statekit.spec"] and not node.args, node)
        for keyword in node.keywords:
            _require(keyword.arg is not None, node)
            _data(keyword.value)
    elif isinstance(node, ast.Tuple):
        for item in node.elts:
            _data(item)
    elif isinstance(node, ast.Dict):
        for key, item in zip(node.keys, node.values, strict=True):
            _literal(key)
            _data(item)
    else:
        _literal(node)


def _literal(node: ast.AST | None) -> None:
    """A number, a text, a boolean, None, or a tuple, list or dict of such."""
    assert node is not None
    if isinstance(node, (ast.Tuple, ast.List)):
        for item in node.elts:
            _literal(item)
    elif isinstance(node, ast.Dict):
        for part in (*node.keys, *node.values):
            _literal(part)
    elif isinstance(node, ast.UnaryOp):
        number = node.operand
        _require(isinstance(node.op, ast.USub) and isinstance(number, ast.Constant), node)
    else:
        _require(isinstance(node, ast.Constant), node)
        assert isinstance(node, ast.Constant)
        _require(node.value is None or isinstance(node.value, (str, int, float)), node)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


# -- types ----------------------------------------------------------------------------------------


def _type(node: ast.expr) -> None:
    """An annotation of the grammar of types."""
    if isinstance(node, ast.BinOp):
        _require(isinstance(node.op, ast.BitOr), node)
        _type(node.left)
        _type(node.right)
    elif isinstance(node, ast.Subscript):
        head = ast.unparse(node.value)
        if head == "npt.NDArray":
            dtype = node.slice
            numpy = isinstance(dtype, ast.Attribute) and _name(dtype.value) == "np"
            _require(_name(dtype) == "Any" or numpy, node)
            return
        if head == "Literal":
            labels = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            _require(all(map(_is_text, labels)), node)
            return
        _require(head in {*_CONTAINERS, *_KINDS, "Iterable", "ObjectFamily"}, node)
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            _type(part)
    elif isinstance(node, ast.Constant):
        _require(node.value is None or node.value is ..., node)
    else:
        known = {*_PLAIN_TYPES, "torch.Tensor", "torch.Generator", "SessionStateManager"}
        _require(ast.unparse(node) in known, node)


# -- functions ------------------------------------------------------------------------------------


def _function(node: ast.FunctionDef) -> None:
    """A method: the constructor, a property, a setter, a member of a family, or a reset."""
    for decorator in node.decorator_list:
        setter = isinstance(decorator, ast.Attribute) and decorator.attr == "setter"
        _require(_name(decorator) == "property" or setter, node)
        if isinstance(decorator, ast.Attribute):
            _require(_name(decorator.value) == node.name, node)
    names = _arguments(node)
    for statement in node.body:
        _statement(statement, names)


def _arguments(node: ast.FunctionDef) -> set[str]:
    found = [*node.args.args, *node.args.kwonlyargs]
    _require(not (node.args.vararg or node.args.kwarg or node.args.posonlyargs), node)
    for one in found:
        _require(one.annotation is not None or one.arg == "self", node)
        if one.annotation is not None:
            _type(one.annotation)
    for default in (*node.args.defaults, *node.args.kw_defaults):
        _literal(default)
    _require(node.returns is not None, node)
    assert node.returns is not None
    _type(node.returns)
    return {one.arg for one in found}


def _statement(node: ast.stmt, names: set[str]) -> None:
    if isinstance(node, ast.FunctionDef):
        _require(node.name == "build" and len(node.body) == 1 and not node.decorator_list, node)
        _require(not _arguments(node), node)
        built = node.body[0]
        _require(isinstance(built, ast.Return) and isinstance(built.value, ast.Call), node)
        assert isinstance(built, ast.Return)
        assert isinstance(built.value, ast.Call)
        _allocation(built.value, names)
        names.add("build")
    elif isinstance(node, ast.Return):
        _require(isinstance(node.value, ast.Call), node)
        _call(node.value, names)
    elif isinstance(node, ast.Expr):
        if not _is_text(node.value):
            _call(node.value, names)
    elif isinstance(node, ast.If):
        tested = ast.unparse(node.test)
        _require(tested == "payload is None" and "payload" in names, node)
        for part in (*node.body, *node.orelse):
            _statement(part, names)
    else:
        _require(isinstance(node, ast.Assign) and len(node.targets) == 1, node)
        assert isinstance(node, ast.Assign)
        _assignment(node, names)


def _assignment(node: ast.Assign, names: set[str]) -> None:
    """`self.PARAMETER = PARAMETER`, or the text of a member by its label."""
    (target,) = node.targets
    if isinstance(target, ast.Attribute):
        _require(_name(target.value) == "self" and _name(node.value) == target.attr, node)
        _require(target.attr in names, node)
        return
    lookup = node.value
    _require(isinstance(target, ast.Name) and isinstance(lookup, ast.Subscript), node)
    assert isinstance(lookup, ast.Subscript)
    _require(isinstance(lookup.value, ast.Dict) and _name(lookup.slice) in names, node)
    _literal(lookup.value)
    names.add(_name(target))


def _allocation(node: ast.Call, names: set[str]) -> None:
    """`KIND[TYPE]().allocate(...)`."""
    method = node.func
    _require(isinstance(method, ast.Attribute) and method.attr == "allocate", node)
    assert isinstance(method, ast.Attribute)
    made = method.value
    _require(isinstance(made, ast.Call) and not made.args and not made.keywords, node)
    assert isinstance(made, ast.Call)
    _require(isinstance(made.func, ast.Subscript) and _name(made.func.value) in _KINDS, node)
    _type(made.func)
    _require(not node.args, node)
    for keyword in node.keywords:
        value = keyword.value
        if keyword.arg == "on_commit":
            _require(isinstance(value, ast.Call) and _name(value.func) == "OnCommit", node)
            assert isinstance(value, ast.Call)
            _require(not value.args, node)
            for step in value.keywords:
                _literal(step.value)
        elif keyword.arg == "codec":
            _require(isinstance(value, ast.Call) and _name(value.func) == "Cast", node)
            assert isinstance(value, ast.Call)
            (dtype,) = value.args
            plain = isinstance(dtype, ast.Attribute) and _name(dtype.value) == "torch"
            _require(plain and not value.keywords, node)
        elif isinstance(value, ast.Attribute):
            _require(keyword.arg in _NUMBERS and _name(value.value) == "self", node)
        else:
            _require(keyword.arg in {*_NUMBERS, "axis", "metric", "update"}, node)
            _literal(value)


def _call(node: ast.expr | None, names: set[str]) -> None:
    """A call of the adapter's own, of an object behind a property, or of a family."""
    assert node is not None
    _require(isinstance(node, ast.Call), node)
    assert isinstance(node, ast.Call)
    called = ast.unparse(node.func)
    if called == "super().__init__":
        _require(all(_name(one) in names for one in node.args), node)
        _require(all(_name(one.value) == one.arg for one in node.keywords), node)
        return
    _require(not node.keywords, node)
    argument: Callable[[ast.expr], bool]
    if called in ("self._clear", "self._session.reset"):
        argument = _is_text
    elif called in ("self._object", "ObjectFamily"):
        argument = _reference(names)
    else:
        owner, _, method = called.rpartition(".")
        plain = owner.startswith("self.") and owner.endswith("_object")
        _require(plain and owner[5:].isidentifier() and method in _ON_OBJECT, node)
        argument = _payload(names)
    _require(all(map(argument, node.args)), node)


def _reference(names: set[str]) -> Callable[[ast.expr], bool]:
    """What finds an object: the session, a key, what builds it, its kind."""

    def fits(node: ast.expr) -> bool:
        if isinstance(node, ast.JoinedStr):
            return all(map(_part_of_key, node.values))
        known = _name(node) in {"build", *_KINDS}
        return known or _is_text(node) or ast.unparse(node) == "self._session"

    def _part_of_key(part: ast.expr) -> bool:
        if isinstance(part, ast.FormattedValue):
            plain = part.conversion == -1 and part.format_spec is None
            return plain and _name(part.value) in names
        return _is_text(part)

    return fits


def _payload(names: set[str]) -> Callable[[ast.expr], bool]:
    """What is passed on: an argument, an axis, or the one item of a list."""
    one_or_none = "[] if joined is None else [joined]"

    def fits(node: ast.expr) -> bool:
        number = isinstance(node, ast.Constant) and type(node.value) is int
        return number or _name(node) in names or ast.unparse(node) == one_or_none

    return fits
