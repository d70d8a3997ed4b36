"""The JSON Schema of the language beside the loader: what one accepts or refuses, the other does.

Both are asked about every good and every bad case that the tests have.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError

from statekit_codegen import language, nodes
from statekit_codegen.check import CHECKS
from statekit_codegen.cli import main
from statekit_codegen.json_schema import DIALECT, json_schema
from statekit_codegen.load import LOAD_RULES
from statekit_codegen.structure import key_of
from tests.codegen.json_schema_judges import NOT_SAID, OF_DATA, refused, rules_against, validator
from tests.codegen.rule_cases import BASE, CASES, Case

ROOT = Path(__file__).parents[2]

SCHEMAS = [
    *sorted((ROOT / "schemas").glob("*.yaml")),
    *sorted((ROOT / "tests" / "golden").glob("*/schema.yaml")),
    *sorted((ROOT / "tests" / "rules").glob("*/*.yaml")),
    ROOT / "docs" / "example.yaml",
]


def places_of(errors: Iterable[ValidationError]) -> Iterator[str]:
    """Where the errors lie, those of the alternatives that were tried too."""
    for error in errors:
        yield error.json_path
        yield from places_of(error.context)


def read(text: bytes) -> Any:
    """The data of a file as an editor's reader has it; None where nobody can read it."""
    return nodes.read(text, "toy.yaml").data


def bad(case: Case) -> bytes:
    """The bad schema of a case."""
    return BASE.replace(case.old, case.bad, 1).encode()


def test_schema_when_checked_then_it_is_of_the_draft_and_plain_json() -> None:
    """It is valid by the meta-schema of draft 2020-12, and JSON carries it without loss."""
    schema = json_schema()
    assert schema["$schema"] == DIALECT == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


def test_command_when_asked_for_help_then_it_fits_a_screen_and_has_an_example() -> None:
    """Help is at most 24 lines of 80 columns, and shows where the output goes."""
    out = io.StringIO()
    assert main(["schema", "--help"], out, out) == 0
    lines = out.getvalue().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "    $ statekit schema > .statekit.schema.json" in lines


def test_command_when_run_then_it_prints_one_json_document_in_ascii() -> None:
    """The output is the JSON Schema, and any terminal or pipe can carry it."""
    out, err = io.StringIO(), io.StringIO()
    assert main(["schema"], out, err) == 0
    assert json.loads(out.getvalue()) == json_schema()
    assert out.getvalue().isascii()
    assert err.getvalue() == ""


@pytest.mark.parametrize("file", SCHEMAS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_file_when_the_loader_accepts_it_then_so_does_the_json_schema(file: Path) -> None:
    """Schemas, goldens and the cases of vet are accepted, or refused, by both."""
    text = file.read_bytes()
    rules = rules_against(text)
    if not rules:
        assert refused(yaml.safe_load(text)) == []
    elif not rules <= NOT_SAID.keys():
        assert refused(yaml.safe_load(text)) != []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_good_case_when_validated_then_nothing_is_found(case: Case) -> None:
    """What is good beside a bad case is good for an editor too."""
    assert refused(read(BASE.replace(case.old, case.good, 1).encode())) == []


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.rule not in NOT_SAID], ids=lambda case: case.id
)
def test_bad_case_when_validated_then_it_is_refused(case: Case) -> None:
    """Every bad case of every rule that JSON Schema can express is refused."""
    assert refused(read(bad(case))) != []


BEYOND = [
    Case("EXPRESSION_GRAMMAR", "", "[H / 8, W]", "", '["(H / 8", W]'),
    Case("TYPE_GRAMMAR", "", "type: torch.Tensor\n", "", 'type: "list[torch.Tensor"\n'),
    Case("TYPE_FIT", "", "type: torch.Tensor\n", "", "type: torch.Tensor | None | int\n"),
]
"""Bad cases of rules whose cases in the table are all refused, but which go further."""


def test_allowed_rules_when_compared_with_the_cases_then_each_needs_to_be() -> None:
    """Each rule on the list has a case that the JSON Schema lets pass, or is not about data."""
    assert {rule.id for rule in (*CHECKS, *LOAD_RULES)} >= NOT_SAID.keys()
    cases = [*BEYOND, *(case for case in CASES if case.rule in OF_DATA)]
    assert all(rules_against(bad(case)) == {case.rule} for case in BEYOND)
    passed = {case.rule for case in cases if validator().is_valid(read(bad(case)))}
    assert OF_DATA - passed == {"MODEL_TWICE"}


def test_whole_number_when_written_with_a_point_then_json_cannot_tell() -> None:
    """The one misfit of form that passes: 2.0 is a whole number in JSON, and none in a schema."""
    text = BASE.replace("default: 2,", "default: 2.0,", 1).encode()
    assert rules_against(text) == {"WRONG_TYPE"}
    assert refused(read(text)) == []


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("type: int, default: 0", "type: integer, default: 0", "$.values.tick.type"),
        ("type: int, default: 0", 'type: int, default: "0"', "$.values.tick.default"),
        ("type: int, default: 0, coerce: int", "type: int", "$.values.tick"),
        ("type: int, default: 0", 'type: "list[int]", default: [1]', "$.values.tick.default"),
        ("[H / 8, W]", "[H ** 8, W]", "$.values.frames.shape[0]"),
        ("[H / 8, W]", "[0, W]", "$.values.frames.shape[0]"),
        ("bound: RING", "bound: 0", "$.values.frames.ring.bound"),
        ("bound: RING", 'bound: "1"', "$.values.frames.ring.bound"),
        ("    type: torch.Tensor", "    type: torch.Tensor | None", "$.values.kv.type"),
        ("key: kv{branch}/{layer}", "key: kv {branch}", "$.values.kv.key"),
        ("    key: kv{branch}/{layer}\n", "", "$.values.kv"),
        ("concat: 1", "concat: -1", "$.values.frames.view.concat"),
        ("type: int, default: 0", "type: int, ring: {bound: 1}, default: 0", "$.values.tick"),
    ],
)
def test_rules_beyond_json_schema_when_a_pattern_can_tell_then_it_does(
    old: str, new: str, place: str
) -> None:
    """Where a rule is beyond JSON Schema as a whole, its plain cases are refused at their place."""
    assert old in BASE
    data = read(BASE.replace(old, new, 1).encode())
    assert place in set(places_of(validator().iter_errors(data)))


LANGUAGE: list[Any] = [getattr(language, name) for name in language.__all__]
CLASSES = [cls for cls in LANGUAGE if isinstance(cls, type) and attrs.has(cls)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_key_when_an_editor_hovers_it_then_it_has_the_text_of_the_reference(
    cls: Any,
) -> None:
    """Each key of each mapping is a property with the help that the language page shows."""
    schema = json_schema()
    definition = schema if cls is language.Schema else schema["$defs"][cls.__name__]
    described = {key: form["markdownDescription"] for key, form in definition["properties"].items()}
    assert described == {key_of(field): field.metadata["help"] for field in attrs.fields(cls)}
    assert definition["additionalProperties"] is False


def test_text_when_it_breaks_a_pattern_then_an_editor_shows_words_instead() -> None:
    """Every pattern that a person can break has a message; no one reads patterns."""
    schema = json_schema()
    forms = [schema, *schema["$defs"].values()]
    shown = [part for form in forms for part in parts_of({**form, "allOf": [], "$defs": {}})]
    assert len(shown) > 20
    assert [part for part in shown if "pattern" in part and "errorMessage" not in part] == []


def parts_of(form: Any) -> Iterator[dict[str, Any]]:
    """Every mapping within a JSON Schema."""
    if isinstance(form, dict):
        yield form
    below = form.values() if isinstance(form, dict) else form
    for part in below if isinstance(form, (dict, list)) else ():
        yield from parts_of(part)
