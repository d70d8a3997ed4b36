"""Loading hostile bytes: each a clear problem, soon, and never another exception."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from statekit.errors import SchemaError
from statekit_codegen import nodes
from statekit_codegen.load import load_text
from tests.codegen.rule_cases import BASE

ROOT = Path(__file__).parents[2]
HEAD = "statekit: 1\nmodel: toy\nclass: Toy\ndoc: d\n"
LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(30))


def found(data: bytes) -> list[str]:
    """The problems of a file, each as `LINE:COLUMN RULE`."""
    with pytest.raises(SchemaError) as caught:
        load_text(data, "toy.yaml")
    return [f"{one.line}:{one.column} {one.rule}" for one in caught.value.problems]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ["1:1 FILE_EMPTY"]),
        (b"# a comment\n\n# and another\n", ["1:1 FILE_EMPTY"]),
        (b"--- \n...\n", ["2:1 WRONG_TYPE"]),
        (b"- a\n- list\n", ["1:1 WRONG_TYPE"]),
        (b"text", ["1:1 WRONG_TYPE"]),
        (b"\xef\xbb\xbf" + BASE.encode(), ["1:1 FILE_ENCODING"]),
        (BASE.encode("utf-16"), ["1:1 FILE_ENCODING"]),
        (BASE.encode("utf-16-be"), ["1:1 FILE_ENCODING"]),
        (BASE.encode() + b"\0", ["1:1 FILE_ENCODING"]),
        (BASE.replace("A toy", "\u00e4").encode("latin-1"), ["1:1 FILE_ENCODING"]),
        (b"a" * (5 * 1024 * 1024), ["1:1 FILE_SIZE"]),
        (("[" * 10_000).encode(), ["1:33 YAML_LIMIT"]),
        (("a: " + "{a: " * 40 + "1" + "}" * 40).encode(), ["1:128 YAML_LIMIT"]),
        (("- x\n" * 30_000).encode(), ["20000:3 YAML_LIMIT"]),
        (b"a: 1\nb: \x1b[31m\n", ["2:4 TEXT_INVISIBLE"]),
        ("# \u202e a comment\na: 1\n".encode(), ["1:3 TEXT_INVISIBLE"]),
        ("a: \u2028\n".encode(), ["1:4 TEXT_INVISIBLE"]),
        (b"a: 1\rb: 2\n", ["1:5 TEXT_INVISIBLE"]),
        (b'a: "\\ud800"\n', None),
        (b'a: "\\UFFFFFFFF"\n', ["1:1 YAML_SYNTAX"]),
        (b"%YAML 9.1\n---\na: 1\n", ["1:1 YAML_SYNTAX"]),
        (f"a: {'9' * 10_000}\n".encode(), None),
        (f"a: {'9' * 10_000}.0\n".encode(), None),
        (f"a: {':'.join(['59'] * 10_000)}\n".encode(), None),
        (b"a: 2026-99-99\n", None),
        (b"a: =\n", None),
        (b"? {a: 1}\n: 2\n", None),
        (b"a: b: c\n", ["1:5 YAML_SYNTAX"]),
        (b"\ta: 1\n", ["1:1 YAML_SYNTAX"]),
        (b"a: 'x\n", ["2:1 YAML_SYNTAX"]),
        (b"a: @x\n", ["1:4 YAML_SYNTAX"]),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_load_when_the_bytes_are_hostile_then_problems_name_the_place(
    data: bytes, expected: list[str] | None
) -> None:
    """Whatever the bytes are, what comes out is a list of problems with places."""
    places = found(data)
    assert places
    assert expected in (None, places)


def test_load_when_aliases_explode_then_they_are_refused_before_anything_is_built() -> None:
    """A billion laughs are 91 anchors and aliases, each named, and nothing more."""
    rules = [place.split()[1] for place in found((HEAD + LAUGHS).encode())]
    assert rules == ["YAML_ALIAS"] * 91


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_load_when_lines_end_as_on_any_system_then_places_are_the_same(ending: str) -> None:
    """Line ends of Windows change neither whether a schema loads nor where its problems are."""
    assert load_text(BASE.replace("\n", ending).encode(), "toy.yaml").schema.model == "toy"
    bad = BASE.replace("unit", "x").replace("uint8", "x").replace("\n", ending)
    assert found(bad.encode()) == ["22:5 DTYPE_KNOWN"]


def test_load_when_a_file_is_as_large_as_may_be_then_it_takes_no_more_than_the_limits() -> None:
    """Thousands of names, all of them wrong in several ways, do not multiply."""
    names = [f"x{number}" for number in range(1_500)]
    symbols = ", ".join(f"{name}: 1" for name in names)
    shape = ", ".join(f"y{name}" for name in names)
    text = f"{HEAD}symbols: {{{symbols}}}\nvalues:\n  a: {{bucket: attrs, shape: [{shape}]}}\n"
    places = found(text.encode())
    assert sum("EXPRESSION_NAME" in place for place in places) == 1_500


SCRIPT = """
import sys
from statekit.errors import Problem, SchemaError
from statekit_codegen.load import load_text, load_tree
try:
    print(load_text(sys.stdin.buffer.read(), "toy.yaml").spec)
except SchemaError as error:
    print(error)
"""


def test_load_when_run_under_two_hash_seeds_then_it_says_the_same() -> None:
    """Neither the spec nor the order of problems hangs on Python's hashes."""
    worse = BASE.replace("[H / 8, W]", "[A + B + C, D * E]").replace(
        "kept: true", "a: 1, b: 2, c: 3"
    )
    for text in (BASE, worse):
        said = [
            subprocess.run(
                [sys.executable, "-c", SCRIPT],
                input=text.encode(),
                env={
                    **os.environ,
                    "PYTHONHASHSEED": seed,
                    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "codegen")]),
                },
                capture_output=True,
                check=True,
                timeout=60,
            ).stdout
            for seed in ("1", "2")
        ]
        assert said[0] == said[1]
        assert len(said[0]) > 100


def test_limits_when_a_file_is_just_below_them_then_it_is_read() -> None:
    """The limits are where they are said to be."""
    comment = BASE + "#" * (nodes.MAX_BYTES - len(BASE))
    assert load_text(comment.encode(), "toy.yaml").schema.model == "toy"
    deep = BASE + "bogus: " + "[" * (nodes.MAX_DEPTH - 1) + "]" * (nodes.MAX_DEPTH - 1) + "\n"
    assert found(deep.encode()) == ["41:1 UNKNOWN_KEY"]
