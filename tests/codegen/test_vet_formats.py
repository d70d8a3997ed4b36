"""The formats of vet: a program, or GitHub, reads back exactly what a person reads."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statekit_codegen.annotation import annotation
from statekit_codegen.cli import main

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "tests" / "rules").iterdir())
_ANNOTATION = re.compile(r"::(\w+) (\w+=[^,]*(?:,\w+=[^,]*)*)::(.*)")
_PROBLEM = re.compile(r"(?s)(.*?):(\d+):(\d+): ([A-Z_]+) at (\$.*)")


def run(*args: str) -> tuple[int, str]:
    """Exit code of vet, and what it printed to either stream."""
    out = io.StringIO()
    return main(["vet", *args], out, out), out.getvalue()


def read_back(line: str) -> tuple[str, dict[str, str], str]:
    """Level, properties and message of an annotation, as GitHub decodes them."""
    found = _ANNOTATION.fullmatch(line)
    assert found is not None, line
    pairs = (pair.split("=", 1) for pair in found[2].split(","))
    return found[1], {name: unquote(text) for name, text in pairs}, unquote(found[3])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_vet_when_asked_in_three_formats_then_all_say_the_same(
    rule: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text, JSON and annotations carry the same problems in the same order, and one exit code."""
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "toy.yaml").write_bytes((rule / "bad.yaml").read_bytes())
    (tmp_path / "pyproject.toml").write_text('[tool.statekit]\nschemas = "schemas"\noutput = "o"\n')
    monkeypatch.chdir(tmp_path)
    code, text = run()
    said = [match.groups() for line in text.splitlines() if (match := _PROBLEM.fullmatch(line))]
    assert said

    json_code, document = run("--format", "json")
    (problems,) = (part for name, part in json.loads(document).items() if name != "schema")
    assert said == [
        (
            one["file"],
            str(one["line"]),
            str(one["column"]),
            one["rule"],
            f"{one['path']}: {one['found']}; {one['todo']}",
        )
        for one in problems
    ]

    github_code, lines = run("--format", "github")
    annotations = [read_back(line) for line in lines.splitlines()]
    assert {level for level, _, _ in annotations} == {"error"}
    assert said == [
        (place["file"], place["line"], place["col"], place["title"], message)
        for _, place, message in annotations
    ]
    assert code == json_code == github_code


@given(
    texts=st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]), max_size=20)] * 3),
    line=st.integers(1, 10**6),
)
def test_annotation_when_texts_are_hostile_then_none_can_begin_another_one(
    texts: tuple[str, str, str], line: int
) -> None:
    """Whatever file, title and message are, the annotation is one line and reads back."""
    file, title, message = texts
    made = annotation("error", file, line, 1, title, message)
    assert "\n" not in made
    assert "\r" not in made
    properties = {"file": file, "line": str(line), "col": "1", "title": title}
    found = re.fullmatch(r"::error (.*?)::(.*)", made, re.DOTALL)
    assert found is not None
    read = dict(pair.split("=", 1) for pair in found[1].split(","))
    assert {name: unquote(text) for name, text in read.items()} == properties
    assert unquote(found[2]) == message
