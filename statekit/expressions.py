"""Size expressions: `1404 * H * W`, `ceil_div(T * C, SP)`. A closed grammar, never `eval`.

Owns parsing and exact integer evaluation. Knows nothing of schemas or of tensors.

Grammar: whole numbers, names, `+ - * / //`, parentheses, and the functions `min`, `max` and
`ceil_div(a, b)`. `/` is exact division: a remainder is an error, because a shape such as
`H / 8` is only right where 8 divides H.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import attrs

from statekit.errors import ExpressionError

__all__ = ["FUNCTIONS", "MAX_EXPRESSION_CHARS", "MAX_VALUE", "Expression"]

MAX_EXPRESSION_CHARS = 200
MAX_DEPTH = 32
MAX_VALUE = 2**63 - 1
"""Results beyond a signed 64-bit integer are refused: no machine holds them."""

FUNCTIONS = ("ceil_div", "max", "min")
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//"}
_CHARACTERS = re.compile(r"[A-Za-z0-9_ +\-*/(),]+")
# `1if`, `0x1F`, `1e3`, `1_000`: no whole numbers, and `ast.parse` warns of some of them.
_ODD_NUMBER = re.compile(r"(?<![A-Za-z0-9_])[0-9]+[A-Za-z_]")
_GRAMMAR = "use whole numbers, names, + - * / //, parentheses, min, max and ceil_div"


@attrs.frozen
class Expression:
    """A parsed size expression over named whole numbers.

    Build with `Expression.parse`. Compares and hashes by its text.
    """

    text: str
    names: frozenset[str] = attrs.field(eq=False)
    _tree: ast.expr = attrs.field(eq=False, repr=False)

    @classmethod
    def parse(cls, source: str | int) -> Expression:
        """Parse `source`.

        Raises:
            ExpressionError: `source` is outside the grammar or longer than 200 characters.
        """
        text = str(source).strip()
        if len(text) > MAX_EXPRESSION_CHARS:
            raise ExpressionError(
                text[:40] + "...",
                f"{len(text)} characters",
                f"use at most {MAX_EXPRESSION_CHARS}, or name a part of it as a symbol",
            )
        if not _CHARACTERS.fullmatch(text) or _ODD_NUMBER.search(text):
            raise ExpressionError(text, "not an expression", _GRAMMAR)
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ExpressionError(text, "not an expression", _GRAMMAR) from None
        return cls(text=text, names=frozenset(_names(tree, text, 0)), tree=tree)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value of the expression, exactly.

        Raises:
            ExpressionError: a name has no value, a division leaves a remainder or is by zero,
                or the result does not fit in 63 bits.
        """
        return _evaluate(self._tree, values, self.text)


def _names(node: ast.expr, text: str, depth: int) -> Iterator[str]:
    """Every name in `node`; raises where `node` leaves the grammar."""
    if depth > MAX_DEPTH:
        raise ExpressionError(text, f"nesting deeper than {MAX_DEPTH}", "name a part as a symbol")
    if isinstance(node, ast.Constant) and type(node.value) is int:
        if node.value > MAX_VALUE:
            raise ExpressionError(text, "a number beyond 63 bits", _GRAMMAR)
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield from _names(node.left, text, depth + 1)
        yield from _names(node.right, text, depth + 1)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from _names(node.operand, text, depth + 1)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in FUNCTIONS
        and not node.keywords
        and len(node.args) == 2
    ):
        for argument in node.args:
            yield from _names(argument, text, depth + 1)
    else:
        part = ast.get_source_segment(text, node) or text
        raise ExpressionError(text, f"{part!r} is not in the grammar", _GRAMMAR)


def _evaluate(node: ast.expr, values: Mapping[str, int], text: str) -> int:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in values:
            known = ", ".join(sorted(values)) or "none"
            raise ExpressionError(text, f"{node.id!r} has no value", f"known names: {known}")
        return values[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_evaluate(node.operand, values, text)
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        left, right = (_evaluate(argument, values, text) for argument in node.args)
        operator = node.func.id
    else:
        assert isinstance(node, ast.BinOp)
        left = _evaluate(node.left, values, text)
        right = _evaluate(node.right, values, text)
        operator = _OPERATORS[type(node.op)]
    result = _apply(operator, left, right, text)
    if abs(result) > MAX_VALUE:
        raise ExpressionError(text, "the result is beyond 63 bits", "check the symbols")
    return result


def _apply(operator: str, left: int, right: int, text: str) -> int:
    if operator in ("/", "//", "ceil_div") and right == 0:
        raise ExpressionError(text, "division by zero", "check the symbols")
    if operator == "/" and left % right:
        raise ExpressionError(
            text,
            f"{left} / {right} leaves a remainder",
            "choose symbols that divide, or say // or ceil_div",
        )
    if operator == "ceil_div":
        return -(-left // right)
    if operator in ("/", "//"):
        return left // right
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return min(left, right) if operator == "min" else max(left, right)
