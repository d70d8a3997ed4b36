"""Symbols: the numbers that the values of one session give to a schema's symbols.

A schema's own numbers are one deployment's. What must hold in every deployment is that a symbol
means one number: `H` bound to 64 by a frame is 64 in all latents, also as `H / 8`. So a number is
taken from the first value that says it, and the others are held to it.

Owns solving an extent for the one symbol in it, and finding contradictions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import lru_cache

import attrs

from statekit.errors import ExpressionError
from statekit.expressions import Expression

__all__ = ["Extent", "Symbols"]


@attrs.frozen
class Extent:
    """One extent of a tensor beside the expression that declares it."""

    dim: int
    declared: Expression
    found: int


class Symbols:
    """Numbers by symbol, and which value gave each; constants and parameters are given."""

    def __init__(self, given: Mapping[str, int]) -> None:
        self.numbers: dict[str, int] = dict(given)
        self._said_by: dict[str, str] = {}

    def learn(self, extents: Iterable[Extent], name: str) -> None:
        """Take the numbers that the value called `name` gives, where there is none yet."""
        left = [extent for extent in extents if not extent.declared.names <= self.numbers.keys()]
        while left:
            found = [_solve(_tree(one.declared), one.found, self.numbers) for one in left]
            new = [pair for pair in found if pair is not None]
            for symbol, number in new:
                if symbol not in self.numbers:
                    self.numbers[symbol], self._said_by[symbol] = number, name
            left = [one for one in left if not one.declared.names <= self.numbers.keys()]
            if not new:
                return

    def contradiction(self, extent: Extent) -> str | None:
        """Why `extent` can't be, in words; None where it can, or nobody can tell."""
        declared = extent.declared
        if not declared.names <= self.numbers.keys():
            return None
        try:
            number = declared.evaluate(self.numbers)
        except ExpressionError as error:
            return f"extent {extent.dim} is {extent.found}, and {error.found}{self._said(declared)}"
        if number == extent.found:
            return None
        return f"extent {extent.dim} is {extent.found}, not {number}{self._said(declared)}"

    def _said(self, declared: Expression) -> str:
        """Where the numbers of the symbols come from."""
        said = [
            f"{name} is {self.numbers[name]} in {self._said_by[name]}"
            for name in sorted(declared.names)
            if name in self._said_by
        ]
        return f" ({', '.join(said)})" if said else ""


@lru_cache(maxsize=1024)
def _tree(expression: Expression) -> ast.expr:
    return ast.parse(expression.text, mode="eval").body


def _solve(node: ast.expr, number: int, known: Mapping[str, int]) -> tuple[str, int] | None:
    """The one unknown symbol of `node` and its number, where `node` is to be `number`."""
    if isinstance(node, ast.Name):
        return None if node.id in known else (node.id, number)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _value(node.left, known), _value(node.right, known)
    if right is not None and left is None:
        rest = _without(node.op, number, right)
        return None if rest is None else _solve(node.left, rest, known)
    if left is not None and right is None:
        rest = left - number if isinstance(node.op, ast.Sub) else _without(node.op, number, left)
        divides = isinstance(node.op, (ast.Div, ast.FloorDiv))
        return None if rest is None or divides else _solve(node.right, rest, known)
    return None


def _without(operator: ast.operator, number: int, other: int) -> int | None:
    """What gives `number` together with `other` on its right; None where not one number does."""
    if isinstance(operator, ast.Add):
        return number - other
    if isinstance(operator, ast.Sub):
        return number + other
    if isinstance(operator, ast.Mult):
        return number // other if other and number % other == 0 else None
    return number * other if isinstance(operator, ast.Div) else None


def _value(node: ast.expr, known: Mapping[str, int]) -> int | None:
    """The value of a part of an expression; None where it has an unknown symbol, or a function."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _value(node.left, known), _value(node.right, known)
    if left is None or right is None:
        return None
    if isinstance(node.op, (ast.Div, ast.FloorDiv)):
        exact = isinstance(node.op, ast.FloorDiv) or (right and left % right == 0)
        return left // right if right and exact else None
    if isinstance(node.op, ast.Mult):
        return left * right
    return left + right if isinstance(node.op, ast.Add) else left - right
