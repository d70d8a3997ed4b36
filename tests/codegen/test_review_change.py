"""`statekit review --against`: what changed of the decisions, in every layout."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest
from markdown_it import MarkdownIt

from statekit_codegen.cli import main
from statekit_codegen.language import Decision, Pending, Value
from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.review import Growth
from statekit_codegen.review_change.comparison import ModelChange, compare, unexplained
from statekit_codegen.review_change.markdown import MAX_CHARS, to_markdown
from statekit_codegen.review_change.records import FIELDS, to_annotations, to_json
from tests.codegen.breaking_cases import BASE as CASE_BASE
from tests.codegen.breaking_cases import CASES, Case
from tests.codegen.terminal import on_a_terminal

BASE = """\
statekit: 1
model: toy
class: ToyState
doc: A toy.
symbols: {H: 8}
constants: {KEPT: 4}
families: {branch: {members: {positive: "", negative: _neg}, doc: Guidance.}}
inputs: {prompt: {kept: true, doc: The text.}}
values:
  count:
    bucket: attrs
    doc: Steps.
    type: int
    default: 0
    coerce: int
    device: none
    decision: {operations: [], why: A counter.}
  cache:
    bucket: attrs
    doc: A cache.
    type: torch.Tensor | None
    dtype: float32
    shape: [H, 16]
    device: model
    decision: {operations: [], why: Nothing acts on it.}
  frames:
    bucket: StateObject
    doc: Newest frames.
    object: LatentBuffer
    item: np.ndarray
    dtype: uint8
    shape: [H, 3]
    device: cpu
    ring: {bound: KEPT}
    decision: {operations: [accumulate], why: Frames pile up.}
  history:
    bucket: StateObject
    doc: All frames.
    object: LatentBuffer
    item: torch.Tensor
    dtype: float32
    shape: [H]
    device: cpu
    ring: {unbounded: until it is decoded, growth: {items: 1, every_steps: 2}}
    pending: {why: the next one is built beside it}
    decision: {operations: [accumulate], why: A decode reads all.}
  text:
    bucket: StateObject
    doc: The encoded text.
    object: EncodeOnce
    type: torch.Tensor
    dtype: float16
    shape: [H]
    device: model
    family: [branch]
    key: text{branch}
    rebuild: {from: [prompt], cost: one pass, cost_ms: 2}
    decision: {operations: [stage, release], why: Encoded once.}
atomic:
  stream: [cache, frames]
resets:
  session: {clears: all, doc: A new one.}
  window: {keeps: [history, text]}
"""
MOVED = (
    "    bucket: attrs\n    doc: A cache.\n    type: torch.Tensor | None\n",
    "    bucket: StateObject\n    doc: A cache.\n    object: HeldValue\n    type: torch.Tensor\n",
)
PARKED = (
    "    decision: {operations: [], why: Nothing acts on it.}\n",
    "    park: {tiers: [host]}\n    decision: {operations: [park], why: Nothing acts on it.}\n",
)
MEASURED = '{nbytes: 512, hardware: a desk, date: "2026-11-29"}'
PARAMETER = "{type: int, default: 2, minimum: 1, maximum: 3, doc: Number.}"
HOSTILE = "a|b <img src=x> [x](http://y) `c` *d* _e_ @everyone #1 &amp; ::error::no%0A </details>"


def edited(*replacements: tuple[str, str], text: str = BASE) -> str:
    """The schema with texts replaced, each of which it has."""
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return text


def model_of(text: str, file: str = "schemas/toy.yaml") -> Model:
    """The model of a schema's text."""
    return load_text(text.encode(), file)


def changed(before: str | None, after: str | None, **numbers: int) -> ModelChange:
    """What became of a model; None where it is not."""
    old = {} if before is None else {"schemas/toy.yaml": model_of(before, "main:toy.yaml")}
    new = [] if after is None else [model_of(after)]
    (change,) = compare(old, new, numbers, 64, all_schemas=True)
    return change


def edits(change: ModelChange, name: str = "") -> dict[str, tuple[str, str]]:
    """The edits of one value, or those beside the values."""
    found = change.edits
    if name:
        (value,) = (value for value in change.values if value.name == name)
        found = value.edits
    return {edit.name: (edit.was, edit.now) for edit in found}


# -- what is found --------------------------------------------------------------------------------


def test_change_when_the_same_then_nothing_is_found() -> None:
    """A schema beside itself has no edit, whatever its comments and order of keys."""
    reordered = edited(
        ("    doc: A cache.\n", ""),
        ("    device: model\n    d", "    doc: A cache. # x\n    device: model\n    d"),
    )
    for text in (BASE, f"# a comment\n{BASE}", reordered):
        change = changed(BASE, text)
        assert (change.kind, change.edits, change.values) == ("same", (), ())
        assert not any(total.changed for total in change.totals)


@pytest.mark.parametrize(
    ("replacement", "value", "name", "was", "now"),
    [
        (("doc: A cache.", "doc: The cache."), "cache", "doc", "A cache.", "The cache."),
        (
            ("torch.Tensor | None", "np.ndarray | None"),
            "cache",
            "type",
            "torch.Tensor | None",
            "np.ndarray | None",
        ),
        (
            ("dtype: float32\n    shape: [H, 16]", "dtype: float64\n    shape: [H, 16]"),
            "cache",
            "dtype",
            "float32",
            "float64",
        ),
        (("shape: [H, 16]", "shape: [H, 8]"), "cache", "size", "[H, 16]", "[H, 8]"),
        (
            ("shape: [H, 16]", "elements: {first: 1, then: H}"),
            "cache",
            "size",
            "[H, 16]",
            "H elements, at first 1",
        ),
        (
            ("[H, 16]\n    device: model", "[H, 16]\n    device: cpu"),
            "cache",
            "device",
            "model",
            "cpu",
        ),
        (
            ("[H, 16]\n    device: model", "[H, 16]\n    device: model\n    update: in_place"),
            "cache",
            "update",
            "replaced",
            "in_place",
        ),
        (
            ("[H, 16]\n", "[H, 16]\n    sharding: {over: tp, dim: 1}\n"),
            "cache",
            "sharding",
            "",
            "over tp, dim 1",
        ),
        (
            ("[H, 16]\n", "[H, 16]\n    sharding: replicated\n"),
            "cache",
            "sharding",
            "",
            "replicated",
        ),
        (
            ("[H, 16]\n", f"[H, 16]\n    measured: [{MEASURED}]\n"),
            "cache",
            "measured",
            "",
            "512 B, steady (a desk, 2026-11-29)",
        ),
        (
            ("why: Nothing acts on it.", "why: Small."),
            "cache",
            "why",
            "Nothing acts on it.",
            "Small.",
        ),
        (("default: 0", "default: 1"), "count", "default", "0", "1"),
        (("    coerce: int\n", ""), "count", "coerce", "int", ""),
        (("{bound: KEPT}", "{bound: 2}"), "frames", "bound", "4 items (KEPT)", "2 items"),
        (
            ("{bound: KEPT}", "{bound: KEPT, axis: 0}"),
            "frames",
            "bound",
            "4 items (KEPT)",
            "4 frames (KEPT) along axis 0",
        ),
        (("KEPT: 4", "KEPT: 5"), "frames", "bound", "4 items (KEPT)", "5 items (KEPT)"),
        (("{bound: KEPT}", "{bound: KEPT}\n    key: ring"), "frames", "key", "", "ring"),
        (
            ("{bound: KEPT}", "{bound: KEPT}\n    view: {concat: 1}"),
            "frames",
            "view",
            "a list",
            "joined along axis 1",
        ),
        (
            ("{bound: KEPT}", "{bound: KEPT}\n    on_commit: [compact]"),
            "frames",
            "on commit",
            "",
            "compact",
        ),
        (
            ("until it is decoded", "for good"),
            "history",
            "bound",
            "no bound: until it is decoded",
            "no bound: for good",
        ),
        (
            ("{items: 1, every", "{items: 3, every"),
            "history",
            "grows by",
            "1 items every 2 steps",
            "3 items every 2 steps",
        ),
        (
            ("every_steps: 2", "every_steps: 3"),
            "history",
            "bytes on top",
            "+32 B every 2 steps",
            "+32 B every 3 steps",
        ),
        (
            ("{why: the next one is built beside it}", "{elements: 2, why: one}"),
            "history",
            "pending copy",
            "the next one is built beside it",
            "one (2 elements)",
        ),
        (
            ("cost_ms: 2", "cost_ms: 3"),
            "text",
            "rebuild",
            "from prompt: one pass, 2 ms",
            "from prompt: one pass, 3 ms",
        ),
        (
            ("[stage, release]", "[stage, release, rebuild]"),
            "text",
            "operations",
            "stage, release",
            "stage, release, rebuild",
        ),
        (("negative: _neg", "negative: _neg, other: _o"), "text", "members", "2", "3"),
        (
            ("keeps: [history, text]", "keeps: [history, text, count]"),
            "count",
            "cleared by",
            "session, window",
            "session",
        ),
        (("[cache, frames]", "[cache, frames, text]"), "text", "atomic group", "", "stream"),
    ],
)
def test_value_when_one_thing_is_said_otherwise_then_that_is_told(
    replacement: tuple[str, str], value: str, name: str, was: str, now: str
) -> None:
    """Every key of a value, and what follows from others, is an edit with both sides."""
    change = changed(BASE, edited(replacement))
    assert edits(change, value)[name] == (was, now)
    assert {one.kind for one in change.values} == {"changed"}


@pytest.mark.parametrize(
    ("replacement", "name", "was", "now"),
    [
        (("class: ToyState", "class: Toy"), "class", "ToyState", "Toy"),
        (("doc: A toy.", "doc: The toy."), "doc", "A toy.", "The toy."),
        (("H: 8", "H: 16"), "symbol H", "8", "16"),
        (("KEPT: 4", "KEPT: 5"), "constant KEPT", "4", "5"),
        (
            ("A new one.", "At the end."),
            "reset session",
            "clears all: A new one.",
            "clears all: At the end.",
        ),
        (("[history, text]", "[text]"), "reset window", "keeps history, text", "keeps text"),
        (
            ("[cache, frames]", "[cache, text]"),
            "atomic group stream",
            "cache, frames",
            "cache, text",
        ),
        (("kept: true", "kept: false"), "input prompt", "kept: The text.", "not kept: The text."),
        (
            ("doc: Guidance.", "doc: Two."),
            "family branch",
            "positive, negative: Guidance.",
            "positive, negative: Two.",
        ),
        (("atomic:", "outside: {kv: the engine}\natomic:"), "held elsewhere kv", "", "the engine"),
        (
            ("atomic:", "may_be_lost: it can start over\natomic:"),
            "may be lost",
            "",
            "it can start over",
        ),
        (
            ("atomic:", f"parameters: {{n: {PARAMETER}}}\natomic:"),
            "parameter n",
            "",
            "default 2, at least 1, at most 3: Number.",
        ),
        (
            ("  window: {", "  chunk: {clears: [cache], doc: Often.}\n  window: {"),
            "reset chunk",
            "",
            "clears cache: Often.",
        ),
    ],
)
def test_model_when_one_thing_is_said_otherwise_then_that_is_told(
    replacement: tuple[str, str], name: str, was: str, now: str
) -> None:
    """What a schema says beside its values is an edit of the model."""
    assert edits(changed(BASE, edited(replacement)))[name] == (was, now)


def test_facets_when_the_language_has_a_key_then_an_edit_of_it_is_seen() -> None:
    """A key that a value may have is known to the comparison: a new one has to be added here."""
    compared = {
        "bucket", "doc", "object", "key", "type", "item", "default", "coerce", "dtype", "shape",
        "elements", "device", "update", "ring", "on_commit", "view", "family", "rebuild", "park",
        "sharding", "pending", "measured", "decision", "index", "codec", "lifetime", "tolerance",
        "questions",
    }  # fmt: skip
    assert {field.name for field in attrs.fields(Value)} == compared
    assert {field.name for field in attrs.fields(Decision)} == {"operations", "why"}
    assert {field.name for field in attrs.fields(Pending)} == {"elements", "why"}


def test_value_when_only_bytes_differ_by_less_than_shown_then_they_are_exact() -> None:
    """A difference that rounding hides is told in whole bytes."""
    before = edited(("shape: [H, 16]", "elements: 90000000"))
    after = edited(("shape: [H, 16]", "elements: 90000001"))
    found = edits(changed(before, after), "cache")
    assert found["bytes"] == ("360000000 B", "360000004 B")


def test_values_when_added_and_removed_then_both_are_told() -> None:
    """A value of one side only is added or removed, with what it was, and moves bytes."""
    after = edited(("  cache:\n", "  store:\n"), ("[cache, frames]", "[store, frames]"))
    change = changed(BASE, after)
    assert [(value.kind, value.name) for value in change.values] == [
        ("added", "store"),
        ("removed", "cache"),
    ]
    assert [value.difference_nbytes for value in change.values] == [512, -512]
    assert not any(total.changed for total in change.totals)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ((), True),
        ((PARKED,), True),
        ((PARKED, ("why: Nothing acts on it.", "why: It can wait in host memory.")), False),
        ((("why: Nothing acts on it.", "why: 'Nothing   acts on it.'"),), True),
    ],
)
def test_bucket_when_it_moves_then_the_reason_has_to_change(
    more: tuple[tuple[str, str], ...], named: bool
) -> None:
    """Other operations or another layout of the same words are no changed reason."""
    change = changed(BASE, edited(MOVED, *more))
    (moved,) = change.of_kind("moved")
    assert edits(change, "cache")["bucket"] == ("attrs", "StateObject")
    assert moved.unexplained is named
    assert unexplained([change]) == (("toy.cache",) if named else ())


def test_totals_when_bytes_change_then_they_are_by_device_and_for_sessions() -> None:
    """A value that goes to another device is less there and more here, and the same in all."""
    after = edited(("[H, 16]\n    device: model", "[H, 16]\n    device: cuda:1"))
    totals = {total.device: total.difference_nbytes for total in changed(BASE, after).totals}
    assert totals == {"cuda:1": 512, "cpu": 0, "model": -512, "all": 0}


def test_totals_when_one_side_has_one_device_then_all_is_compared_all_the_same() -> None:
    """`all` of a side with a single device is that device."""
    one = edited(("device: cpu", "device: model"))
    totals = {total.device: total for total in changed(BASE, one).totals}
    assert (totals["all"].was.nbytes, totals["all"].difference_nbytes) == (512 + 32 + 96 + 32, 0)
    assert totals["model"].now.growth == (Growth(32, 2),)


def test_bytes_when_unknown_then_they_are_named_and_no_difference_is_made_up() -> None:
    """A size that is not said any more has no difference, and the totals say what they miss."""
    change = changed(BASE, edited(("    shape: [H, 16]\n", "")))
    (value,) = change.values
    assert value.difference_nbytes is None
    assert edits(change, "cache")["bytes"] == ("512 B", "unknown")
    assert change.unknown == ("cache",)


def test_numbers_when_set_then_both_sides_are_computed_with_them() -> None:
    """`--set` is about the deployment: it makes the sides alike, but the edit stays."""
    change = changed(BASE, edited(("H: 8", "H: 16")), H=4)
    assert change.values == ()
    assert edits(change) == {"symbol H": ("8", "16")}


@pytest.mark.parametrize("kind", ["added", "removed"])
def test_model_when_on_one_side_only_then_it_is_added_or_removed(kind: str) -> None:
    """A new model adds all its values, and one that is gone removes them."""
    change = changed(*((None, BASE) if kind == "added" else (BASE, None)))
    assert (change.kind, {value.kind for value in change.values}) == (kind, {kind})
    assert len(change.values) == 5
    assert abs(change.totals[-1].difference_nbytes) == 512 + 32 + 96 + 32


def test_models_when_only_some_are_looked_at_then_others_are_not_gone() -> None:
    """Without all schemas of today, what is not among them may be there still."""
    other = edited(("model: toy", "model: other"))
    before = {"schemas/other.yaml": model_of(other), "schemas/toy.yaml": model_of(BASE)}
    found = compare(before, [model_of(BASE)], {}, 64, all_schemas=False)
    assert [change.model for change in found] == ["toy"]
    found = compare(before, [model_of(BASE)], {}, 64, all_schemas=True)
    assert [(change.model, change.kind) for change in found] == [
        ("toy", "same"),
        ("other", "removed"),
    ]


def test_edit_when_placed_then_the_line_is_the_one_that_says_it() -> None:
    """Line and column are those of the key of today's schema, or of what is above it."""
    after = edited(MOVED, PARKED, ("H: 8", "H: 9"))
    change = changed(BASE, after)
    lines = after.splitlines()

    def seen(name: str) -> str:
        (value,) = change.of_kind("moved")
        (edit,) = (edit for edit in value.edits if edit.name == name)
        return lines[edit.line - 1][edit.column - 1 :]

    assert seen("bucket") == "bucket: StateObject"
    assert seen("object") == "object: HeldValue"
    assert seen("operations").startswith("operations: [park]")
    assert seen("default") == "cache:"
    assert lines[change.edits[0].line - 1] == "symbols: {H: 9}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_change_when_looked_at_from_the_other_side_then_was_and_now_are_swapped(
    case: Case,
) -> None:
    """Nothing is seen from one side only, and values explain what happens to the totals."""
    there, back = (changed(*sides) for sides in ((CASE_BASE, case.after), (case.after, CASE_BASE)))
    swapped = {"added": "removed", "removed": "added"}
    assert {(value.name, value.kind) for value in there.values} == {
        (value.name, swapped.get(value.kind, value.kind)) for value in back.values
    }
    for value in there.values:
        turned = {name: (now, was) for name, (was, now) in edits(back, value.name).items()}
        assert edits(there, value.name) == turned
    assert edits(there) == {name: (now, was) for name, (was, now) in edits(back).items()}
    if not there.unknown:
        differences = sum(value.difference_nbytes or 0 for value in there.values)
        assert differences == there.totals[-1].difference_nbytes
        assert differences == -back.totals[-1].difference_nbytes


# -- layouts --------------------------------------------------------------------------------------


def test_json_when_written_then_it_has_exactly_the_documented_fields() -> None:
    """Every field is documented, every documented field is there, in that order."""
    change = changed(BASE, edited(MOVED, ("H: 8", "H: 16")))
    document: dict[str, Any] = json.loads(to_json([change], "main", 3))
    (model,) = document["models"]
    assert list(document) == list(FIELDS["document"])
    assert list(model) == list(FIELDS["model"])
    assert {tuple(value) for value in model["values"]} == {tuple(FIELDS["value"])}
    assert {tuple(edit) for edit in model["edits"]} == {tuple(FIELDS["edit"])}
    assert {tuple(edit) for value in model["values"] for edit in value["edits"]} == {
        tuple(FIELDS["edit"])
    }
    assert {tuple(total) for total in model["totals"]} == {tuple(FIELDS["total"])}
    assert document["unexplained"] == ["toy.cache"]
    assert model["totals"][-1]["now"]["sessions_nbytes"] == 3 * model["totals"][-1]["now"]["nbytes"]


def test_markdown_when_a_schema_holds_markup_then_it_stays_text() -> None:
    """No tag, link, mention or cell comes out of a schema, and what is opened is closed."""
    text = edited(("why: Nothing acts on it.", f"why: '{HOSTILE}'"), ("KEPT: 4", "KEPT: 2"))
    plain = to_markdown([changed(BASE, edited(("KEPT: 4", "KEPT: 2"), ("Nothing", "No")))], "main")
    page = to_markdown([changed(BASE, text)], f"main {HOSTILE}")
    assert tags(page) == tags(plain)
    assert "@everyone" not in page
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def tags(page: str) -> list[str]:
    """The tags of a page as GitHub would render it, in order."""
    html = MarkdownIt("commonmark").enable("table").render(page)
    return re.findall(r"</?[a-z0-9]+", html)


def test_markdown_when_the_change_is_huge_then_it_is_cut_with_a_word() -> None:
    """A comment fits on GitHub, tells how much is left out, and is whole as far as it goes."""
    long = "Because &|* it is so. " * 40
    values = "".join(
        f"  extra_{i}:\n    bucket: attrs\n    type: int\n    default: 0\n    device: none\n"
        f"    decision: {{operations: [], why: '{long}'}}\n"
        for i in range(300)
    )
    after = edited(("atomic:", f"{values}atomic:"))
    page = to_markdown([changed(BASE, after)], "main")
    assert len(page) <= MAX_CHARS
    assert page.count("<details>") == page.count("</details>") > 50
    assert re.search(r"Cut off here: \d+ parts left out\.", page)
    assert "more characters)" in page


def test_annotations_when_written_then_an_unexplained_move_is_an_error() -> None:
    """One line for each value at its place, an error where the reason has to change."""
    lines = list(to_annotations([changed(BASE, edited(MOVED, PARKED, ("H: 8", "H: 9")))]))
    assert [line.split(" ")[0] for line in lines] == ["::error"] + ["::notice"] * (len(lines) - 1)
    assert lines[0].startswith(
        "::error file=schemas/toy.yaml,line=18,col=3,title=cache%3A attrs ->"
    )
    assert "the reason" not in lines[1]
    assert any("symbol H: 8 -> 9" in line for line in lines)


def test_annotations_when_a_schema_holds_commands_then_each_is_one_line() -> None:
    """What is a command or a line end to the log viewer is escaped."""
    text = edited(("why: Nothing acts on it.", f"why: '{HOSTILE}'"))
    (line,) = to_annotations([changed(BASE, text)])
    assert "\n" not in line
    assert "no%250A" in line


# -- the command ----------------------------------------------------------------------------------


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `statekit review`."""
    out, err = io.StringIO(), io.StringIO()
    return main(["review", *args], out, err), out.getvalue(), err.getvalue()


def git(folder: Path, *arguments: str) -> None:
    """Run git as somebody."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(
        ["git", *who, *arguments], cwd=folder, env=environment, check=True, capture_output=True
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a repository, committed as `main`; its folder is the current."""
    root = tmp_path / "project"
    (root / "schemas").mkdir(parents=True)
    table = '[tool.statekit]\nschemas = "schemas"\noutput = "generated"\n'
    (root / "pyproject.toml").write_text(table, "utf-8")
    (root / "schemas" / "toy.yaml").write_text(BASE, "utf-8")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    monkeypatch.chdir(root)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return root


def write(root: Path, text: str) -> None:
    """Put another schema in place of the project's."""
    (root / "schemas" / "toy.yaml").write_text(text, "utf-8")


def test_review_when_nothing_changed_then_it_says_so(project: Path) -> None:
    """One line for a person, an empty list for a program, no annotation."""
    against = ("--against", "main")
    said = "No decision changed. 1 model against main.\n"
    assert run(*against, "--exit-code") == (0, said, "")
    assert said.strip() in run(*against, "--format", "md")[1]
    assert run(*against, "--format", "github") == (0, "", "")
    (model,) = json.loads(run(*against, "--format", "json")[1])["models"]
    assert (model["change"], model["values"]) == ("same", [])


def test_review_when_a_bucket_moved_then_exit_1_is_only_on_request(project: Path) -> None:
    """The move is named in every layout; the exit code changes where that was asked for."""
    write(project, edited(MOVED, PARKED))
    for form in ("text", "md", "github", "json"):
        code, out, err = run("--against", "main", "--format", form)
        assert (code, err) == (0, "")
        assert "cache" in out
        assert run("--against", "main", "--format", form, "--exit-code") == (1, out, "")
    write(project, edited(MOVED, PARKED, ("why: Nothing acts on it.", "why: It can wait.")))
    assert run("--against", "main", "--exit-code")[0] == 0


def test_text_when_a_value_moved_then_it_reads_as_a_person_would_say_it(project: Path) -> None:
    """Values by what became of them, edits on a line each, then bytes."""
    write(project, edited(MOVED, PARKED, ("KEPT: 4", "KEPT: 6")))
    code, out, _ = run("--against", "main")
    assert code == 0
    assert out == TEXT


TEXT = """\
toy  schemas/toy.yaml
=====================
1 value moved, 1 changed, 1 other edit; bytes a session: +48 B

Of the model
  constant KEPT  4 -> 6

Moved between buckets
  cache  attrs -> StateObject
    ! moved, but its reason is still the one for the other bucket
    object      none -> HeldValue
    type        torch.Tensor | None -> torch.Tensor
    default     None -> none
    park        none -> host
    operations  none -> park

Changed
  frames
    bound       4 items (KEPT) -> 6 items (KEPT)
    bytes       96 B -> 144 B  (+48 B)

Declared bytes by device
                        before     after  difference
  model, a session       544 B     544 B   no change
  model, 64 sessions  34.0 KiB  34.0 KiB   no change
  cpu, a session         128 B     176 B       +48 B
  cpu, 64 sessions     8.0 KiB  11.0 KiB    +3.0 KiB
  all, a session         672 B     720 B       +48 B
  all, 64 sessions    42.0 KiB  45.0 KiB    +3.0 KiB

1 of 1 model changed against main: 1 value moved, 1 changed, 1 other edit.
toy.cache moved, but its reason is still the one for the other bucket: say in
decision.why what is true now.
"""


@pytest.mark.parametrize(("colour", "expected"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_text_when_on_a_terminal_then_it_is_coloured_unless_asked_not_to(
    project: Path, colour: dict[str, str], expected: bool
) -> None:
    """A terminal gets colours and a line in its width; NO_COLOR takes the colours away."""
    write(project, edited(MOVED, PARKED))
    text = on_a_terminal(80, colour, "review", "--against", "main")
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-7]m", text)) is expected
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) == 80
    assert "cache  attrs -> StateObject" in plain


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_text_when_of_any_width_then_it_fits_and_nothing_is_cut(project: Path, width: int) -> None:
    """No line is wider than asked for, and every word of both sides is there."""
    long = "words of which there are more than fit " * 6
    write(project, edited(MOVED, PARKED, ("why: Frames pile up.", f"why: {long}")))
    code, out, err = run("--against", "main", "--width", str(width))
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= width
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    solid = re.sub(r"[\s]", "", out)
    assert re.sub(r"\s", "", long) in solid
    assert "…" not in out
    assert re.findall(r"[^\x20-\x7e\n]", out) == []


def test_review_when_schemas_come_and_go_then_models_are_added_and_removed(project: Path) -> None:
    """A new schema file is a model added, one that is gone a model removed, even the last one."""
    other = edited(("model: toy", "model: other"), ("ToyState", "OtherState"))
    (project / "schemas" / "other.yaml").write_text(other, "utf-8")
    (project / "schemas" / "toy.yaml").unlink()
    models = json.loads(run("--against", "main", "--format", "json")[1])["models"]
    assert [(model["model"], model["change"]) for model in models] == [
        ("other", "added"),
        ("toy", "removed"),
    ]
    (project / "schemas" / "other.yaml").unlink()
    code, out, _ = run("--against", "main")
    assert code == 0
    assert "A model that is gone: 5 values removed; bytes a session: -672 B" in out


def test_review_when_against_a_folder_then_it_is_read_there(project: Path, tmp_path: Path) -> None:
    """The other side may be a folder of schemas; nothing of git is needed."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "toy.yaml").write_text(edited(("H: 8", "H: 16")), "utf-8")
    code, out, _ = run("--against", str(tmp_path / "other"))
    assert code == 0
    assert "symbol H  16 -> 8" in out


def test_review_when_run_twice_then_every_layout_is_the_same(project: Path) -> None:
    """The order of everything is fixed."""
    write(project, edited(MOVED, PARKED, ("H: 8", "H: 16")))
    for form in ("text", "md", "json", "github"):
        first, second = (run("--against", "main", "--format", form) for _ in range(2))
        assert first == second


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--exit-code",), "--exit-code looks at a change; add --against REV or DIR"),
        (("--format", "github"), "--format github looks at a change; add --against REV or DIR"),
        (("--against", "nowhere"), "--against nowhere: no such revision, and no such folder"),
        (("--against", "main", "--set", "Q=1"), "no schema has a number 'Q'"),
    ],
)
def test_review_when_it_cannot_run_then_exit_2_and_what_to_do(
    project: Path, args: tuple[str, ...], message: str
) -> None:
    """A wrong use, and a side that is not there, are named on stderr."""
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert message in err


def test_review_when_the_other_side_is_unusable_then_its_problems_are_told(project: Path) -> None:
    """A schema of the other side that does not load stops the command, with its place."""
    write(project, edited(("bucket: attrs", "bucket: nowhere")))
    git(project, "commit", "-q", "-a", "-m", "broken")
    write(project, BASE)
    code, out, err = run("--against", "HEAD")
    assert (code, out) == (2, "")
    assert err.startswith("HEAD:schemas/toy.yaml:")
