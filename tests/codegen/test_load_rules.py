"""Every rule that refuses a schema: a good and a bad case, to the line and the column."""

from __future__ import annotations

import re

import pytest

from statekit.errors import SchemaError
from statekit_codegen.check import CHECKS
from statekit_codegen.load import LOAD_RULES, load_text
from tests.codegen.rule_cases import BASE, CASES, Case

BY_BYTES = {"FILE_EMPTY", "FILE_ENCODING", "FILE_SIZE", "YAML_LIMIT"}
"""Rules with their cases in test_load_bytes.py."""
BY_FILES = {"FILE_READABLE", "MODEL_TWICE"}
"""Rules with their cases in test_load_files.py."""


def found(text: str) -> list[str]:
    """The problems of a schema, each as `LINE:COLUMN RULE`."""
    try:
        load_text(text.encode(), "toy.yaml")
    except SchemaError as error:
        return [f"{one.line}:{one.column} {one.rule}" for one in error.problems]
    return []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rule_when_broken_then_it_alone_is_found_at_the_place(case: Case) -> None:
    """The bad case breaks one rule, once, at the place that the table gives."""
    assert found(BASE.replace(case.old, case.bad, 1)) == [f"{case.place} {case.rule}"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rule_when_kept_then_nothing_is_found(case: Case) -> None:
    """The good case, close to the bad one, is a schema."""
    assert found(BASE.replace(case.old, case.good, 1)) == []


def test_rules_when_compared_with_cases_then_each_has_one() -> None:
    """No rule is without a bad case, and no case without a rule."""
    rules = {rule.id for rule in (*LOAD_RULES, *CHECKS)}
    assert {case.rule for case in CASES} | BY_BYTES | BY_FILES == rules


def test_rules_when_listed_then_they_are_records_for_a_page() -> None:
    """Ids are words in capitals, purposes sentences, kinds those of the two tables."""
    rules = [*LOAD_RULES, *CHECKS]
    assert [rule.id for rule in rules if not re.fullmatch("[A-Z]+(_[A-Z]+)+", rule.id)] == []
    assert [rule.id for rule in rules if not re.fullmatch(r"[A-Z`].*\.", rule.purpose)] == []
    assert {rule.kind for rule in LOAD_RULES} == {"load"}
    assert {rule.kind for rule in CHECKS} == {"check"}


def test_messages_when_printed_then_each_is_place_rule_path_found_and_todo() -> None:
    """A problem is one line of the promised form, with both what was found and what to do."""
    form = re.compile(r"toy\.yaml:\d+:\d+: [A-Z_]+ at \$[^;\n]*: [^;\n]+; [^\n]+")
    for case in CASES:
        with pytest.raises(SchemaError) as caught:
            load_text(BASE.replace(case.old, case.bad, 1).encode(), "toy.yaml")
        assert form.fullmatch(str(caught.value)), str(caught.value)


MANY = BASE.replace("H: 16", "H: 0x10").replace(
    "type: int, default: 0,", "type: integer, bogus: 1,"
)
MANY = MANY.replace("object: LatentBuffer", "object: LatentBufer").replace("uint8", "unit8")
MANY = MANY.replace("part: {clears: [tick]}", "part: {clears: [ticks], keeps: []}\n  part: {}")


def test_problems_when_of_several_kinds_then_all_are_found_in_order() -> None:
    """Misfits of the form do not hide faults of the meaning, in the same value or in others."""
    assert found(MANY) == [
        "6:14 YAML_SURPRISE",
        "16:25 TYPE_GRAMMAR",
        "16:40 UNKNOWN_KEY",
        "20:5 NOT_ONE_OF",
        "22:5 DTYPE_KNOWN",
        "40:3 CHOICE_ONE",
        "40:19 REFERENCE_UNKNOWN",
        "41:3 KEY_DUPLICATE",
    ]


@pytest.mark.parametrize(
    ("old", "bad", "expected"),
    [
        ("symbols: {H: 16, W: 32}", "symbols: 5", ["6:1 WRONG_TYPE"]),
        ("symbols: {H: 16, W: 32}", "symbols: {H: x, W: 32}", ["6:11 WRONG_TYPE"]),
        ("window: {type: int, default: 2,", "window: {type: int,", ["9:3 MISSING_KEY"]),
        ("layer: {doc: Layers., count: 4}", "layer: {count: 4}", ["12:3 MISSING_KEY"]),
        ("families:\n", "families: 1\nx:\n", ["10:1 WRONG_TYPE", "11:1 UNKNOWN_KEY"]),
        ("\nvalues:\n", "\nvalues: []\nx:\n", ["15:1 WRONG_TYPE", "16:1 UNKNOWN_KEY"]),
        ("bucket: attrs, type: int,", "x: 1, ", ["16:3 MISSING_KEY", "16:10 UNKNOWN_KEY"]),
    ],
)
def test_problems_when_something_is_in_doubt_then_nothing_is_found_only_for_that(
    old: str, bad: str, expected: list[str]
) -> None:
    """What hangs on a part with a problem is not reported beside that problem."""
    assert found(BASE.replace(old, bad, 1)) == expected


def test_problems_when_the_version_is_another_then_nothing_else_is_said() -> None:
    """The words of another version may mean something else."""
    assert found("statekit: 2\nmodel: 1\nfoo: bar\n") == ["1:1 LANGUAGE_VERSION"]


LONG = "x" * 65
MANY_MEMBERS = ", ".join(f"m{number}: x{number}" for number in range(257))


@pytest.mark.parametrize(
    ("old", "bad", "expected"),
    [
        ("H: 16", f"H: 16, {LONG[:64]}: 1", []),
        ("H: 16", f"H: 16, {LONG}: 1", ["6:18 NAME_FORM"]),
        ("uncond: _neg", f"uncond: {'x' * 128}", []),
        ("uncond: _neg", f"uncond: {'x' * 129}", ["11:48 KEY_TEMPLATE"]),
        ("key: kv{branch}/{layer}", f"key: 'k{{branch}}{'x' * 112}{{layer}}'", []),
        (
            "key: kv{branch}/{layer}",
            f"key: 'k{{branch}}{'x' * 113}{{layer}}'",
            ["32:5 KEY_TEMPLATE"],
        ),
        ('cond: "", uncond: _neg', MANY_MEMBERS.rpartition(",")[0], []),
        ('cond: "", uncond: _neg', MANY_MEMBERS, ["33:5 FAMILY_FIT"]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_limits_when_passed_by_one_then_the_rule_finds_it(
    old: str, bad: str, expected: list[str]
) -> None:
    """The limits on names, keys and members are where the messages say."""
    assert found(BASE.replace(old, bad, 1)) == expected


def test_values_when_there_are_none_then_the_schema_is_refused() -> None:
    """A schema without values describes nothing."""
    head = BASE[: BASE.index("values:")]
    assert found(head + "values: {}\n") == ["15:1 LIST_EMPTY"]


@pytest.mark.parametrize(
    ("old", "bad", "words"),
    [
        ("model: toy", "model: class", "class is a word of Python"),
        ("dtype: uint8", "dtype: unit8", "did you mean uint8?"),
        ("[H / 8, W]", "[H / 7, W]", "'H / 7' with H = 16: 16 / 7 leaves a remainder"),
        ("[tick, noise]", "[tick, nois]", "did you mean noise?"),
        ("coerce: int", "coerc: int", "did you mean coerce?"),
        ("kept: true", "kept: yes", 'a boolean to a YAML reader: True; write "yes" if it is text'),
        ("doc: A toy.", "doc: 12:30", "a number to a YAML reader: 750"),
        ("item: np.ndarray", "item: Tensor", "write torch.Tensor"),
        ("{clears: all}", "{clears: 1}", "found the number 1; write all or a list, each entry a"),
        ("doc: A toy.", "doc: 5", "found the number 5; write a text, in quotes if this is one"),
        ("doc: A toy.", "doc:", "found nothing; write a text"),
        ("{RING: 4}", "{RING: x}", "found the text 'x'; write a whole number"),
        ("{RING: 4}", "[4]", "found a list; write a mapping of names, each with a whole number"),
        ("type: int, default: 2", "type: str, default: 2", "use int"),
        ("kept: true", "kept: maybe", "found the text 'maybe'; write true or false"),
        (", device: none", "", "the key 'device' is missing; add it: `cpu`"),
        ("uncond: _neg", 'uncond: ""', "'kv/{layer}' may be a key of another member of its family"),
        ("{bound: RING, axis: 0}", "{}", "neither bound nor unbounded; say exactly one"),
        ("{over: tp}", "{dim: 1}", "neither over nor rank"),
        ("{clears: all}", "{}", "neither clears nor keeps"),
        (", count: 4}", "}", "neither members nor count"),
        ("bound: RING", "bound: H", "H is a symbol, which no adapter knows when it runs"),
        ("default: 0, coerce", "coerce", "no default for the type int; add default: 0"),
        ("[H / 8, W]", "[max, W]", "unknown number max; write max(a, b)"),
        ("H: 16", "min: 3, H: 16", "the grammar of expressions uses itself"),
        ("{over: tp}", "5", "write replicated or a mapping with over, dim, rank"),
        ("shape: [H, W],", "elements: {first: 1, then: x y},", "'x y': not an expression"),
        ("device: cuda}", "device: cuda, elements: []}", "or a text or a whole number"),
    ],
)
def test_message_when_a_person_reads_it_then_it_says_what_to_write(
    old: str, bad: str, words: str
) -> None:
    """Messages name what was found in the file's own terms, and a cure that fits."""
    with pytest.raises(SchemaError) as caught:
        load_text(BASE.replace(old, bad, 1).encode(), "toy.yaml")
    assert words in str(caught.value)


def test_unknown_key_when_it_is_the_rest_of_a_text_then_the_cure_is_quotes() -> None:
    """A comma that ends a text inside { } is explained, not only reported as an unknown key."""
    text = BASE.replace("doc: Frames.", "doc: Frames., really", 1)
    with pytest.raises(SchemaError) as caught:
        load_text(text.encode(), "toy.yaml")
    assert any("quote the text" in problem.todo for problem in caught.value.problems)
