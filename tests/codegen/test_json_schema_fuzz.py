"""Mutated schemas: whatever a person may write, the loader and the JSON Schema agree on it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statekit_codegen import language
from statekit_codegen.structure import key_of
from tests.codegen.json_schema_judges import NOT_SAID, VALUES, refused, rules_against, validator
from tests.codegen.rule_cases import BASE

EXAMPLE = Path(__file__).parents[2] / "docs" / "example.yaml"
SEEDS: list[Any] = [
    yaml.safe_load(BASE),
    yaml.safe_load(EXAMPLE.read_bytes()),
]
NAMED: list[Any] = [getattr(language, name) for name in language.__all__]
KEYS = sorted({key_of(field) for cls in NAMED if attrs.has(cls) for field in attrs.fields(cls)})


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every node but the root."""
    entries = data.items() if isinstance(data, dict) else enumerate(data)
    found: list[tuple[Any, ...]] = []
    for key, below in entries:
        found.append((*path, key))
        if isinstance(below, (dict, list)):
            found += places(below, (*path, key))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A good schema with up to four of its nodes replaced, removed, renamed or added to."""
    data = copy.deepcopy(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        *above, last = draw(st.sampled_from(places(data)))
        node = data
        for step in above:
            node = node[step]
        what = draw(st.sampled_from(["replace", "replace", "remove", "rename", "add"]))
        value = copy.deepcopy(draw(st.sampled_from(VALUES)))
        if what == "remove":
            del node[last]
        elif what == "replace" or isinstance(node, list):
            node[last] = value
        elif what == "rename":
            node[draw(st.sampled_from(KEYS))] = node.pop(last)
        else:
            node[draw(st.sampled_from(KEYS))] = value
        if not places(data):
            break
    return data


def agree(data: Any) -> None:
    """Have both judges look at `data`."""
    rules = rules_against(yaml.safe_dump(data, sort_keys=False, allow_unicode=True).encode())
    if not rules:
        assert refused(data) == []
    elif not rules <= NOT_SAID.keys():
        assert not validator().is_valid(data), rules


@given(data=mutated())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_schema_when_both_are_asked_then_they_agree(data: Any) -> None:
    """What the loader accepts is accepted; what is refused, the loader refuses too."""
    agree(data)


@pytest.mark.soak
@given(data=mutated())
@settings(max_examples=5_000, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_schema_when_thousands_are_tried_then_the_same_holds(data: Any) -> None:
    """The same for many more mutants."""
    agree(data)
