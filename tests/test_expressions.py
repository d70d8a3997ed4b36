"""Size expressions: the grammar, exact values, and that hostile text is only ever refused.

Warnings are errors in this project's tests, so a warning of Python's parser fails them.
"""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statekit.errors import ExpressionError
from statekit.expressions import MAX_DEPTH, MAX_EXPRESSION_CHARS, MAX_VALUE, Expression

NUMBERS = {"H": 352, "W": 640, "T": 3, "ZERO": 0}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (5, 5),
        (-5, -5),
        ("5", 5),
        (" H ", 352),
        ("1404 * H * W", 316293120),
        ("H / 8", 44),
        ("H // 100", 3),
        ("-7 // 2", -4),
        ("ceil_div(H, 100)", 4),
        ("ceil_div(-7, 2)", -3),
        ("ceil_div(7, -2)", -3),
        ("min(H, W) + max(T, 2) - 1", 354),
        ("2 * (3 + 4)", 14),
        ("2 + 3 * 4", 14),
        ("8 / 2 / 2", 2),
        ("7 - 2 - 1", 4),
        ("--T", 3),
        (MAX_VALUE, MAX_VALUE),
    ],
)
def test_expression_when_evaluated_then_the_value_is_exact(source: str | int, value: int) -> None:
    """Values are those of whole-number arithmetic, with Python's precedence."""
    assert Expression.parse(source).evaluate(NUMBERS) == value


def test_expression_when_parsed_then_it_knows_its_names_and_compares_by_text() -> None:
    """Functions are no names; equal texts are equal expressions."""
    parsed = Expression.parse("ceil_div(T * C, SP)")
    assert parsed.names == {"T", "C", "SP"}
    assert parsed == Expression.parse(" ceil_div(T * C, SP)")
    assert hash(parsed) == hash(Expression.parse("ceil_div(T * C, SP)"))


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "H **2", "H % 2", "H == W", "H if W else T", "lambda: 0", "[H]", "(H, W)", "H.x",
        "H[0]", "f(H)", "min(H)", "min(H, W, T)", "min(a=1, b=2)", "min(*H, W)", "H W", "H,", "+H",
        "~H", "not H", "H and W", "True", "None", "1.5", "1e3", "1_000", "0x1F", "0o17", "017",
        "1j", "'8'", "1if 2", "1or 2", "0in H", "H # x", "H\nW", "H\\\nW", "\u0397", "\uff11",
        "H := 1", "{H}", "f'{H}'", "__import__('os')", "min(min, 1)(2)", "(yield)", "H;W", "(" * 90,
        "9" * 30, "H\0", "\ud800", "@H", "H!",
    ],
)  # fmt: skip
def test_expression_when_outside_the_grammar_then_it_is_refused_without_a_warning(
    text: str,
) -> None:
    """Python's other syntax, its numbers included, is refused, and its parser says nothing."""
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text)
    assert caught.value.todo


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("H / 7", "352 / 7 leaves a remainder"),
        ("H / ZERO", "division by zero"),
        ("H // ZERO", "division by zero"),
        ("ceil_div(H, ZERO)", "division by zero"),
        ("H + Q", "'Q' has no value; known names: H, T, W, ZERO"),
        ("9223372036854775807 + 1", "beyond 63 bits"),
        ("9223372036854775807 * 9223372036854775807 / 9223372036854775807", "beyond 63 bits"),
    ],
)
def test_expression_when_it_has_no_value_then_the_error_says_why(text: str, words: str) -> None:
    """What cannot be computed exactly, within 63 bits, is an error with its numbers."""
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text).evaluate(NUMBERS)
    assert words in str(caught.value)


def test_expression_when_long_or_deep_then_the_limits_hold() -> None:
    """The limits are where they are said to be, on every Python."""
    longest = "+".join(["H"] * (MAX_DEPTH + 1))
    assert Expression.parse(longest).evaluate({"H": 1}) == MAX_DEPTH + 1
    with pytest.raises(ExpressionError, match="nesting deeper than 32"):
        Expression.parse("+".join(["H"] * (MAX_DEPTH + 2)))
    with pytest.raises(ExpressionError, match="nesting deeper than 32"):
        Expression.parse("-" * (MAX_DEPTH + 1) + "1")
    assert Expression.parse("H" * MAX_EXPRESSION_CHARS).names == {"H" * MAX_EXPRESSION_CHARS}
    with pytest.raises(ExpressionError, match="201 characters; use at most 200"):
        Expression.parse("H" * (MAX_EXPRESSION_CHARS + 1))


ARITHMETIC = st.recursive(
    st.integers(0, 50).map(str) | st.sampled_from(["H", "W", "T"]),
    lambda inner: st.builds(
        "({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "//"]), inner
    ),
    max_leaves=12,
)


@given(ARITHMETIC)
def test_expression_when_it_is_arithmetic_then_python_computes_the_same(text: str) -> None:
    """Python's own evaluation of the same text is the oracle."""
    try:
        expected = eval(text, {"__builtins__": {}}, dict(NUMBERS))
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="division by zero"):
            Expression.parse(text).evaluate(NUMBERS)
        return
    if abs(expected) <= 10**9:
        assert Expression.parse(text).evaluate(NUMBERS) == expected


@given(
    st.text(st.sampled_from("HW0123456789+-*/(), minaxceldv_\"'\\#\n.[]{}:=if"), max_size=30)
    | st.text()
)
def test_expression_when_the_text_is_random_then_it_parses_or_is_refused(text: str) -> None:
    """No text raises another error or a warning; what parses is Python arithmetic."""
    try:
        parsed = Expression.parse(text)
    except ExpressionError:
        return
    allowed = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Call, ast.operator, ast.unaryop)
    tree = ast.parse(parsed.text, mode="eval").body
    assert [n for n in ast.walk(tree) if not isinstance(n, (*allowed, ast.expr_context))] == []
