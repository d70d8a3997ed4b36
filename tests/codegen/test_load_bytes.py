"""Loading hostile bytes: each a clear problem, soon, and never another exception."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from statekit.errors import Problem, SchemaError
from statekit_codegen import language, nodes
from statekit_codegen.load import load_text, load_tree
from statekit_codegen.model import Model, Positions
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


HOSTILE = [
    '\'"""\\',
    "\\'''",
    "a\nb",
    "a\r{{ x }}{% raw %}#",
    "\u202e",
    "\ud800",
    "\x00\x1b[31m",
    "__import__('os').system('id')",
    "import",
    "",
    "\u00e4\U0001f600",
    "x" * 5_000,
    "9" * 5_000,
    "(" * 150,
    "[" * 150,
    "1if 2",
    "../{branch}",
    "}{",
]

FULL: dict[str, Any] = yaml.safe_load(
    (ROOT / "tests/golden/every_kind/schema.yaml").read_text("utf-8")
)


def text_places(data: Any, cls: Any) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Where `data`, of the type `cls`, holds or may hold a text; keys of mappings too."""
    origin, arguments = typing.get_origin(cls), typing.get_args(cls)
    if attrs.has(cls):
        types = typing.get_type_hints(cls)
        for field in attrs.fields(cls):
            key = field.metadata.get("key") or field.name
            if isinstance(data, dict):
                yield (key,), f"{cls.__name__}.{field.name}"
                if key in data:
                    for path, name in text_places(data[key], types[field.name]):
                        yield (key, *path), name
    elif origin is dict and isinstance(data, dict):
        for key, entry in data.items():
            yield from (((key, *path), name) for path, name in text_places(entry, arguments[1]))
    elif origin is list and isinstance(data, list):
        for index, entry in enumerate(data):
            yield (index,), "an entry"
            yield from (((index, *path), name) for path, name in text_places(entry, arguments[0]))
    else:
        for member in arguments:
            yield from text_places(data, member)


PLACES = dict(text_places(FULL, language.Schema))


def put(data: Any, path: tuple[Any, ...], text: str) -> Any:
    """A copy of `data` with `text` at `path`."""
    copied = json.loads(json.dumps(data))
    place = copied
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = text
    return copied


def classes(cls: Any) -> Iterator[Any]:
    """The language classes that `cls` is made of, itself included."""
    if attrs.has(cls):
        yield cls
        for hint in typing.get_type_hints(cls).values():
            yield from classes(hint)
    for argument in typing.get_args(cls):
        yield from classes(argument)


def test_hostile_places_when_collected_then_every_field_of_the_language_is_among_them() -> None:
    """A field that somebody adds to the language is put to the test with the others."""
    fields = {f"{c.__name__}.{f.name}" for c in classes(language.Schema) for f in attrs.fields(c)}
    assert fields - set(PLACES.values()) == set()


def assert_model_or_problems(load: Callable[[], Model]) -> None:
    """Loading gives a model or presentable problems; any other exception goes through."""
    problems: tuple[Problem, ...] = ()
    try:
        load()
    except SchemaError as error:
        problems = error.problems
        said = str(error).split("\n")
    else:
        return
    assert problems
    assert len(said) == len(problems)
    assert [line for line in said if not line.isprintable()] == []


def load_data(data: Any) -> Model:
    """A model out of plain data, as if it had been read without a problem."""
    places = dict.fromkeys(paths(data, ()), (1, 1))
    return load_tree(nodes.Tree(data, Positions("toy.yaml", places), ()), "0" * 64)


def paths(data: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The path of every node of `data`."""
    yield path
    if isinstance(data, (dict, list)):
        for key, entry in data.items() if isinstance(data, dict) else enumerate(data):
            yield from paths(entry, (*path, key))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text)[:20])
def test_load_when_a_hostile_text_is_in_any_field_then_a_model_or_problems_come_out(
    text: str,
) -> None:
    """In every field of a schema every hostile text is accepted as text or refused as a problem.

    The reader, which refuses many of them, is left out first, so that they get further.
    """
    for path in {name: path for path, name in PLACES.items()}.values():
        changed = put(FULL, path, text)
        assert_model_or_problems(lambda changed=changed: load_data(changed))  # type: ignore[misc]
    everywhere = FULL
    for path in PLACES:
        if len(path) > 2 and path[-1] in ("doc", "why", "hardware", "cost", "key", "type", "shape"):
            everywhere = put(everywhere, path, text)
    assert_model_or_problems(lambda: load_text(json.dumps(everywhere).encode(), "toy.yaml"))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text)[:20])
def test_load_when_a_hostile_text_is_a_key_then_a_model_or_problems_come_out(text: str) -> None:
    """As a key of every mapping, too."""
    for path in paths(FULL, ()):
        changed = {**FULL, text: text}
        if path:
            changed = put(FULL, path, "")
            place = changed
            for part in path[:-1]:
                place = place[part]
            if isinstance(place, list):
                continue
            place[text] = place.pop(path[-1])
        assert_model_or_problems(lambda changed=changed: load_data(changed))  # type: ignore[misc]


TEXTS = [
    path.read_text("utf-8")
    for path in (
        *sorted((ROOT / "schemas").glob("*.yaml")),
        ROOT / "tests/golden/families/schema.yaml",
    )
]
TEXTS.append(BASE)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A schema with some lines and characters changed."""
    lines = draw(st.sampled_from(TEXTS)).split("\n")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        other = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(("delete", "double", "swap", "cut", "put", "indent")))
        if kind == "delete" and len(lines) > 1:
            del lines[at]
        elif kind == "double":
            lines.insert(at, lines[other])
        elif kind == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == "cut":
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
        elif kind == "indent":
            lines[at] = " " * draw(st.integers(0, 6)) + lines[at].strip()
        else:
            start = draw(st.integers(0, len(lines[at])))
            text = draw(
                st.text(max_size=3) | st.sampled_from(("{", "]", ": ", "- ", "&a ", "!!", "1e3"))
            )
            lines[at] = lines[at][:start] + text + lines[at][start + draw(st.integers(0, 3)) :]
    return "\n".join(lines)


@settings(max_examples=150, deadline=None)
@given(mutated())
def test_load_when_a_schema_is_mutated_then_a_model_or_problems_come_out(text: str) -> None:
    """No edit of a schema makes the loader raise anything but its list of problems."""
    data = text.encode("utf-8", "surrogatepass")
    assert_model_or_problems(lambda: load_text(data, "toy.yaml"))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_load_when_bytes_are_random_then_a_model_or_problems_come_out(data: bytes) -> None:
    """No bytes make the loader raise anything but its list of problems."""
    assert_model_or_problems(lambda: load_text(data, "toy.yaml"))


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
