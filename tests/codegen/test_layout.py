"""The layout of literals, calls, headers and docstrings."""

from __future__ import annotations

import ast
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statekit_codegen import layout
from statekit_codegen.layout import Call, Dict, Expr, Items

TEXT = st.text(max_size=40) | st.text(
    alphabet="\"'\\ \n{}#a\u2028\x85\u202e\x00\ud800日", max_size=40
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '""'),
        ("plain", '"plain"'),
        ("it's", '"it\'s"'),
        ('say "x"', "'say \"x\"'"),
        ("'\"", '"\'\\""'),
        ("a\\b", '"a\\\\b"'),
        ("a\nb\tc\rd", '"a\\nb\\tc\\rd"'),
        ("\x00\x7f\xa0", '"\\x00\\x7f\\xa0"'),
        ("\u202e\ufeff\ud800", '"\\u202e\\ufeff\\ud800"'),
        ("\u2028\u2029\x85\x0c", '"\\u2028\\u2029\\x85\\x0c"'),
        ("\U000e0041", '"\\U000e0041"'),
        ("größe 日本 🌍", '"größe 日本 🌍"'),
    ],
)
def test_string_when_laid_out_then_has_the_quotes_with_fewest_escapes(
    text: str, expected: str
) -> None:
    """A literal is in double quotes unless single ones need fewer escapes; nothing hides in it."""
    assert layout.string(text) == expected


@given(TEXT)
def test_string_when_read_back_then_is_the_text(text: str) -> None:
    """Whatever a text holds, its literal is one line and evaluates to it."""
    source = layout.string(text)
    assert len(source.splitlines()) == 1
    assert ast.literal_eval(source) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "None"),
        (True, "True"),
        (-3, "-3"),
        (0.25, "0.25"),
        (1e22, "1e22"),
        (float("inf"), 'float("inf")'),
        ((), "()"),
        (("a",), '("a",)'),
        ([], "[]"),
        (["a", 1], '["a", 1]'),
        ({}, "{}"),
        ({"a": [1]}, '{"a": [1]}'),
    ],
)
def test_literal_when_laid_out_then_is_one_line_that_python_writes(
    value: object, expected: str
) -> None:
    """Plain values and containers of them have the form that a formatter leaves."""
    assert layout.lay(layout.literal(value), 0) == expected


def test_literal_when_value_is_no_plain_one_then_type_error() -> None:
    """A value that has no literal is refused, not written as its repr."""
    with pytest.raises(TypeError, match="no literal for a object"):
        layout.literal(object())


def test_lay_when_it_does_not_fit_then_explodes_from_the_outside_in() -> None:
    """What is too long for a line is exploded with trailing commas, inner parts only if need be."""
    expr = Call(
        "Outer",
        [
            ("", '"first"'),
            ("short", Call("Inner", [("a", "1"), ("b", "2")])),
            ("long", Dict([(f'"key_{n}"', Items([f'"{n}"'])) for n in range(6)])),
        ],
    )
    assert layout.line("x = ", expr, 4) == (
        "    x = Outer(\n"
        '        "first",\n'
        "        short=Inner(a=1, b=2),\n"
        "        long={\n"
        '            "key_0": ("0",),\n'
        '            "key_1": ("1",),\n'
        '            "key_2": ("2",),\n'
        '            "key_3": ("3",),\n'
        '            "key_4": ("4",),\n'
        '            "key_5": ("5",),\n'
        "        },\n"
        "    )"
    )


@pytest.mark.parametrize("length", [86, 87])
def test_lay_when_at_the_limit_then_column_88_is_the_last(length: int) -> None:
    """A line of 88 columns stands, one of 89 is exploded."""
    source = layout.line("x = ", Call("f", [("", "y" * (length - 5))]), 0)
    assert len(source.splitlines()) == (1 if length == 86 else 3), source


def test_lay_when_one_tuple_holds_a_call_then_the_call_is_exploded_too() -> None:
    """The comma of a tuple of one holds nothing open, so what is in it must."""
    text = '"' + "x" * 76 + '"'
    call = Call("f", [("a", text)])
    assert layout.line("y = ", call, 0) == f"y = f(a={text})"
    assert layout.line("y = ", Items([call]), 0) == (f"y = (\n    f(\n        a={text},\n    ),\n)")


def test_statement_when_no_layout_is_stable_then_is_marked() -> None:
    """A line that a formatter would break, and that no comma holds, is taken from it."""
    assert layout.statement("x = " + "y" * 84) == "x = " + "y" * 84
    assert layout.statement("x = " + "y" * 85) == "x = " + "y" * 85 + "  # fmt: skip"


def test_statement_when_only_a_string_is_long_then_is_not_marked() -> None:
    """A formatter does not break a string that stands on a line of its own."""
    source = layout.line("x = ", Call("f", [("why", '"' + "x" * 99 + '"')]), 0)
    assert "fmt: skip" not in source


def test_header_when_it_does_not_fit_then_a_parameter_a_line() -> None:
    """A long function header is exploded; one without parameters is marked."""
    assert layout.header("f", ["self"], "None", 4) == "    def f(self) -> None:"
    assert layout.header("f", ["self", "a: " + "x" * 80], "None", 0) == (
        "def f(\n    self,\n    a: " + "x" * 80 + ",\n) -> None:"
    )
    assert layout.header("f", [], "x" * 90, 0).endswith(":  # fmt: skip")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["One."], '"""One."""'),
        (["One.", "", "Two."], '"""One.\n\n    Two.\n    """'),
        (['"Quoted"'], '"""\\"Quoted"\n    """'),
        (["x" * 80], '"""' + "x" * 80 + '\n    """'),
    ],
)
def test_docstring_when_laid_out_then_closes_where_a_formatter_does(
    lines: list[str], expected: str
) -> None:
    """One line if it fits and ends harmlessly, else the closing quotes on their own."""
    assert layout.docstring(lines, 4) == expected


@given(TEXT, TEXT, st.sampled_from([0, 4]))
def test_docstring_when_text_is_hostile_then_is_one_docstring_with_its_words(
    first: str, second: str, hang: int
) -> None:
    """Whatever a text holds, its docstring is one string with the same words, and no more."""
    lines = layout.wrap(f"x{first}", 4) + layout.wrap(f"x{second}", 4, lead="Why: ", hang=hang)
    tree = ast.parse(f"class A:\n    {layout.docstring(lines, 4)}\n")
    (klass,) = tree.body
    assert isinstance(klass, ast.ClassDef)
    assert len(klass.body) == 1
    words = ast.get_docstring(klass, clean=False)
    assert words is not None
    assert words.split() == [*f"x{first}".split(), "Why:", *f"x{second}".split()]


@given(TEXT)
def test_wrap_when_text_has_invisible_characters_then_shows_their_escapes(text: str) -> None:
    """No control, format or line-breaking character gets into a generated file as itself."""
    for line in layout.wrap(text, 4):
        assert layout.escape(line.replace("\\", "")) == line.replace("\\", "")
        assert len(line.splitlines()) <= 1


def test_layout_when_formatted_then_nothing_changes() -> None:
    """`ruff format` finds nothing to change in any layout, at 88 columns nor at 100."""
    chance = random.Random(0)
    statements = []
    for n in range(150):
        statements.append(
            layout.line(f"name_{n} = ", _expression(chance, chance.choice([2, 3, 4])), 4)
        )
        words = " ".join(_text(chance) for _ in range(chance.randint(0, 30)))
        statements.append("    " + layout.docstring(layout.wrap(f"A {words}", 4), 4))
    source = "class A:\n" + "\n".join(statements) + "\n"
    for width in (88, 100):
        command = [sys.executable, "-m", "ruff", "format", "--isolated", "--diff"]
        done = subprocess.run(
            [*command, f"--line-length={width}", "-"],
            input=source,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def _expression(chance: random.Random, depth: int) -> Expr:
    kind = chance.randint(0, 5) if depth else 0
    if kind < 3:
        choices = [_text(chance), chance.randint(-9, 10**12), None, True, 1.5e300, 0.1]
        return layout.literal(chance.choice(choices))
    parts = [_expression(chance, depth - 1) for _ in range(chance.randint(0, 4))]
    if kind == 3:
        return Call("Call", [(f"argument_{n}", part) for n, part in enumerate(parts)])
    if kind == 4:
        return Items(parts, chance.choice(["()", "[]"]))
    return Dict([(layout.string(f"k{n}"), part) for n, part in enumerate(parts)])


def _text(chance: random.Random) -> str:
    alphabet = chance.choice(["abc ", "\"'\\ ab", "日本語é", "abcdefgh"])
    return "".join(chance.choice(alphabet) for _ in range(chance.choice([1, 8, 30, 70, 90])))
