"""`statekit vet`: what is printed where, and the exit code."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from statekit_codegen.cli import main

CASES = Path(__file__).parents[1] / "rules"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The schemas folder of an empty project, which the tests run in."""
    table = '[tool.statekit]\nschemas = "schemas"\noutput = "generated"\n'
    (tmp_path / "pyproject.toml").write_text(table, "utf-8")
    (tmp_path / "schemas").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "schemas"


def copy(rule: str, case: str, file: Path, model: str = "toy") -> None:
    """Put a case of a rule into a project."""
    text = (CASES / rule / f"{case}.yaml").read_text("utf-8")
    file.write_text(text.replace("model: toy\n", f"model: {model}\n"), "utf-8")


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `statekit vet`."""
    out, err = io.StringIO(), io.StringIO()
    return main(["vet", *args], out, err), out.getvalue(), err.getvalue()


def test_vet_when_nothing_is_found_then_it_says_so_and_exits_with_0(project: Path) -> None:
    """A clean project gives one line."""
    copy("VALUE_DOC", "good", project / "toy.yaml")
    assert run() == (0, "1 schema, no findings\n", "")


def test_vet_when_rules_are_broken_then_each_finding_is_a_line(project: Path) -> None:
    """Findings of all files go to stdout, by file and place, and the exit code is 1."""
    copy("RESET_DOC", "bad", project / "b.yaml", "b")
    copy("DEVICE_NONE", "bad", project / "a.yaml", "a")
    copy("RESET_DOC", "good", project / "c.yaml", "c")
    code, out, err = run()
    heads = [line.split(" at ")[0] for line in out.splitlines()]
    assert heads == [
        "schemas/a.yaml:13:5: DEVICE_NONE",
        "schemas/a.yaml:22:5: DEVICE_NONE",
        "schemas/b.yaml:15:3: RESET_DOC",
        "3 findings in 2 of 3 schemas",
    ]
    assert (code, err) == (1, "")


def test_vet_when_one_schema_is_named_then_only_it_is_read(project: Path) -> None:
    """A schema on the command line takes the place of all others."""
    copy("RESET_DOC", "bad", project / "b.yaml")
    copy("RESET_DOC", "good", project / "c.yaml")
    assert run("schemas/c.yaml") == (0, "1 schema, no findings\n", "")


def test_vet_when_a_schema_is_unusable_then_its_problems_go_to_stderr(project: Path) -> None:
    """What the loader refuses is printed in the same form, and the exit code is 2."""
    copy("RING_BOUND", "bad", project / "toy.yaml")
    code, out, err = run()
    assert (code, out) == (2, "")
    assert [line.split(" at ")[0] for line in err.splitlines()] == [
        "schemas/toy.yaml:16:12: RING_BOUND",
        "schemas/toy.yaml:26:12: RING_BOUND",
    ]


def test_vet_when_asked_for_json_then_findings_are_a_document(project: Path) -> None:
    """JSON carries every field of a finding under a schema id, and an empty list if clean."""
    copy("RESET_DOC", "bad", project / "toy.yaml")
    code, out, _ = run("--format", "json")
    assert code == 1
    assert json.loads(out) == {
        "schema": "statekit.vet/1",
        "findings": [
            {
                "file": "schemas/toy.yaml",
                "line": 15,
                "column": 3,
                "rule": "RESET_DOC",
                "path": "$.resets.session.doc",
                "found": "no doc",
                "todo": "say in a sentence when it happens",
            }
        ],
    }
    copy("RESET_DOC", "good", project / "toy.yaml")
    assert json.loads(run("--format", "json")[1])["findings"] == []


def test_vet_when_a_schema_is_unusable_and_json_is_asked_for_then_stderr_is_json(
    project: Path,
) -> None:
    """The problems of the loader are a JSON document too, on stderr."""
    copy("RING_BOUND", "bad", project / "toy.yaml")
    code, out, err = run("--format", "json")
    assert (code, out) == (2, "")
    assert [problem["line"] for problem in json.loads(err)["problems"]] == [16, 26]


def test_vet_when_asked_for_annotations_then_what_they_reserve_is_escaped(project: Path) -> None:
    """Commas and colons in properties and per cents anywhere can't end an annotation."""
    copy("RESET_DOC", "bad", project / "a,b:50%.yaml")
    code, out, _ = run("--format", "github")
    assert code == 1
    assert out == (
        "::error file=schemas/a%2Cb%3A50%25.yaml,line=15,col=3,title=RESET_DOC::"
        "$.resets.session.doc: no doc; say in a sentence when it happens\n"
    )


def test_vet_when_there_is_no_project_then_it_could_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside a project the exit code is 2 and the message says what to add."""
    monkeypatch.chdir(tmp_path)
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "add [tool.statekit]" in err


@pytest.mark.parametrize("command", ["vet", "review"])
def test_help_when_printed_then_it_fits_a_screen_and_has_an_example(command: str) -> None:
    """Help is at most 24 lines of 80 columns."""
    out = io.StringIO()
    assert main([command, "--help"], out, out) == 0
    lines = out.getvalue().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert f"statekit {command} schemas/toy.yaml" in out.getvalue()
