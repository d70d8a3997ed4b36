"""Choices: which arguments decide what a method does, and how a test comes out under them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any

from statekit_codegen.reading.facts import NOTHING
from statekit_codegen.reading.payload import literal_of

__all__ = ["MAX_CHOICES", "choices", "decide", "defaults"]

Function = ast.FunctionDef | ast.AsyncFunctionDef

MAX_CHOICES = 8


def defaults(function: Function) -> dict[str, Any]:
    """The literal defaults of a function's arguments."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(positional[::-1], arguments.defaults[::-1], strict=False))
    pairs += [
        (argument, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    ]
    found = {argument.arg: literal_of(default) for argument, default in pairs}
    return {name: value for name, value in found.items() if value is not NOTHING}


def choices(function: Function) -> Iterator[dict[str, Any]]:
    """Every way to call a function that its tests tell apart; the default first."""
    options: dict[str, list[Any]] = {}
    given = defaults(function)
    for argument in [*function.args.args, *function.args.kwonlyargs]:
        name = argument.arg
        boolean = isinstance(argument.annotation, ast.Name) and argument.annotation.id == "bool"
        if type(given.get(name)) is bool or boolean:
            first = given.get(name, True)
            options[name] = [first, not first]
        else:
            compared = list(_compared(function, name))
            if compared:
                first = given.get(name, compared[0])
                options[name] = list(dict.fromkeys([first, *compared]))
    tested = {name for name in options if _is_tested(function, name)}
    options = {name: values for name, values in options.items() if name in tested}
    ways = product(*options.values())
    for way in islice(ways, MAX_CHOICES):
        yield dict(zip(options, way, strict=True))


def _is_tested(function: Function, name: str) -> bool:
    tests = (node.test for node in ast.walk(function) if isinstance(node, (ast.If, ast.IfExp)))
    passed = (
        argument
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]
    )
    inside = (part for node in [*tests, *passed] for part in ast.walk(node))
    return any(isinstance(part, ast.Name) and part.id == name for part in inside)


def _compared(function: Function, name: str) -> Iterator[str]:
    """The texts that an argument is compared with."""
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and _is(node.left, name) and len(node.ops) == 1:
            right = node.comparators[0]
            parts = right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else [right]
            for part in parts:
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def decide(test: ast.expr, known: Mapping[str, Any]) -> bool | None:
    """How a test comes out, None where that can't be known."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Name):
        return bool(known[test.id]) if test.id in known else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = decide(test.operand, known)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [decide(part, known) for part in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name):
        return _compare(test, known)
    return None


def _compare(test: ast.Compare, known: Mapping[str, Any]) -> bool | None:
    assert isinstance(test.left, ast.Name)
    if test.left.id not in known:
        return None
    left, right = known[test.left.id], test.comparators[0]
    operator = test.ops[0]
    if isinstance(operator, (ast.In, ast.NotIn)):
        if not isinstance(right, (ast.Tuple, ast.List, ast.Set)):
            return None
        values = [literal_of(part) for part in right.elts]
        return None if NOTHING in values else (left in values) == isinstance(operator, ast.In)
    literal = literal_of(right)
    if literal is NOTHING:
        return None
    if isinstance(operator, (ast.Eq, ast.Is)):
        return bool(left == literal)
    if isinstance(operator, (ast.NotEq, ast.IsNot)):
        return bool(left != literal)
    return None


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
