"""What reviews and plans say of windows, fixed states, stores, lifetimes and open questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from statekit.spec import Index
from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.plan.answer import answer
from statekit_codegen.plan.document import to_json as plan_to_json
from statekit_codegen.plan.need import need_of
from statekit_codegen.plan.question import Question
from statekit_codegen.plan.words import remarks
from statekit_codegen.review import Bound, Review, Row, review
from statekit_codegen.review_change.comparison import compare
from statekit_codegen.review_json import to_json
from statekit_codegen.review_words import bound_words, facts, notes, sections
from statekit_codegen.rules import vet

SCHEMA = Path(__file__).parents[1] / "golden" / "held_kinds" / "schema.yaml"
TEXT = SCHEMA.read_text("utf-8")


def model(text: str = TEXT) -> Model:
    """The golden schema of these kinds, or an edit of it."""
    return load_text(text.encode(), "schemas/held_kinds.yaml")


def reviewed(text: str = TEXT) -> Review:
    """Its review, with the schema's own numbers."""
    return review(model(text), {}, 64)


def row(name: str, of: Review) -> Row:
    """The row of a value."""
    return next(one for one in of.rows if one.spec.name == name)


@pytest.mark.parametrize(
    ("name", "bound", "words"),
    [
        ("state", None, "fixed size, in place"),
        ("kv", Bound(6, "frames", "window", 1), "6 frames (window), the first 1 for good"),
        ("cross", Bound(4, "frames", "4"), "4 frames"),
        ("pool", Bound(65536, "bytes", "pool_nbytes"), "64.0 KiB (pool_nbytes)"),
        ("notes", Bound(4194304, "bytes", "4 * MIB"), "4.00 MiB (4 * MIB)"),
        ("events", None, "no bound"),
        ("few", Bound(3, "items", "3"), "3 items"),
    ],
)
def test_bound_when_of_a_kind_then_it_is_in_its_unit(
    name: str, bound: Bound | None, words: str
) -> None:
    """A window says what stays of its start, a store what it has in bytes."""
    found = row(name, reviewed())
    assert (found.bound, bound_words(found)) == (bound, words)


@pytest.mark.parametrize(
    ("name", "phrases"),
    [
        (
            "state",
            ["tests allow atol 7e-07: A convolution in fp32 sums in another order with several "],
        ),
        (
            "tails",
            ["+128 B only while a request runs", "tests allow atol 1, rtol 0.5: Another sum."],
        ),
        (
            "pool",
            ["under keys [16] float32, the nearest by cosine", "kept as float16", "on commit: "],
        ),
        ("events", ["no bound: ends with the session", "open: Is it ever read?"]),
        ("mask", ["+8 B only while a request runs"]),
    ],
)
def test_facts_when_of_a_kind_then_they_tell_what_the_schema_says(
    name: str, phrases: list[str]
) -> None:
    """Keys, codec, lifetime, tolerance and questions are told beside the reason."""
    of = reviewed()
    told = facts(of, row(name, of))
    assert [phrase for phrase in phrases if phrase not in told] == []
    assert "?." not in told


def test_sections_when_there_are_variants_and_questions_then_they_are_shown() -> None:
    """What is open comes last; what is there only for a request is told below the totals."""
    of = reviewed()
    shown = dict(sections(of))
    assert shown["Variants"] == [("wide", "W=16"), ("large", "H=8, W=16")]
    assert [*shown][-1] == "Open questions"
    assert shown["Open questions"] == [("1", "Does a second camera share the pool?")]
    assert "Only while a request runs, like a second copy: tails, mask." in notes(of)


def test_json_when_of_these_kinds_then_a_program_reads_all_of_it() -> None:
    """Fields are there for every value, null where it has none of that."""
    (found,) = json.loads(to_json([reviewed()], 64))["models"]
    values: dict[str, dict[str, Any]] = {one["name"]: one for one in found["values"]}
    assert values["pool"]["index"] == {"shape": ["16"], "dtype": "float32", "metric": "cosine"}
    assert values["pool"]["codec"] == {"cast": "float16"}
    assert values["kv"]["bound"] == {"limit": 6, "unit": "frames", "text": "window", "sink": 1}
    assert values["state"]["tolerance"] == {"atol": 7e-07, "rtol": 0.0}
    assert (values["mask"]["lifetime"], values["mask"]["nbytes"]) == ("request", 0)
    assert values["events"]["questions"] == ["Is it ever read?"]
    assert values["state"]["index"] is values["state"]["codec"] is None
    assert found["questions"] == ["Does a second camera share the pool?"]
    assert found["variants"]["wide"] == {"W": 16}


@pytest.mark.parametrize(
    ("old", "new", "name", "facet", "was", "now"),
    [
        ("metric: cosine", "metric: dot", "pool", "keys", "by cosine", "by dot"),
        ("cast: float16", "cast: bfloat16", "pool", "kept as", "float16", "bfloat16"),
        ("sink: SINK", "sink: 2", "kv", "bound", "the first 1", "the first 2"),
        ("atol: 0.0000007", "atol: 0.0000009", "state", "tolerance", "7e-07", "9e-07"),
        ('["Is it ever read?"]', "[]", "events", "questions", "Is it ever read?", ""),
        ("[detach]\n    lifetime: request", "[detach]", "tails", "lifetime", "request", "session"),
    ],
)
def test_change_when_a_word_of_a_kind_is_edited_then_its_facet_tells(
    old: str, new: str, name: str, facet: str, was: str, now: str
) -> None:
    """Every word is in a facet of its own, so an edit of it is seen in review."""
    assert TEXT.count(old) == 1
    before, after = {"a.yaml": model()}, [model(TEXT.replace(old, new))]
    (change,) = compare(before, after, {}, 64, all_schemas=True)
    (value,) = change.values
    edits = {edit.name: (edit.was, edit.now) for edit in value.edits}
    assert value.name == name
    assert was in edits[facet][0]
    assert now in edits[facet][1]


def test_plan_when_a_value_lives_for_a_request_then_a_waiting_session_has_none_of_it() -> None:
    """In use it is counted as a second copy; put away or not, nothing of it waits."""
    spec = model().spec
    need = need_of(spec, "x", Question(model_device="cuda:0"))
    (mask,) = (one for one in need.values if one.name == "mask")
    assert (mask.nbytes, mask.pending_nbytes, mask.of_a_request) == (0, 8, True)
    for relief in ((), ("park",), ("rebuild",), ("park", "rebuild")):
        waiting, used = need.staying(relief), need.in_use()
        assert used["cuda:0"] - waiting["cuda:0"] >= 8 + 128
        assert "mask" not in [one.name for one in need.parked(relief)]
    plan = answer([model()], Question(), None).models[0]
    assert "+8 B of mask only while a request runs, counted for every session." in remarks(plan)
    (found,) = json.loads(plan_to_json(answer([model()], Question(), None)))["models"]
    assert [one["name"] for one in found["values"] if one["of_a_request"]] == ["tails", "mask"]


def test_plan_when_a_bound_could_be_less_then_it_stays_above_the_sink_and_bytes_stay() -> None:
    """A window is never tried at its sink, and no store with one byte less."""
    tight = TEXT.replace("default: 6", "default: 2").replace("sink: SINK", "sink: 1")
    tight = tight.replace("minimum: 2, doc: frames", "minimum: 1, doc: frames")
    budgets = {"cuda:0": 10_000, "cpu": 2**30}
    for text, tried in ((TEXT, True), (tight, False)):
        fit = answer([model(text)], Question(budgets=budgets), None).models[0].fit
        assert fit is not None
        names = [gain.names[0] for gain in fit.gains if gain.change == "bound"]
        assert ("window" in names) == tried
        assert "cross" in names
        assert "pool_nbytes" not in names


def test_vet_when_a_parameter_may_be_at_the_sink_then_the_least_is_said() -> None:
    """The sink is counted by the bound, so a window at its sink keeps nothing new."""
    low = TEXT.replace("minimum: 2, doc: frames", "minimum: 1, doc: frames")
    (problem,) = (one for one in vet(model(low)) if one.rule == "PARAMETER_MINIMUM")
    assert problem.path == "$.parameters.window.minimum"
    assert problem.found == "minimum 1 for a parameter that bounds a ring with a sink of 1"
    assert problem.todo == "use minimum: 2 or more"


def test_vet_when_there_are_questions_then_each_is_a_finding_at_its_place() -> None:
    """A drafted schema loads and generates, and says what is still to be found out."""
    asked = [(one.path, one.found) for one in vet(model()) if one.rule == "OPEN_QUESTION"]
    assert asked == [
        ("$.values.events.questions[0]", "Is it ever read?"),
        ("$.questions[0]", "Does a second camera share the pool?"),
    ]


def test_spec_when_resolved_then_it_has_what_the_runtime_acts_on_and_no_question() -> None:
    """A fixed state is in place by nature; questions are words for a reader of the schema."""
    spec = model().spec
    assert {one.update for one in spec if one.object == "FixedState"} == {"in_place"}
    assert {one.update for one in spec if one.object != "FixedState"} == {"replaced"}
    assert spec["few"].index == Index(("3",), "float32", "euclidean")
    assert "question" not in repr(spec).lower()
    assert model(TEXT.replace("Is it ever read?", "Is it?")).spec == spec
