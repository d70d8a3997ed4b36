"""The reference pages: what they hold, and how staleness shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import attrs
import pytest

import statekit as statekit_runtime
from statekit_codegen import language
from statekit_codegen.breaking_rules import BREAKING_RULES
from statekit_codegen.check import CHECKS
from statekit_codegen.cli import statekit
from statekit_codegen.load import LOAD_RULES, load_text
from statekit_codegen.reference import pages, reference
from statekit_codegen.rules import RULES, vet

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

NAMED = [getattr(language, name) for name in language.__all__]
CLASSES = [named for named in NAMED if isinstance(named, type) and attrs.has(named)]


@pytest.fixture(scope="module")
def text() -> dict[str, str]:
    """The pages as they are generated now."""
    return pages(ROOT / "docs")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A docs folder with nothing generated in it, and what the pages are made from."""
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "example.yaml", tmp_path / "docs")
    shutil.copytree(ROOT / "tests" / "rules", tmp_path / "tests" / "rules")
    return tmp_path / "docs"


def run(*args: str) -> int:
    """The exit code of the command."""
    code: int = reference.main(list(args), standalone_mode=False)
    return code


def test_example_when_loaded_and_vetted_then_nothing_is_found() -> None:
    """The example of the language page is a schema without a finding."""
    model = load_text((ROOT / "docs" / "example.yaml").read_bytes(), "docs/example.yaml")
    assert vet(model) == []


def test_example_when_shown_then_it_is_the_very_file(text: dict[str, str]) -> None:
    """The language page shows the example that is tested."""
    assert (ROOT / "docs" / "example.yaml").read_text("utf-8") in text["language.md"]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_language_page_when_generated_then_it_has_every_key(
    cls: type[attrs.AttrsInstance], text: dict[str, str]
) -> None:
    """Each class of the language has a section with a row for each of its keys, in order."""
    section = text["language.md"].split(f"\n## {cls.__name__}\n")[1].split("\n## ")[0]
    rows = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    assert rows == [field.metadata["key"] or field.name for field in attrs.fields(cls)]


def test_language_page_when_a_key_is_recorded_only_then_it_says_so(text: dict[str, str]) -> None:
    """Exactly the keys that no code acts on are marked."""
    fields = [field for cls in CLASSES for field in attrs.fields(cls)]
    marked = sum(bool(field.metadata["recorded"]) for field in fields)
    assert text["language.md"].count("*Recorded only.*") == marked


def test_rules_page_when_generated_then_it_has_every_rule_and_its_example(
    text: dict[str, str],
) -> None:
    """Each rule is in a table, and each rule of vet has an example with its message."""
    page = text["rules.md"]
    for rule in (*RULES, *CHECKS, *LOAD_RULES, *BREAKING_RULES):
        assert page.count(f"| `{rule.id}` | {rule.purpose} | {rule.since} |") == 1
    examples = [part.split("\n")[0] for part in page.split("\n### ")[1:]]
    assert examples == [*(rule.id for rule in RULES), "RING_BOUND"]
    assert "> a group of 1; name the values that belong together, or remove the group" in page


def test_cli_page_when_generated_then_it_has_the_help_of_every_command(
    text: dict[str, str],
) -> None:
    """Each command has a section that begins with its usage."""
    for name in statekit.commands:
        assert f"## {name}\n\n```text\nUsage: statekit {name} " in text["cli.md"]


def test_breaking_page_when_generated_then_its_example_and_verdicts_are_those_of_the_command(
    text: dict[str, str],
) -> None:
    """The page shows what the command prints, and tells each kind of change from the others."""
    page = text["breaking.md"]
    assert "4 breaking changes in 1 of 1 model against main" in page
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    verdicts = {words: (code, saved) for words, code, saved in rows[1:]}
    assert len(verdicts) == len(rows) - 1
    assert verdicts["a value is added"] == ("goes on", "goes on")
    assert verdicts["a value is renamed"] == (
        "breaks: `SOURCE_VALUE_GONE`",
        "breaks: `SNAPSHOT_VALUE_GONE`",
    )
    known = {rule.id for rule in BREAKING_RULES}
    assert set(re.findall(r"`((?:SOURCE|SNAPSHOT)_[A-Z_]+)`", page)) <= known


def test_api_page_when_generated_then_it_has_every_public_name(text: dict[str, str]) -> None:
    """Each name that `statekit` exports has a line, and a place for its signature and docstring."""
    for name in set(statekit_runtime.__all__) - {"__version__"}:
        in_errors = name.endswith("Error")
        assert in_errors or f"\n| `{name}` | " in text["api.md"]
        assert in_errors or re.search(rf"^::: statekit\.[a-z0-9_.]+\.{name}$", text["api.md"], re.M)


def test_json_schema_when_generated_then_it_is_what_the_command_prints(
    text: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The file beside the pages is the JSON Schema of this version."""
    assert statekit.main(["schema"], standalone_mode=False) is None
    assert capsys.readouterr().out == text["statekit.schema.json"]


def test_pages_when_generated_then_the_first_line_says_so(text: dict[str, str]) -> None:
    """A page begins with the command that wrote it, and ends with one line break."""
    for page in (text[name] for name in text if name.endswith(".md")):
        first = page.splitlines()[0]
        assert first == (
            "<!-- Generated by `python -m statekit_codegen.reference docs`. DO NOT EDIT. -->"
        )
        assert page.endswith("\n")
        assert not page.endswith("\n\n")


def test_check_when_pages_were_just_written_then_nothing_is_stale(
    docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written pages are unchanged for the check, and for the next write."""
    assert run(str(docs)) == 0
    assert capsys.readouterr().out.count("wrote ") == len(pages(docs))
    assert run(str(docs), "--check") == 0
    assert run(str(docs)) == 0
    assert capsys.readouterr().out.count("unchanged ") == 2 * len(pages(docs))


def test_check_when_a_page_is_stale_then_it_shows_the_difference_and_writes_nothing(
    docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed page and a missing one are named with a diff; neither is touched."""
    run(str(docs))
    page = docs / "cli.md"
    page.write_text(page.read_text("utf-8").replace("# Command line", "# Commands"), "utf-8")
    (docs / "rules.md").unlink()
    capsys.readouterr()
    assert run(str(docs), "--check") == 1
    out = capsys.readouterr().out
    assert f"changed {page.as_posix()}\n" in out
    assert "\n-# Commands\n+# Command line\n" in out
    assert f"missing {(docs / 'rules.md').as_posix()}\n" in out
    assert "# Commands" in page.read_text("utf-8")
    assert not (docs / "rules.md").exists()
