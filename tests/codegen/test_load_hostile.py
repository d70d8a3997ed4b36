"""Hostile text in every field and key, and random edits: a model or problems, nothing else."""

from __future__ import annotations

import json
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


def _full() -> dict[str, Any]:
    """A schema with every field of the language: that of most words, and some of the kinds'."""
    most, kinds = (
        yaml.safe_load((ROOT / f"tests/golden/{case}/schema.yaml").read_text("utf-8"))
        for case in ("every_kind", "held_kinds")
    )
    values = {name: kinds["values"][name] for name in ("tails", "pool", "events")}
    parameters = {"pool_nbytes": kinds["parameters"]["pool_nbytes"]}
    return {
        **most,
        "variants": kinds["variants"],
        "questions": kinds["questions"],
        "parameters": {**most["parameters"], **parameters},
        "values": {**most["values"], **values},
    }


FULL = _full()


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


@pytest.mark.slow
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
