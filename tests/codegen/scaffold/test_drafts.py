"""Drafts: the schema of each idiom as it is drafted, and what holds for every draft."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from statekit_codegen.reading.facts import HandRolled
from statekit_codegen.reading.reader import read_class, read_source
from statekit_codegen.reading.source import Target
from statekit_codegen.scaffold.document import draft
from statekit_codegen.scaffold.holder import session_values
from statekit_codegen.scaffold.subclass import subclass
from statekit_codegen.scaffold.unset import read_and_never_set
from statekit_codegen.scaffold.yaml_text import scalar
from tests.codegen.scaffold.sources import CASES, ROOT, audited, drafted, findings, read

_CLASSES = {
    "attrs_class": "StreamState",
    "dataclass": "CacheState",
    "every_question": "Askew",
    "helpers": "Pipeline.State",
    "plain": "RolloutState",
    "slots": "SlotState",
    "tables": "TableState",
}
_HAND_ROLLED = {
    "cosmos3": "HandRolledCosmos3State",
    "dreamzero": "HandRolledDreamZeroState",
}
_EVERY = [*_CLASSES, *_HAND_ROLLED]
_GOLDENS = Path(__file__).parent / "cases"


def state_of(case: str) -> HandRolled:
    """The class of a case, or a hand-rolled one of the equivalence tests."""
    if case in _CLASSES:
        path, name, file = _GOLDENS / case / "state.py.txt", _CLASSES[case], "model/state.py"
    else:
        path = ROOT / "tests" / "equivalence" / f"hand_rolled_{case}.py"
        name, file = _HAND_ROLLED[case], f"hand_rolled_{case}.py"
    return read_source(path.read_bytes(), Target(Path(file), name), file)


def drafts(case: str) -> dict[str, str]:
    """What is drafted for a case, by the name of its golden."""
    state = state_of(case)
    return {"draft.yaml": draft(state, case), "subclass.py.txt": subclass(state, f"app.{case}")}


@pytest.mark.parametrize("case", _EVERY)
def test_draft_when_made_then_it_is_the_golden(case: str, request: pytest.FixtureRequest) -> None:
    """Every draft is, byte for byte, the one that was reviewed."""
    for name, text in drafts(case).items():
        golden = _GOLDENS / case / name
        if request.config.getoption("--golden-update"):
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(text, "utf-8")
        assert text == golden.read_text("utf-8"), f"run with --golden-update to accept {golden}"


def test_cases_when_listed_then_each_has_a_class() -> None:
    """No folder of cases is forgotten."""
    assert {path.name for path in CASES} == set(_EVERY)


@pytest.mark.parametrize("case", _EVERY)
def test_draft_when_loaded_then_every_question_is_a_finding(case: str) -> None:
    """A draft loads, and `vet` lists each of its questions, once."""
    model = drafted(state_of(case))
    schema = model.schema
    asked = [*schema.questions, *(q for v in schema.values.values() for q in v.questions)]
    assert len(findings(model, "OPEN_QUESTION")) == len(asked)
    assert all(text.endswith(("?", ".")) for text in asked)


@pytest.mark.parametrize("case", _EVERY)
def test_draft_when_audited_at_once_then_nothing_differs(case: str) -> None:
    """A draft says nothing that the class does not."""
    state = state_of(case)
    assert audited(state, draft(state)).differences == ()


@pytest.mark.parametrize("case", _EVERY)
def test_draft_when_it_has_a_placeholder_then_a_question_says_so(case: str) -> None:
    """Unknown types, sizes, devices and bounds are asked about, never filled in silently."""
    model = drafted(state_of(case))
    for name, value in model.schema.values.items():
        text = " ".join(value.questions)
        if "None" in (value.type or value.item or "").replace("| None", ""):
            assert "Which type?" in text, name
        holds = "Tensor" in (value.type or value.item or "")
        if holds and value.device == "model":
            assert "device? " in text, name
        if holds and value.shape is None:
            assert "shape" in text, name
        if value.ring is not None and value.ring.bound is None:
            assert "growth" in text or "How many stay" in text, name
        if value.object is None and value.default is None and "| None" not in (value.type or ""):
            assert "Which type?" in text, name


@pytest.mark.parametrize("case", _EVERY)
def test_draft_when_a_value_is_there_then_its_line_is_named(case: str) -> None:
    """Every value carries the line of the source that it comes from."""
    state = state_of(case)
    lines = state.text.splitlines()
    text = draft(state)
    for attribute, name in session_values(state).items():
        line = state.attributes[attribute].site.line
        assert f"\n  {scalar(name)}:  # line {line}" in text
        word = attribute.removesuffix("[]")
        said = lines[line - 1]
        assert word in said or "setattr" in said


def test_draft_when_the_hash_seed_changes_then_not_a_byte_does() -> None:
    """Drafts do not depend on the order of sets."""
    script = (
        "from tests.codegen.scaffold.test_drafts import drafts, _EVERY\n"
        "for case in _EVERY: print(drafts(case))"
    )
    texts = set()
    for seed in ("1", "7"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        texts.add(done.stdout)
    assert len(texts) == 1


NAMES = {
    "_cache": "cache",
    "kvCache": "kv_cache",
    "KVCache": "kv_cache",
    "__private": "private",
    "step": "step_value",
    "list": "list_value",
    "class_": "class_value",
    "session": "session_value",
    "x1": "x1",
    "_1": "value_1",
}


@pytest.mark.parametrize(("attribute", "value"), NAMES.items(), ids=NAMES)
def test_name_when_a_schema_cannot_have_it_then_the_draft_says_another(
    attribute: str, value: str
) -> None:
    """Names that the language or the adapter keeps are changed, and the audit knows them."""
    source = f"class State:\n    def __init__(self):\n        self.{attribute} = 0\n"
    state = read(source)
    assert list(session_values(state).values()) == [value]
    assert list(drafted(state).schema.values) == [value]
    assert audited(state, draft(state)).differences == ()


def test_name_when_two_would_be_one_then_both_are_kept_apart() -> None:
    """Two attributes never become one value."""
    starts = {"_x": "0", "x": "None", "X": "''", "__x": "[]"}
    body = "".join(f"        self.{name} = {start}\n" for name, start in starts.items())
    state = read(f"class State:\n    def __init__(self):\n{body}")
    assert sorted(session_values(state).values()) == ["x", "x_2", "x_3", "x_4"]
    assert session_values(state)["x"] == "x"
    assert audited(state, draft(state)).differences == ()


def test_draft_when_something_is_read_and_set_nowhere_then_asked(tmp_path: Path) -> None:
    """A slip of the author's, or state that other code sets: no base, no property, no method."""
    source = tmp_path / "state.py"
    source.write_text(
        "class Base:\n    LIMIT = 3\n    def start(self):\n        self.steps = 0\n\n"
        "class State(Base):\n    def __init__(self):\n        self.start()\n"
        "    @property\n    def done(self):\n        return self.steps > self.LIMIT\n"
        "    def cache(self, negative):\n"
        "        return self.kv_neg if negative and not self.done else self.start()\n"
    )
    state = read_class(source, "State")
    assert read_and_never_set(state) == {"kv_neg": 13}
    assert "kv_neg is read in line 13 and set nowhere" in draft(state)
    source.write_text(source.read_text() + "    def __getattr__(self, name):\n        return 1\n")
    assert read_and_never_set(read_class(source, "State")) == {}
