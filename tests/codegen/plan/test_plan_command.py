"""`statekit plan`: what it prints, for whom, and what it says where it cannot run."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from statekit_codegen.cli import main
from statekit_codegen.commands.plan import plan
from statekit_codegen.plan.chart import HEIGHT, chart
from statekit_codegen.plan.curve import POINTS, Curve, Series, curve_of
from statekit_codegen.plan.document import FIELDS
from statekit_codegen.plan.words import percent
from tests.codegen.plan.schemas import GIB, ROOT, TOY, asked, model, toy
from tests.codegen.terminal import on_a_terminal


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the toy and DreamZero, which the tests run in."""
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


UTF8 = {"PYTHONIOENCODING": "utf-8"}


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `statekit plan`."""
    out, err = io.StringIO(), io.StringIO()
    return main(["plan", *args], out, err), out.getvalue(), err.getvalue()


# -- text -----------------------------------------------------------------------------------------

BUDGETS = ("--budget", "cuda=80GiB", "--budget", "cpu=256GiB")


def test_text_when_it_goes_into_a_pipe_then_it_is_plain_and_80_columns_wide(project: Path) -> None:
    """ASCII letters for the chart, no colour, no blanks at the ends of lines."""
    code, out, err = run("schemas/dreamzero.yaml", *BUDGETS, "--steps", "400")
    assert (code, err) == (0, "")
    assert out.isascii()
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert all(line == line.rstrip() for line in out.splitlines())
    assert out.endswith(".\n")


def test_text_when_dreamzero_is_planned_then_it_says_what_an_operator_asks(project: Path) -> None:
    """What a value takes, how many fit, what limits them, what one more would need."""
    _, out, _ = run("schemas/dreamzero.yaml", *BUDGETS, "--steps", "400")
    lines = out.splitlines()
    assert "  vae_enc_feat_map           cuda:0  603.28 MiB       98 %     37.7 GiB" in lines
    assert "  vae_encoder_out            cuda:0    0.43 MiB      < 1 %    27.50 MiB" in lines
    assert "  cuda:0  613.42 MiB     38.3 GiB   80.0 GiB    133" in lines
    words = " ".join(out.split())
    assert (
        "133 sessions fit. cuda:0 is full first: 98 % of it is vae_enc_feat_map. One more would "
        "need 278.01 MiB more there."
    ) in words
    assert "+356 489 park vae_enc_feat_map; then cuda:0 is full" in words
    assert "+0 133 vae_encoder_window one less: 1" in words
    assert "Nothing is parked on a disk: it has no budget." in words
    assert "step 1" in out
    assert "step 400" in out


def test_text_when_no_budget_is_given_then_it_says_how_to_ask(project: Path) -> None:
    """Bytes alone, and the option that answers how many fit."""
    code, out, _ = run("schemas/toy.yaml", "--steps", "2")
    assert code == 0
    assert "fit" not in out.replace("how many sessions fit", "")
    assert "No budget is given: --budget cuda=80GiB says how many sessions fit." in out
    assert "+10 B of cache while a step runs" in out


def test_text_when_models_are_mixed_then_the_mix_has_its_own_part(project: Path) -> None:
    """Both models alone, then the two in their proportions, with the number of each."""
    _, out, _ = run(*BUDGETS, "--mix", "dreamzero=3,toy=1", "--steps", "2")
    assert "\nmix  3 dreamzero to 1 toy\n" in out
    assert "\nDevices, 4 sessions together, after step 2\n" in out
    assert "\n  That is 132 dreamzero, 44 toy.\n" in out
    assert "at least one of each model" in " ".join(out.split())


def test_text_when_ranks_share_a_session_then_it_says_whose_figures_these_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rank, its groups, and a group that nothing is cut over."""
    monkeypatch.chdir(ROOT)
    code, out, err = run("schemas/cosmos3.yaml", "--shard", "tp=4", "--shard", "pp=2")
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert "Figures are those of rank 0 of 8 (tp=4, pp=2), the fullest." in words
    assert "No value is cut over pp: nothing is divided." in words
    assert "A session holds the same between all steps." in words


def test_text_when_sizes_cannot_be_computed_then_they_are_named(project: Path) -> None:
    """A value of unknown size is in the table, in no sum, and named below."""
    text = TOY.replace("    dtype: uint8\n    elements: 5 * N\n", "")
    (project / "schemas" / "toy.yaml").write_text(text, "utf-8")
    _, out, _ = run("schemas/toy.yaml", "--steps", "2")
    assert "  text     cuda:0    unknown" in out
    assert "Not counted, as its bytes are unknown: text." in out


def test_text_when_it_goes_to_a_terminal_then_it_has_colour_unless_told_otherwise() -> None:
    """Colours and blocks on a terminal; with NO_COLOR the blocks alone tell bands apart."""
    args = ("schemas/dreamzero.yaml", *BUDGETS, "--steps", "400")
    coloured = on_a_terminal(80, UTF8, "plan", *args, cwd=ROOT)
    assert "\x1b[36m█" in coloured
    assert "\x1b[33m▒" in coloured
    plain = on_a_terminal(80, {**UTF8, "NO_COLOR": "1"}, "plan", *args, cwd=ROOT)
    assert "\x1b[36m" not in plain
    assert "██ cuda:0   ▒▒ cpu" in plain
    dumb = on_a_terminal(
        80, {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}, "plan", *args, cwd=ROOT
    )
    assert "## cuda:0   :: cpu" in dumb


@pytest.mark.parametrize("columns", [40, 60, 80, 140])
def test_text_when_columns_are_few_or_many_then_no_figure_is_cut_off(
    project: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Every name and every figure is there at any width."""
    monkeypatch.setenv("COLUMNS", str(columns))
    _, out, _ = run("schemas/dreamzero.yaml", *BUDGETS, "--steps", "400")
    squeezed = "".join(out.split())
    for text in (
        "vae_enc_feat_map",
        "video_latents_across_time",
        "603.28MiB",
        "37.7GiB",
        "256.0GiB",
    ):
        assert text in squeezed
    assert "…" not in out


def test_exit_code_when_so_many_sessions_must_fit_then_it_says_whether_they_do(
    project: Path,
) -> None:
    """0 if they fit, 1 if not; without a number asked for it is 0."""
    assert run("schemas/dreamzero.yaml", *BUDGETS, "--sessions", "133")[0] == 0
    code, out, err = run("schemas/dreamzero.yaml", *BUDGETS, "--sessions", "134")
    assert (code, err) == (1, "")
    assert "  134 sessions: 1 too many.\n" in out
    assert run("schemas/dreamzero.yaml", "--budget", "cuda=1MiB")[0] == 0
    assert run("schemas/dreamzero.yaml", "--sessions", "134")[0] == 0


def test_help_when_printed_then_it_fits_a_screen_and_has_an_example() -> None:
    """At most 24 lines of 80 columns."""
    context = click.Context(plan, info_name="statekit plan", terminal_width=80)
    text = plan.get_help(context).splitlines()
    assert len(text) <= 24
    assert max(map(len, text)) <= 80
    assert any(line.startswith("    statekit plan --budget") for line in text)


# -- documents ------------------------------------------------------------------------------------


def test_json_when_written_then_it_has_exactly_the_documented_fields(project: Path) -> None:
    """Every field is documented, every documented field is there, in that order."""
    args = (*BUDGETS, "--mix", "dreamzero=1,toy=2", "--steps", "9", "--format", "json")
    document: dict[str, Any] = json.loads(run(*args)[1])
    assert list(document) == list(FIELDS["document"])
    first = document["models"][0]
    assert list(first) == list(FIELDS["model"])
    assert {tuple(one) for one in first["values"]} == {tuple(FIELDS["value"])}
    for holder in (first, document["mix"]):
        assert {tuple(one) for one in holder["devices"]} == {tuple(FIELDS["device"])}
        assert list(holder["fit"]) == list(FIELDS["fit"])
        assert list(holder["fit"]["limit"]) == list(FIELDS["limit"])
        assert {tuple(one) for one in holder["fit"]["gains"]} == {tuple(FIELDS["gain"])}
    assert list(document["mix"]) == list(FIELDS["mix"])
    assert (document["step"], document["sessions"], document["active"]) == (9, 64, 1)
    assert document["budgets"] == {"cuda:0": 80 * GIB, "cpu": 256 * GIB}


def test_json_when_read_then_figures_are_exact_bytes(project: Path) -> None:
    """Whole bytes of one session, after the step and along the curve."""
    args = ("schemas/toy.yaml", "--steps", "5", "--format", "json", "--set", "N=100")
    (toy_plan,) = json.loads(run(*args)[1])["models"]
    values = {one["name"]: one for one in toy_plan["values"]}
    assert (values["cache"]["nbytes"], values["cache"]["pending_nbytes"]) == (800, 100)
    assert (values["history"]["nbytes"], values["history"]["grown_nbytes"]) == (300, 200)
    assert values["steps"]["device"] == "none"
    assert toy_plan["numbers"]["N"] == 100
    assert toy_plan["fit"] is None
    assert toy_plan["curve"]["steps"] == [1, 2, 3, 4, 5]
    assert toy_plan["curve"]["devices"]["cpu"] == [102, 106, 106, 306, 306]


def test_curve_when_there_are_many_steps_then_only_some_are_looked_at() -> None:
    """The first two, the last, and not many more than a line has columns."""
    curve = curve_of(model("dreamzero").spec, "x", asked(step=10**6))
    assert curve.steps[:2] == (1, 2)
    assert curve.steps[-1] == 10**6
    assert len(curve.steps) <= POINTS + 3
    assert curve_of(toy().spec, "x", asked(step=1)).steps == (1,)
    assert curve_of(toy().spec, "x", asked(step=2)).steps == (1, 2)


def test_chart_when_drawn_then_the_sum_decides_its_height() -> None:
    """Full where the sum is greatest, half where it is half; the larger device is lowest."""
    curve = Curve((1, 2), (Series("a", "cpu", (10, 0)), Series("b", "cuda:0", (40, 100))))
    lines = ["".join(run.text for run in runs) for runs in chart(curve, 33, "#:")]
    rows = [line.split("|")[1] for line in lines[:HEIGHT]]
    columns = ["".join(row[index] for row in rows) for index in range(20)]
    assert columns[-1] == "#" * 10
    assert columns[0] == " " * 5 + ":" + "#" * 4
    assert lines[HEIGHT].endswith("0 +" + "-" * 20)
    assert lines[HEIGHT + 1].split() == ["step", "1", "step", "2"]
    assert lines[-1].split() == ["##", "cuda:0", "::", "cpu"]


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 0, "0 %"), (0, 9, "0 %"), (1, 1000, "< 1 %"), (5, 1000, "1 %"), (2, 3, "67 %")],
)
def test_percent_when_rounded_then_what_is_there_is_never_nothing(
    part: int, whole: int, text: str
) -> None:
    """Half up, and a small share is said to be one."""
    assert percent(part, whole) == text


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--steps", "0"], "Invalid value for '--steps': '0'; write a whole number from 1 to 999,"),
        (["--steps", "1.5"], "Invalid value for '--steps': '1.5'; write a whole number from 1 to"),
        (["--active", "-1"], "Invalid value for '--active': '-1'; write a whole number from 1 to"),
        (["--sessions", "x"], "Invalid value for '--sessions': 'x'; write a whole number from 1"),
        (["--budget", "gpu=3GiB"], "budget of gpu:0: no value lies there; devices here: cuda:0, "),
        (["--budget", "cuda"], "budget of 'cuda': no budget; write a device and an amount, such "),
        (["--budget", "=3"], "budget of '=3': no budget; write a device and an amount, such as "),
        (
            ["--budget", "cuda=3GB"],
            "budget of cuda:0: '3GB' has the unit 'GB'; write \"3GiB\" for 3 times 2**30 bytes",
        ),
        (["--budget", "cuda=much"], "budget of cuda:0: 'much' is no amount; write bytes as a "),
        (["--budget", "cpu=0"], "budget of cpu: '0' is less than one byte; raise it, or leave "),
        (["--budget", "cpu:0=1GiB"], "budget of 'cpu:0': no device; write \"cpu\""),
        (
            ["--budget", "cuda=1GiB", "--budget", "cuda:0=2GiB"],
            "budget of cuda:0: two amounts; say one",
        ),
        (["--mix", "toys=1"], "--mix: no model 'toys'; did you mean toy? models here: "),
        (["--mix", "toy"], "--mix: 'toy'; write models and their parts, as in a=3,b=1"),
        (["--mix", "toy=0"], "--mix: 'toy=0'; use 1 to 999,999,999"),
        (["--mix", "toy=1,toy=2"], "--mix: two parts for toy; say one"),
        (["--shard", "ep=2"], "--shard: no group 'ep'; groups: tp, sp, cfg, pp"),
        (["--shard", "tp"], "--shard: 'tp'; write a group and its size, such as tp=4"),
        (["--shard", "tp=2", "--shard", "tp=4"], "--shard: two sizes for tp; say one"),
        (["--set", "M=3"], "--set: no schema has a number 'M'; numbers here: "),
        (["--set", "N=0"], "--set: 'N=0'; use 1 to 999,999,999"),
        (["--set", "N"], "--set: 'N'; write a name and a whole number, such as H=480"),
        (["--model-device", "gpu:"], '--model-device: \'gpu:\' is no device; write "cpu", "disk"'),
        (["--model-device", "disk"], "--model-device: no model runs on a disk; name cuda, or cpu"),
        (
            ["--svg", "nowhere/x.svg"],
            "nowhere/x.svg: cannot be written: No such file or directory;",
        ),
        (["--set", "window=9999999999"], "--set: 'window=9999999999'; use 1 to 999,999,999"),
        (["schemas/none.yaml"], "schemas/none.yaml:1:1: FILE_READABLE"),
    ],
)
def test_plan_when_it_cannot_run_then_it_says_where_and_what_to_do(
    project: Path, args: list[str], message: str
) -> None:
    """Exit code 2, nothing on stdout, one line with place, finding and cure."""
    schemas = [] if args[0].startswith("schemas") else ["schemas/toy.yaml"]
    code, out, err = run(*schemas, *args)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_plan_when_a_fraction_of_free_memory_is_the_budget_then_this_machine_is_asked(
    project: Path,
) -> None:
    """`50%` means what a manager here would take it for."""
    args = ("schemas/toy.yaml", "--budget", "cpu=50%", "--format", "json")
    document = json.loads(run(*args)[1])
    assert document["budgets"]["cpu"] > 2**20


def test_plan_when_torch_is_not_there_then_it_still_runs(project: Path) -> None:
    """A machine that only plans needs neither torch nor numpy."""
    script = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from statekit_codegen.cli import main\n"
        "sys.exit(main(['plan', '--budget', 'cuda=1GiB'], sys.stdout, sys.stderr))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "sessions fit" in done.stdout
