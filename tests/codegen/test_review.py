"""`statekit review`: the figures, the layouts, the command."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from statekit.errors import GenerateError
from statekit.manager import DEFAULT_MAX_SESSIONS
from statekit_codegen.cli import main
from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.review import Bound, Growth, Review, Row, review
from statekit_codegen.review_json import FIELDS, to_json
from statekit_codegen.review_markdown import to_markdown
from statekit_codegen.review_words import facts
from statekit_codegen.units import format_nbytes
from tests.codegen.terminal import on_a_terminal

ROOT = Path(__file__).parents[2]
MIB = 2**20

TOY = """\
statekit: 1
model: toy
class: ToyState
doc: A toy | with *marks*.
symbols: {H: 8}
parameters: {window: {type: int, default: 2, minimum: 1, maximum: 9, doc: Frames kept.}}
values:
  weights:
    bucket: attrs
    doc: Of unknown size.
    type: list[torch.Tensor]
    default: []
    device: model
  latents:
    bucket: StateObject
    object: LatentBuffer
    item: torch.Tensor
    dtype: float32
    shape: [H / 2, 16]
    device: cpu
    ring: {unbounded: until it is decoded, growth: {items: 2, every_steps: 3}}
    pending: {why: a copy while the step runs}
    decision: {operations: [accumulate], why: "Pieces [bold]pile[/bold] up <here>."}
  frames:
    bucket: StateObject
    object: LatentBuffer
    item: np.ndarray
    dtype: uint8
    shape: [H, 3]
    device: cpu
    ring: {bound: window}
    decision: {operations: [accumulate], why: Newest frames.}
resets:
  session: {clears: all, doc: A new rollout.}
"""


@pytest.fixture(scope="module")
def dreamzero() -> Model:
    """The DreamZero schema of this project."""
    file = ROOT / "schemas" / "dreamzero.yaml"
    return load_text(file.read_bytes(), "schemas/dreamzero.yaml")


@pytest.fixture
def toy() -> Model:
    """A schema with an unknown size, growth and a pending copy."""
    return load_text(TOY.encode(), "toy.yaml")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two schemas, which the tests run in."""
    table = '[tool.statekit]\nschemas = "schemas"\noutput = "generated"\n'
    (tmp_path / "pyproject.toml").write_text(table, "utf-8")
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "toy.yaml").write_text(TOY, "utf-8")
    dreamzero = (ROOT / "schemas" / "dreamzero.yaml").read_text("utf-8")
    (tmp_path / "schemas" / "dreamzero.yaml").write_text(dreamzero, "utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def row(of: Review, name: str) -> Row:
    """The row of one value."""
    return next(row for row in of.rows if row.spec.name == name)


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `statekit review`."""
    out, err = io.StringIO(), io.StringIO()
    return main(["review", *args], out, err), out.getvalue(), err.getvalue()


# -- figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (4096, "4.0 KiB"),
        (104_800, "102.3 KiB"),
        (104_856, "0.10 MiB"),
        (225_280, "0.21 MiB"),
        (MIB - 1, "1.00 MiB"),
        (632_586_240, "603.28 MiB"),
        (1023 * MIB, "1023.00 MiB"),
        (1024 * MIB - 1, "1.0 GiB"),
        (64 * 632_586_240, "37.7 GiB"),
        (2**40 - 1, "1.0 TiB"),
        (2**50 - 1, "1.0 PiB"),
        (2**70, "1024.0 EiB"),
    ],
)
def test_bytes_when_formatted_then_unit_and_decimals_fit(nbytes: int, text: str) -> None:
    """A figure is rounded half up in its unit, and one that rounds to the next unit is in it."""
    assert format_nbytes(nbytes) == text


def test_bytes_when_formatted_then_larger_ones_never_read_smaller() -> None:
    """Reading a formatted figure back gives numbers that rise with the bytes."""
    sizes = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
    near = (base + step for base in [*sizes.values(), MIB // 10] for step in range(-600, 600, 7))
    figures = [format_nbytes(nbytes).split() for nbytes in sorted(n for n in near if n >= 0)]
    read = [float(figure) * sizes[unit] for figure, unit in figures]
    assert read == sorted(read)


def test_review_when_of_dreamzero_then_the_feature_map_has_its_published_size(
    dreamzero: Model,
) -> None:
    """`vae_enc_feat_map` is 603.28 MiB in a session, and 37.7 GiB in 64."""
    found = row(review(dreamzero, {}, 64), "vae_enc_feat_map")
    assert found.nbytes == 632_586_240
    assert found.first_nbytes == 320_348_160
    assert format_nbytes(found.nbytes) == "603.28 MiB"
    assert format_nbytes(found.nbytes * 64) == "37.7 GiB"


def test_review_when_of_dreamzero_then_totals_are_the_sums_by_device(dreamzero: Model) -> None:
    """The total of a device is the exact sum of its rows, and `all` the sum of the devices."""
    found = review(dreamzero, {}, 64)
    totals = {total.device: total.nbytes for total in found.totals}
    for device in ("cpu", "model"):
        rows = [one.nbytes or 0 for one in found.rows if one.spec.device == device]
        assert totals[device] == sum(rows)
    assert totals == {"cpu": 2_928_640, "model": 643_215_360, "all": 646_144_000}


def test_review_when_a_buffer_has_no_bound_then_one_item_counts_and_growth_is_told(
    toy: Model,
) -> None:
    """Growth is bytes and steps, for the row and for the totals; `nbytes` is one item."""
    found = review(toy, {}, 64)
    latents = row(found, "latents")
    assert (latents.nbytes, latents.growth) == (256, Growth(512, 3))
    assert [(t.device, t.nbytes, t.growth) for t in found.totals] == [
        ("model", 0, ()),
        ("cpu", 256 + 48, (Growth(512, 3),)),
        ("all", 256 + 48, (Growth(512, 3),)),
    ]


def test_review_when_a_copy_is_pending_then_its_bytes_are_beside_the_value(toy: Model) -> None:
    """A pending copy is as large as the value, and counts in no figure but its own."""
    found = review(toy, {}, 64)
    assert row(found, "latents").pending_nbytes == 256
    assert [total.pending_nbytes for total in found.totals] == [0, 256, 256]


def test_review_when_bytes_are_unknown_then_the_value_is_named(toy: Model) -> None:
    """A value whose bytes nobody can compute has None, and is listed."""
    found = review(toy, {}, 64)
    assert row(found, "weights").nbytes is None
    assert found.unknown == ("weights",)


def test_review_when_numbers_are_set_then_figures_and_bounds_follow(toy: Model) -> None:
    """Symbols and parameters are replaced; what the model does not have is left alone."""
    found = review(toy, {"H": 16, "window": 5, "other": 1}, 64)
    frames = row(found, "frames")
    assert (frames.nbytes, frames.bound) == (240, Bound(5, "items", "window"))
    assert found.numbers == {"H": 16, "window": 5}
    assert found.overridden == ("H", "window")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"H": 7}, "toy.yaml: latents: 7 / 2 leaves a remainder; "),
        ({"window": 10}, "toy.yaml: window: 10 is out of bounds; use from 1 to 9"),
    ],
)
def test_review_when_a_number_does_not_fit_then_it_says_which(
    toy: Model, numbers: dict[str, int], message: str
) -> None:
    """A size without a value and a parameter out of bounds name the place and the cure."""
    with pytest.raises(GenerateError) as caught:
        review(toy, numbers, 64)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("size", "nbytes", "pending_nbytes"),
    [
        ("shape: [H, 3]", 48, 48),
        ("elements: 5 * H", 80, 80),
        ("elements: {first: H, then: 2 * H}", 32, 32),
        ("shape: []", 2, 2),
    ],
)
def test_review_when_a_ring_has_a_size_of_any_form_then_bound_and_copy_count(
    size: str, nbytes: int, pending_nbytes: int
) -> None:
    """A ring holds its bound times the item, however the item's size is written."""
    text = TOY.replace("    shape: [H, 3]\n", f"    {size}\n    pending: {{why: a copy}}\n")
    found = row(review(load_text(text.encode(), "toy.yaml"), {}, 64), "frames")
    assert (found.nbytes, found.pending_nbytes) == (nbytes, pending_nbytes)


def test_review_when_a_size_falls_below_1_then_it_says_which(project: Path) -> None:
    """A size that is no size under the numbers is refused, not shown as a negative figure."""
    (project / "schemas" / "toy.yaml").write_text(TOY.replace("[H, 3]", "[H - 4, 3]"), "utf-8")
    code, out, err = run("--set", "H=2", "schemas/toy.yaml")
    assert (code, out) == (2, "")
    assert err == "schemas/toy.yaml: frames: the result is -2; sizes are 1 or more\n"


def test_review_when_of_families_then_all_members_count() -> None:
    """Cosmos3's und_kv exists 72 times: 2 branches of 36 layers."""
    file = ROOT / "schemas" / "cosmos3.yaml"
    found = row(review(load_text(file.read_bytes(), "c.yaml"), {}, 64), "und_kv")
    assert (found.members, found.nbytes) == (72, 72 * 2 * 512 * 8 * 128 * 2)


# -- layouts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 64, 80, 100, 119, 120, 140, 200])
def test_text_when_of_any_width_then_it_fits_and_nothing_is_cut(project: Path, width: int) -> None:
    """No line is wider than asked for, and every name, figure and reason is there."""
    code, out, err = run("--width", str(width), "schemas/dreamzero.yaml")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= width
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    solid = re.sub(r"\s", "", out)
    model = load_text(Path("schemas/dreamzero.yaml").read_bytes(), "schemas/dreamzero.yaml")
    for name, value in model.schema.values.items():
        assert name in solid
        assert value.decision is not None
        # Beside other columns a reason's lines are apart, so its words are looked for one by one.
        assert [word for word in (value.decision.why or "").split() if word not in solid] == []
    for figure in ("603.28MiB", "37.7GiB", "+0.21MiBastep", "616.21MiB", "38.5GiB"):
        assert figure in solid
    assert "…" not in out


def test_text_when_piped_then_it_is_plain_and_80_wide(project: Path) -> None:
    """Neither colours nor box drawing get into a pipe, whose width is 80."""
    _, out, _ = run("schemas/dreamzero.yaml")
    assert re.findall(r"[^\x20-\x7e\n]", out) == []
    assert max(map(len, out.splitlines())) <= 80
    assert out == run("schemas/dreamzero.yaml", "--width", "80")[1]


def test_text_when_piped_with_columns_set_then_it_is_as_wide(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COLUMNS sets the width of a pipe, and --width beats it."""
    monkeypatch.setenv("COLUMNS", "140")
    assert run("schemas/toy.yaml")[1] == run("--width", "140", "schemas/toy.yaml")[1]
    assert run("--width", "80", "schemas/toy.yaml")[1] != run("schemas/toy.yaml")[1]


@pytest.mark.parametrize("columns", [80, 140])
def test_text_when_on_a_terminal_then_it_is_coloured_and_fits(columns: int) -> None:
    """A terminal gets colours and lines, in exactly its width."""
    out = on_a_terminal(columns, {}, "review", cwd=ROOT)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert "\x1b[1;36m" in out
    assert "─" in plain
    assert "Computed with" in out  # a style does not begin anew with each letter
    assert max(map(len, plain.splitlines())) == columns
    assert "603.28 MiB" in plain
    assert "37.7 GiB" in plain


def test_text_when_no_color_is_set_then_the_terminal_gets_none() -> None:
    """NO_COLOR takes the colours away."""
    assert (
        re.findall(
            r"\x1b\[[0-9;]*3[0-7][0-9;]*m", on_a_terminal(80, {"NO_COLOR": "1"}, "review", cwd=ROOT)
        )
        == []
    )


def test_text_when_a_schema_holds_markup_then_it_is_shown_as_it_is(project: Path) -> None:
    """Words that look like the terminal library's markup are only words."""
    _, out, _ = run("schemas/toy.yaml")
    assert "Pieces [bold]pile[/bold] up <here>." in out


def test_text_when_a_decision_or_a_size_is_missing_then_it_says_so(project: Path) -> None:
    """What is not recorded and what cannot be computed are named, not left blank."""
    _, out, _ = run("schemas/toy.yaml")
    assert "no decision is recorded" in out
    assert re.search(r"^weights +unknown +unknown$", out, re.MULTILINE)
    assert "Not counted, as its bytes are unknown: weights." in out
    assert "One item is counted of what has no bound: latents." in out
    assert "+512 B every 3 steps" in out
    assert "+256 B while a step runs: a copy while the step runs" in out


def test_text_when_figures_are_huge_then_they_are_whole(project: Path) -> None:
    """The largest figures that a schema can reach are not cut off."""
    huge = TOY.replace("{H: 8}", "{H: 8589934592}").replace("[H / 2, 16]", "[H / 2, H / 16]")
    (project / "schemas" / "toy.yaml").write_text(huge, "utf-8")
    for width in ("40", "80", "140"):
        _, out, _ = run("schemas/toy.yaml", "--sessions", "1000000", "--width", width)
        assert "8000000.0 EiB" in out
        assert "…" not in out
        assert max(map(len, out.splitlines())) <= int(width)


def test_text_when_a_pipe_is_not_utf_8_then_letters_are_spelled_out(project: Path) -> None:
    """Text that the encoding of a pipe lacks is escaped; the command does not fail."""
    (project / "schemas" / "toy.yaml").write_text(TOY.replace("A toy", "Ein Rätsel"), "utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "statekit_codegen", "review", "schemas/toy.yaml"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert b"Ein R\\xe4tsel | with *marks*." in result.stdout


def test_markdown_when_a_schema_holds_markup_then_it_is_escaped(toy: Model) -> None:
    """Bars, marks and tags of a schema neither break a table nor become markup."""
    text = to_markdown([review(toy, {}, 64)])
    assert "A toy \\| with \\*marks\\*." in text
    assert "Pieces \\[bold\\]pile\\[/bold\\] up \\<here\\>." in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in tables}
    assert widths == {9, 5}


def test_markdown_when_written_then_rows_have_all_columns(toy: Model) -> None:
    """A row is value, object, device, bound, both figures, resets, and the reason."""
    text = to_markdown([review(toy, {}, 64)])
    assert (
        "| `latents` | LatentBuffer | cpu | no bound | 256 B | 16.0 KiB | session | "
        "Pieces \\[bold\\]pile\\[/bold\\] up \\<here\\>.<br>"
        "*Also: no bound: until it is decoded; +512 B every 3 steps, with one item counted; "
        "+256 B while a step runs: a copy while the step runs.* |\n"
    ) in text
    assert (
        "| `frames` | LatentBuffer | cpu | 2 items (window) | 48 B | 3.0 KiB | session | "
        "Newest frames.<br>*Also: 24 B after the first step.* |\n"
    ) in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_json_when_written_then_it_has_exactly_the_documented_fields(toy: Model) -> None:
    """Every field is documented, every documented field is there, in that order."""
    document: dict[str, Any] = json.loads(to_json([review(toy, {}, 3)], 3))
    model = document["models"][0]
    assert list(document) == list(FIELDS["document"])
    assert list(model) == list(FIELDS["model"])
    assert [list(value) for value in model["values"]] == [list(FIELDS["value"])] * 3
    assert [list(total) for total in model["totals"]] == [list(FIELDS["total"])] * 3


def test_json_when_read_then_figures_are_exact_bytes(toy: Model) -> None:
    """Figures are whole bytes of one session, and of as many as asked for."""
    model = json.loads(to_json([review(toy, {}, 3)], 3))["models"][0]
    latents = model["values"][1]
    assert (latents["nbytes"], latents["sessions_nbytes"]) == (256, 768)
    assert latents["growth"] == {"nbytes": 512, "every_steps": 3}
    assert latents["unbounded"] == "until it is decoded"
    assert model["values"][0]["nbytes"] is None
    assert model["values"][0]["sessions_nbytes"] is None
    assert model["totals"][1] == {
        "device": "cpu",
        "nbytes": 304,
        "sessions_nbytes": 912,
        "pending_nbytes": 256,
        "growth": [{"nbytes": 512, "every_steps": 3}],
    }


def test_update_when_it_is_not_replaced_then_text_and_json_say_how(dreamzero: Model) -> None:
    """How the model changes a value is part of the review, in words and as the schema has it."""
    review_of = review(dreamzero, {}, 64)
    said = facts(review_of, row(review_of, "vae_enc_feat_map"))
    assert "entries are replaced, tensors never written into" in said
    other = row(review_of, "vae_enc_feat_map")
    spec = attrs.evolve(other.spec, update="in_place")
    assert "written into in place" in facts(review_of, attrs.evolve(other, spec=spec))
    assert "place" not in facts(review_of, row(review_of, "ys"))
    values = json.loads(to_json([review_of], 64))["models"][0]["values"]
    (value,) = (one for one in values if one["name"] == "vae_enc_feat_map")
    assert (value["update"], value["default"], value["coerce"]) == ("entries", "", None)
    (value,) = (one for one in values if one["name"] == "call_count")
    assert (value["update"], value["default"], value["coerce"]) == ("replaced", "0", "int")
    text = (ROOT / "schemas" / "dreamzero.yaml").read_text("utf-8").splitlines()
    assert text[value["line"] - 1] == "  call_count:"


# -- the command ----------------------------------------------------------------------------------


def test_review_when_no_number_of_sessions_is_given_then_it_is_the_managers(project: Path) -> None:
    """The command's default is the number of sessions that a manager keeps."""
    _, out, _ = run("--format", "json")
    assert json.loads(out)["sessions"] == DEFAULT_MAX_SESSIONS


def test_review_when_no_schema_is_named_then_all_are_shown_in_order(project: Path) -> None:
    """All schemas of the project come, by name."""
    _, out, _ = run("--format", "json")
    assert [model["model"] for model in json.loads(out)["models"]] == ["dreamzero", "toy"]


def test_review_when_a_number_is_set_then_models_without_it_keep_theirs(project: Path) -> None:
    """`--set` reaches every model that has the name."""
    _, out, _ = run("--format", "json", "--set", "H=704", "--set", "SPAN=5")
    first, second = json.loads(out)["models"]
    assert first["overridden"] == ["H", "SPAN"]
    assert second["overridden"] == ["H"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("Hh=3", "no schema has a number 'Hh'; did you mean H?"),
        ("H=0", "'H=0'; write a name and a whole number above 0, such as H=480"),
        ("H=1.5", "'H=1.5'; write a name and a whole number above 0, such as H=480"),
        ("H", "'H'; write a name and a whole number above 0, such as H=480"),
        ("=3", "'=3'; write a name and a whole number above 0, such as H=480"),
        ("H=²", "'H=²'; write a name and a whole number above 0, such as H=480"),
    ],
)
def test_review_when_a_setting_is_wrong_then_it_could_not_run(
    project: Path, setting: str, message: str
) -> None:
    """A setting that no schema can use is refused with what to write; nothing is shown."""
    code, out, err = run("--set", setting)
    assert (code, out) == (2, "")
    assert message in err


def test_review_when_a_number_does_not_divide_then_it_could_not_run(project: Path) -> None:
    """A size that has no value under the numbers names the schema, the value and the cure."""
    code, out, err = run("--set", "H=353", "schemas/dreamzero.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("schemas/dreamzero.yaml: ys: 353 / 8 leaves a remainder; ")


def test_review_when_a_schema_is_unusable_then_nothing_is_shown(project: Path) -> None:
    """One unusable schema stops the command, with its problems on stderr."""
    (project / "schemas" / "toy.yaml").write_text(TOY.replace("bound: window", "bound: 0"), "utf-8")
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "RING_BOUND at $.values.frames.ring.bound" in err
