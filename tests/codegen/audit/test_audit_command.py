"""`statekit audit`: what is printed in each format, and the exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.conftest import Ran

Run = Callable[..., Ran]

SOURCE = """\
class ToyState:
    def __init__(self, window=3):
        self.window = window
        self.steps = 1
        self._extra = None

    def reset(self):
        self.steps = 0
"""
AGREES = """\
class ToyState:
    steps: int = 0

    def reset(self):
        self.steps = 0
"""
CALL = ("audit", "state.py:ToyState", "--schema", "schemas/toy.yaml")


@pytest.fixture
def project(toy: Path) -> Path:
    """A project with a schema and a class that differs from it."""
    (toy / "state.py").write_text(SOURCE, "utf-8")
    return toy


def test_audit_when_both_agree_then_it_says_so_and_exits_with_0(
    project: Path, statekit: Run
) -> None:
    """One line, and exit code 0."""
    (project / "state.py").write_text(AGREES, "utf-8")
    ran = statekit(*CALL)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == "ToyState and toy: 1 value and 1 reset compared; no differences\n"


def test_audit_when_they_differ_then_each_difference_is_a_line(
    project: Path, statekit: Run
) -> None:
    """Differences by place, with the place in the schema at the end, and exit code 1."""
    ran = statekit(*CALL)
    assert (ran.code, ran.stderr) == (1, "")
    assert ran.stdout.splitlines() == [
        "state.py:3:9: ATTRIBUTE_MISSING at window: the schema has no such value; "
        "describe it, or name it under outside (schemas/toy.yaml:5:1)",
        "state.py:4:9: DEFAULT_DIFFERS at steps: starts as 1 in the class, as 0 in the schema; "
        "mend the one that is wrong (schemas/toy.yaml:10:5)",
        "state.py:5:9: ATTRIBUTE_MISSING at _extra: the schema has no such value; "
        "describe it, or name it under outside (schemas/toy.yaml:5:1)",
        "ToyState and toy: 1 value and 1 reset compared; 3 differences",
    ]


def test_audit_when_names_are_ignored_then_they_are_not_compared(
    project: Path, statekit: Run
) -> None:
    """What differs on purpose is said in the call, and repeated in the summary."""
    ran = statekit(*CALL, "--ignore", "window", "--ignore", "_extra", "--ignore", "steps")
    assert ran.code == 0
    assert ran.stdout == (
        "ToyState and toy: 0 values and 1 reset compared, window, _extra and steps ignored; "
        "no differences\n"
    )


def test_audit_when_a_schema_names_it_as_outside_then_it_is_there_on_purpose(
    project: Path, statekit: Run
) -> None:
    """`outside` of the schema covers an attribute, with or without its underscore."""
    schema = project / "schemas" / "toy.yaml"
    text = "doc: A toy.\noutside: {extra: elsewhere, window: of the constructor}\n"
    schema.write_text(schema.read_text("utf-8").replace("doc: A toy.\n", text), "utf-8")
    ran = statekit(*CALL)
    assert ran.stdout.count("ATTRIBUTE_MISSING") == 0
    assert ran.code == 1


def test_audit_when_a_value_has_another_name_then_it_is_said_once(
    project: Path, statekit: Run
) -> None:
    """--rename pairs an attribute with a value of another name."""
    (project / "state.py").write_text(AGREES.replace("steps", "count"), "utf-8")
    assert statekit(*CALL).stdout.count("\n") == 3
    assert statekit(*CALL, "--rename", "count=steps").code == 0


def test_audit_when_asked_for_json_then_it_is_a_document(project: Path, statekit: Run) -> None:
    """JSON carries both places of each difference, and what was compared."""
    ran = statekit(*CALL, "--format", "json", "--ignore", "window", "--ignore", "_extra")
    assert ran.code == 1
    assert json.loads(ran.stdout) == {
        "schema": "statekit.audit/1",
        "class": "ToyState",
        "model": "toy",
        "compared": {"values": 1, "resets": 1},
        "ignored": ["window", "_extra"],
        "differences": [
            {
                "rule": "DEFAULT_DIFFERS",
                "name": "steps",
                "file": "state.py",
                "line": 4,
                "column": 9,
                "schema_file": "schemas/toy.yaml",
                "schema_line": 10,
                "schema_column": 5,
                "found": "starts as 1 in the class, as 0 in the schema",
                "todo": "mend the one that is wrong",
            }
        ],
        "notes": [],
    }


def test_audit_when_asked_for_annotations_then_they_say_what_the_text_says(
    project: Path, statekit: Run
) -> None:
    """An annotation stands beside each line of the class; notes are notices."""
    (project / "state.py").write_text(SOURCE.replace("None", "make()"), "utf-8")
    text = [line for line in statekit(*CALL).stdout.splitlines() if ": " in line][:-1]
    lines = statekit(*CALL, "--format", "github").stdout.splitlines()
    assert len(lines) == len(text)
    for line, said in zip(lines, text, strict=True):
        found = re.fullmatch(
            r"::(error|notice) file=(.*),line=(\d+),col=(\d+),title=(\w+)::(.*)", line
        )
        assert found is not None
        place = f"{unquote(found[2])}:{found[3]}:{found[4]}: {found[5]} at {unquote(found[6])}"
        assert said == place


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ignore", "stepz"), "--ignore: nothing is called stepz; did you mean steps?"),
        (("--rename", "x=steps"), "--rename: nothing is called x;"),
        (("--rename", "steps=x"), "--rename: nothing is called x;"),
        (("--rename", "steps"), "write ATTRIBUTE=VALUE"),
        (("--schema", "schemas/none.yaml"), "schemas/none.yaml:1:1: FILE_READABLE"),
        (("--schema", "state.py"), "state.py:"),
    ],
)
def test_audit_when_it_cannot_run_then_it_says_why(
    project: Path, statekit: Run, arguments: tuple[str, ...], said: str
) -> None:
    """Every mistake of a call is a message on stderr and exit code 2."""
    ran = statekit(*CALL, *arguments)
    assert (ran.code, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert "internal" not in ran.stderr
