"""The rules of vet: a good and a bad case each, in `tests/rules/RULE_ID/`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from statekit.errors import Problem, SchemaError
from statekit_codegen.breaking_rules import BREAKING_RULES
from statekit_codegen.check import CHECKS
from statekit_codegen.load import LOAD_RULES, load_text
from statekit_codegen.rules import RULES, vet

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "rules"

SHARED = ["RING_BOUND"]
"""Rules that refuse generation, with a case here all the same: vet reports them too."""

IDS = [rule.id for rule in RULES] + SHARED


def problems(file: Path) -> list[Problem]:
    """What vet, or the loader before it, finds in a file."""
    try:
        return vet(load_text(file.read_bytes(), file.name))
    except SchemaError as error:
        return list(error.problems)


def expected(file: Path) -> list[str]:
    """The `# expect: LINE:COLUMN RULE_ID` lines of a file, in order."""
    return re.findall(r"^# expect: (\d+:\d+ [A-Z_]+)$", file.read_text("utf-8"), re.MULTILINE)


def test_cases_when_compared_with_the_rules_then_each_rule_has_a_folder() -> None:
    """Every rule has cases, and every folder of cases has a rule."""
    assert sorted(folder.name for folder in CASES.iterdir()) == sorted(IDS)


@pytest.mark.parametrize("rule", IDS)
def test_good_case_when_vetted_then_nothing_is_found(rule: str) -> None:
    """The good case of a rule breaks no rule at all."""
    assert problems(CASES / rule / "good.yaml") == []


@pytest.mark.parametrize("rule", IDS)
def test_bad_case_when_vetted_then_exactly_the_expected_is_found(rule: str) -> None:
    """The bad case of a rule breaks that rule only, at the places that it lists."""
    bad = CASES / rule / "bad.yaml"
    found = [f"{problem.line}:{problem.column} {problem.rule}" for problem in problems(bad)]
    assert found == expected(bad)
    assert {line.split()[1] for line in found} == {rule}


def test_rules_when_listed_then_ids_are_unique_and_purposes_are_sentences() -> None:
    """An id names one rule, over all kinds of rules, and a purpose is one sentence."""
    rules = [*RULES, *(rule for rule in CHECKS), *LOAD_RULES, *BREAKING_RULES]
    ids = [rule.id for rule in rules]
    assert sorted(set(ids)) == sorted(ids)
    assert [name for name in ids if not re.fullmatch(r"[A-Z]+(_[A-Z]+)*", name)] == []
    assert [rule.purpose for rule in RULES if not re.fullmatch(r"[^\n]+\.", rule.purpose)] == []
    assert {rule.kind for rule in RULES} == {"vet"}


@pytest.mark.parametrize("file", sorted((ROOT / "schemas").glob("*.yaml")), ids=lambda f: f.stem)
def test_our_schemas_when_vetted_then_nothing_is_found(file: Path) -> None:
    """The schemas of this project break no rule."""
    assert problems(file) == []


def test_vet_when_several_rules_are_broken_then_findings_are_sorted_by_place() -> None:
    """Findings come in the order of the file, whatever rule they are of."""
    text = (CASES / "PARK_TIERS" / "bad.yaml").read_text("utf-8")
    found = vet(load_text(text.replace("    doc: ", "    # ").encode(), "bad.yaml"))
    places = [(finding.line, finding.column) for finding in found]
    assert places == sorted(places)
    assert {finding.rule for finding in found} == {"PARK_TIERS", "VALUE_DOC"}


def test_vet_when_there_is_no_reset_at_all_then_that_is_one_finding() -> None:
    """A schema without resets is told so once, not once for each value."""
    text = (CASES / "VALUE_NEVER_CLEARED" / "good.yaml").read_text("utf-8").split("resets:")[0]
    found = vet(load_text(text.encode(), "bad.yaml"))
    assert [(finding.rule, finding.path) for finding in found] == [
        ("VALUE_NEVER_CLEARED", "$.resets")
    ]
