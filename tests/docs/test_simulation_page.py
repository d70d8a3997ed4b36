"""The page on the simulation: its figures follow from its reports, made with today's schemas."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest

from statekit.simulation.kind import Kind
from statekit_codegen.cli import main
from statekit_codegen.load import load_models
from statekit_codegen.project import Project
from statekit_codegen.simulated.page import table
from statekit_codegen.simulated.report import Report, from_json
from statekit_codegen.simulated.svg import over, sessions
from statekit_codegen.simulated.words import assumptions

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulation.md"
TEXT = PAGE.read_text(encoding="utf-8")
WORDS = " ".join(TEXT.split())
NAMES = tuple(sorted(path.name for path in (ROOT / "docs" / "simulation").iterdir()))
CURE = "run the page's commands again, with --out docs/simulation/NAME"


def report(name: str) -> Report:
    """One of the reports that the page tells of."""
    file = ROOT / "docs" / "simulation" / name / "report.json"
    return from_json(file.read_text(encoding="utf-8"), str(file))


@pytest.mark.parametrize("name", NAMES)
def test_page_when_a_report_is_drawn_again_then_its_files_are_what_is_there(name: str) -> None:
    """Tables and drawings follow from the report; nobody has edited them."""
    folder = ROOT / "docs" / "simulation" / name
    found = report(name)
    assert (folder / "table.md").read_text(encoding="utf-8") == table(found)
    assert (folder / "sessions.svg").read_text(encoding="utf-8") == sessions(found)
    assert (folder / "over.svg").read_text(encoding="utf-8") == over(found)


@pytest.mark.parametrize("name", NAMES)
def test_page_when_schemas_change_then_its_reports_are_made_again(name: str) -> None:
    """The bytes that a report was made with are those that the schemas declare now."""
    found = report(name)
    models = {model.spec.model: model.spec for model in load_models(Project.find(ROOT), ())}
    for model, declared in found.declared.items():
        now = Kind(models[model], (), found.model_device, {}).declared
        assert dict(now) == declared, f"{model}: {CURE}"


@pytest.mark.parametrize("name", NAMES)
def test_page_when_it_shows_figures_then_those_of_a_report_and_the_command_that_made_it(
    name: str,
) -> None:
    """The table of each report, there or one click away, and how to make it again."""
    found = report(name)
    page = ROOT / "docs" / "simulation" / name / "table.md"
    assert page.read_text(encoding="utf-8") == table(found)
    shown = all(part.strip() in TEXT for part in table(found).split("\n\n"))
    assert shown or f"(simulation/{name}/table.md)" in TEXT
    assert f"{found.command} --out docs/simulation/{name}" in WORDS.replace("\\ ", "")


def test_page_when_it_says_what_is_assumed_then_as_the_command_does() -> None:
    """The distributions and the bandwidths, word by word."""
    for said in assumptions(report(NAMES[0]))[1:]:
        assert said in WORDS


def test_page_when_its_small_command_is_run_then_it_prints_what_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The example ends well, and what is shown is a part of its output."""
    monkeypatch.chdir(ROOT)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    found = re.search(
        r"```sh\n(statekit simulate [^`]*--load 4)\n```\n\n```text\n(.*?)```", TEXT, re.S
    )
    assert found is not None
    out, err = io.StringIO(), io.StringIO()
    assert main(shlex.split(found[1])[1:], out, err) == 0
    assert found[2].rstrip("\n") in out.getvalue()
