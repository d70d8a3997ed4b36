"""Calls: what a call does to the state that it is made on, or that it is given."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from statekit_codegen.reading import bounds
from statekit_codegen.reading.choices import defaults
from statekit_codegen.reading.facts import NOTHING, UNKNOWN, Held
from statekit_codegen.reading.module import dotted
from statekit_codegen.reading.payload import held, literal_of, source_of
from statekit_codegen.reading.reference import (
    SELF,
    Reference,
    is_session_key,
    reference,
    text_of,
)

if TYPE_CHECKING:
    from statekit_codegen.reading.trace import Function, Trace

__all__ = ["call", "dict_of_state"]

_APPENDS = ("append", "appendleft", "extend", "extendleft", "insert")
_ENTRIES = frozenset(
    [
        *("pop", "popleft", "popitem", "remove", "discard", "add", "update", "setdefault"),
        *("move_to_end", "sort", "reverse", "rotate"),
    ]
)
_WRITES_OF_NUMPY = ("fill", "put", "itemset", "setflags", "manual_seed", "set_state", "partition")
_CLEARS = ("clear", "reset")
_SETTERS = ("setattr", "delattr", "object.__setattr__")
_BY_NAME = ("__setattr__", "__delattr__", "register_buffer", "register_parameter")
_TAKES = ("pop", "popleft")
_WRITERS = ("numpy.copyto", "numpy.put", "numpy.place")


def call(node: ast.Call, trace: Trace) -> None:
    """Walk through a call."""
    function = node.func
    name = dotted(function)
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    by_name = name in _SETTERS or (
        isinstance(function, ast.Attribute) and function.attr in _BY_NAME
    )
    if by_name and _set_by_name(node, name or "", trace):
        return
    named = reference(node, trace) if name == "getattr" else None
    if named is not None and named.name:
        trace.emit(node, named.name, "read", how="getattr")
    if isinstance(function, ast.Attribute):
        if _update_of_dict(node, function, trace):
            return
        if _on_attribute(node, function, trace) or _on_table(node, function, trace):
            return
    _helper(node, name, trace)
    _given(node, name, trace)
    if isinstance(function, ast.Attribute):
        trace.expression(function.value)
    for argument in arguments:
        trace.expression(argument)


def dict_of_state(node: ast.expr, trace: Trace) -> bool:
    """Whether an expression is `self.__dict__` or `vars(self)`, or an entry of it."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return reference(node.value, trace) == SELF
    if isinstance(node, ast.Call) and dotted(node.func) == "vars" and node.args:
        return reference(node.args[0], trace) == SELF
    return False


def _set_by_name(node: ast.Call, name: str, trace: Trace) -> bool:
    """`setattr(self, "x", value)` and its kin; whether it is on the state."""
    arguments = list(node.args)
    if name in _SETTERS:
        if not arguments or reference(arguments[0], trace) != SELF:
            return False
        arguments = arguments[1:]
    elif not (isinstance(node.func, ast.Attribute) and _is_state(node.func.value, trace)):
        return False
    text = text_of(arguments[0], trace) if arguments else None
    if text is None:
        trace.blind(node)
    elif len(arguments) > 1:
        trace.expression(arguments[1])
        trace.emit(node, text, "set", how="setattr", held=held(arguments[1], trace))
    else:
        trace.emit(node, text, "delete", how="delattr")
    return True


def _is_state(node: ast.expr, trace: Trace) -> bool:
    is_super = isinstance(node, ast.Call) and dotted(node.func) == "super"
    return is_super or reference(node, trace) == SELF


def _update_of_dict(node: ast.Call, function: ast.Attribute, trace: Trace) -> bool:
    """`self.__dict__.update(x=...)`."""
    if function.attr not in ("update", "clear", "pop", "setdefault"):
        return False
    if not dict_of_state(function.value, trace):
        return False
    pairs: list[tuple[ast.expr | None, ast.expr]] = [
        (None if keyword.arg is None else ast.Constant(keyword.arg), keyword.value)
        for keyword in node.keywords
    ]
    for argument in node.args:
        if isinstance(argument, ast.Dict):
            pairs += zip(argument.keys, argument.values, strict=True)
        else:
            pairs.append((None, argument))
    if not pairs:
        trace.blind(node)
    for key, value in pairs:
        trace.expression(value)
        text = text_of(key, trace) if key is not None else None
        if text is None:
            trace.blind(node)
        else:
            trace.emit(value, text, "set", how="__dict__", held=held(value, trace))
    return True


def _on_attribute(node: ast.Call, function: ast.Attribute, trace: Trace) -> bool:
    """A method of an attribute, or of what lies in one."""
    found = reference(function.value, trace)
    if found is None or not found.name:
        return False
    name, depth, how = found.name, found.depth, function.attr
    for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
        trace.expression(argument)
    if _in_place(how):
        trace.emit(node, name, "write", how=how, depth=depth, held=_first(node, trace))
    elif depth == 0 and how in _APPENDS:
        trace.emit(node, name, "append", how=how, held=_item(node, how, trace))
    elif depth == 0 and how in _CLEARS:
        trace.emit(node, name, "clear", how=how)
    elif depth == 0 and how in _TAKES and (how == "popleft" or _takes_oldest(node)):
        bound = bounds.popped(name, trace)
        trace.emit(node, name, "entry" if bound is None else "trim", how=how, bound=bound)
    elif how in _ENTRIES or how in _APPENDS or (depth and how in _CLEARS):
        given = held(node.args[1], trace) if how == "setdefault" and len(node.args) > 1 else None
        trace.emit(node, name, "entry", how=how, depth=depth, held=given)
    else:
        trace.emit(node, name, "read", how=how, depth=depth)
    trace.inside(function.value)
    return True


def _in_place(how: str) -> bool:
    ends = how.endswith("_") and not how.startswith("_") and not how.endswith("__")
    return ends or how in _WRITES_OF_NUMPY


def _takes_oldest(node: ast.Call) -> bool:
    return len(node.args) == 1 and literal_of(node.args[0]) == 0


def _first(node: ast.Call, trace: Trace) -> Held | None:
    return held(node.args[0], trace) if node.args else None


def _item(node: ast.Call, how: str, trace: Trace) -> Held | None:
    """What is appended: one item."""
    index = 1 if how == "insert" else 0
    if len(node.args) <= index:
        return None
    argument = node.args[index]
    if how not in ("extend", "extendleft"):
        return held(argument, trace)
    if isinstance(argument, (ast.GeneratorExp, ast.ListComp)):
        return held(argument.elt, trace)
    given = held(argument, trace)
    if given.type.head in ("torch.Tensor", "np.ndarray"):
        return Held(given.source, given.type, dtype=given.dtype, device=given.device)
    inner = given.type.arguments
    return Held(given.source, inner[0] if inner else UNKNOWN)


def _on_table(node: ast.Call, function: ast.Attribute, trace: Trace) -> bool:
    """`CACHES.pop(session_id)`: a method of a table of the module, by session."""
    base = function.value
    if not isinstance(base, ast.Name) or base.id not in trace.module.tables or not node.args:
        return False
    if not is_session_key(node.args[0]):
        return False
    name, how = f"{base.id}[]", function.attr
    if how == "pop":
        trace.emit(node, name, "delete", how=how)
    elif how in ("get", "setdefault"):
        default = held(node.args[1], trace) if len(node.args) > 1 else Held("None", default=None)
        kind = "set" if how == "setdefault" else "read"
        trace.emit(node, name, kind, how=how, held=default)
    return True


def _helper(node: ast.Call, name: str | None, trace: Trace) -> None:
    """A call of another method of the state, or of a function that is given the state."""
    function = node.func
    if isinstance(function, ast.Attribute):
        owner, target = _method(function, trace)
        if target is not None and trace.follow:
            bound = reference(function.value, trace) == SELF or _is_super(function.value)
            receiver = _receiver(target)
            given = node.args if bound else node.args[1:]
            values = _chosen(target, given, node.keywords, trace, skip=1)
            trace.inline(target, [receiver] if receiver else [], values, owner)
        return
    target = trace.module.functions.get(name or "")
    if target is None:
        return
    names = [argument.arg for argument in [*target.args.posonlyargs, *target.args.args]]
    receivers = [
        names[index]
        for index, argument in enumerate(node.args)
        if index < len(names) and reference(argument, trace) == SELF
    ]
    receivers += [k.arg for k in node.keywords if k.arg and reference(k.value, trace) == SELF]
    if receivers:
        trace.found.helpers.append(target)
        values = _chosen(target, node.args, node.keywords, trace, skip=0)
        trace.inline(target, receivers, values, "")


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) == "super"


def _method(function: ast.Attribute, trace: Trace) -> tuple[str, Function | None]:
    """The method that `self.f`, `super().f` or `Base.f` is, with the class that has it."""
    base = function.value
    if _is_super(base):
        return trace.lineage.method_after(trace.owner, function.attr)
    if reference(base, trace) == SELF:
        return trace.lineage.method(function.attr)
    if isinstance(base, ast.Name) and trace.lineage.has_class(base.id):
        return trace.lineage.method_of(base.id, function.attr)
    return "", None


def _receiver(function: Function) -> str | None:
    decorators = [dotted(d) for d in function.decorator_list]
    names = [*function.args.posonlyargs, *function.args.args]
    if "staticmethod" in decorators or "classmethod" in decorators or not names:
        return None
    return names[0].arg


def _chosen(
    function: Function, given: list[ast.expr], keywords: list[ast.keyword], trace: Trace, skip: int
) -> Mapping[str, Any]:
    """What the arguments of a call are, where literals or choices of the caller say it."""
    known = defaults(function)
    names = [argument.arg for argument in [*function.args.posonlyargs, *function.args.args]][skip:]
    passed: list[tuple[str, ast.expr]] = list(zip(names, given, strict=False))
    passed += [(keyword.arg, keyword.value) for keyword in keywords if keyword.arg]
    for name, value in passed:
        literal = literal_of(value)
        if literal is NOTHING and isinstance(value, ast.Name):
            literal = trace.choices.get(value.id, NOTHING)
        if literal is NOTHING:
            known.pop(name, None)
        else:
            known[name] = literal
    return known


def _given(node: ast.Call, name: str | None, trace: Trace) -> None:
    """Attributes that are handed to other code, which may change what they hold."""
    if name in _WRITERS or trace.module.full_name(node.func) in _WRITERS:
        found = reference(node.args[0], trace) if node.args else None
        if found is not None and found.name:
            trace.emit(node, found.name, "write", how=name or "")
    for keyword in node.keywords:
        found = reference(keyword.value, trace)
        if keyword.arg == "out" and found is not None and found.name:
            trace.emit(node, found.name, "write", how="out=")
    for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
        found = reference(argument, trace)
        if isinstance(found, Reference) and found.name and _is_foreign(name, trace):
            how = f"passed to {source_of(node.func)}"
            trace.emit(argument, found.name, "read", how=how, depth=found.depth)


def _is_foreign(name: str | None, trace: Trace) -> bool:
    """Whether a function is neither of this file nor one that changes nothing."""
    if name is None:
        return True
    if name in trace.module.functions or name.startswith(("torch.", "np.", "numpy.", "math.")):
        return False
    return name not in (
        "len", "isinstance", "list", "tuple", "dict", "set", "int", "bool", "float", "str",
        "enumerate", "range", "zip", "any", "all", "sum", "max", "min", "sorted", "reversed",
        "iter", "next", "repr", "print", "type", "id", "hash", "deque", "copy.copy", "hasattr",
        "getattr", "copy.deepcopy",
    )  # fmt: skip
