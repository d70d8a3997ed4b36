"""Variants: named numbers of a schema, in reviews and plans."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from statekit.errors import GenerateError
from statekit_codegen.cli import main
from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.variant import in_variant, require_variant

TOY = """\
statekit: 1
model: toy
class: ToyState
doc: A toy.
symbols: {LAYERS: 2, H: 4}
variants:
  nano: {LAYERS: 3}
  super: {LAYERS: 8, H: 16}
values:
  kv:
    bucket: attrs
    doc: Keys.
    type: torch.Tensor | None
    default: null
    dtype: uint8
    shape: [LAYERS, H]
    device: model
    decision: {operations: [], why: Carried.}
resets:
  session: {clears: all, doc: All.}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the toy and a model without variants, which the tests run in."""
    table = '[tool.statekit]\nschemas = "schemas"\noutput = "generated"\n'
    (tmp_path / "pyproject.toml").write_text(table, "utf-8")
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "toy.yaml").write_text(TOY, "utf-8")
    start, end = TOY.index("variants:"), TOY.index("values:")
    other = (TOY[:start] + TOY[end:]).replace("toy", "plain")
    (tmp_path / "schemas" / "plain.yaml").write_text(other, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `statekit`."""
    out, err = io.StringIO(), io.StringIO()
    return main(list(args), out, err), out.getvalue(), err.getvalue()


def toy(text: str = TOY) -> Model:
    """The schema as a model."""
    return load_text(text.encode(), "schemas/toy.yaml")


def test_model_when_in_a_variant_then_its_numbers_stand_for_the_symbols() -> None:
    """Symbols that the variant has not keep the schema's number; the record of it stays."""
    model = in_variant(toy(), "nano")
    assert (dict(model.spec.symbols), model.variant) == ({"LAYERS": 3, "H": 4}, "nano")
    assert model.spec.variants == toy().spec.variants
    assert in_variant(toy(), None) == toy()
    assert in_variant(toy(), "other") == toy()


def test_variant_when_no_model_has_it_then_the_error_lists_those_there_are() -> None:
    """A name that is nearly one is proposed."""
    with pytest.raises(GenerateError) as raised:
        require_variant([toy()], "nanno")
    assert str(raised.value) == (
        "--variant: no schema has a variant 'nanno'; did you mean nano? variants here: nano, super"
    )
    with pytest.raises(GenerateError, match="variants here: none"):
        require_variant([], "nano")
    require_variant([toy()], None)


@pytest.mark.parametrize(
    ("options", "nbytes"),
    [
        ((), 8),
        (("--variant", "nano"), 12),
        (("--variant", "super"), 128),
        (("--variant", "super", "--set", "H=2"), 16),
        (("--set", "LAYERS=1"), 4),
    ],
)
def test_commands_when_told_a_variant_then_figures_are_of_it(
    options: tuple[str, ...], nbytes: int, project: Path
) -> None:
    """A number that is set goes before the one of the variant."""
    code, out, err = run("review", "schemas/toy.yaml", "--format", "json", *options)
    assert (code, err) == (0, "")
    (model,) = json.loads(out)["models"]
    name = options[1] if options[:1] == ("--variant",) else None
    assert (model["values"][0]["nbytes"], model["variant"]) == (nbytes, name)
    code, out, err = run("plan", "schemas/toy.yaml", "--format", "json", *options)
    (model,) = json.loads(out)["models"]
    assert (model["devices"][0]["nbytes"], model["variant"]) == (nbytes, name)


def test_commands_when_several_models_are_shown_then_one_without_the_variant_keeps_its_numbers(
    project: Path,
) -> None:
    """A variant is that of the schemas that have it."""
    _, out, _ = run("review", "--format", "json", "--variant", "nano")
    found = {one["model"]: (one["variant"], one["numbers"]["LAYERS"]) for one in _models(out)}
    assert found == {"plain": (None, 2), "toy": ("nano", 3)}


def test_commands_when_the_variant_is_unknown_then_they_could_not_run(project: Path) -> None:
    """Both commands say which there are, and exit with 2."""
    for command in ("plan", "review"):
        code, out, err = run(command, "--variant", "ultra")
        assert (code, out) == (2, "")
        assert "no schema has a variant 'ultra'; variants here: nano, super" in err


def test_text_when_of_a_variant_then_it_says_so_and_lists_all(project: Path) -> None:
    """A reader of figures sees which deployment they are for."""
    _, out, _ = run("review", "schemas/toy.yaml", "--variant", "super")
    assert "Computed with variant super: LAYERS=8, H=16." in out
    assert "Variants\n  nano   LAYERS=3\n  super  LAYERS=8, H=16\n" in out
    _, out, _ = run("plan", "schemas/toy.yaml", "--variant", "super")
    assert "Computed with variant super: LAYERS=8, H=16." in out


def test_change_when_a_variant_is_edited_then_review_tells_and_nothing_breaks(
    project: Path,
) -> None:
    """A variant is a number of planning: no code and no saved session depends on it."""
    copy = project / "before"
    copy.mkdir()
    (copy / "toy.yaml").write_text(TOY.replace("nano: {LAYERS: 3}", "nano: {LAYERS: 4}"), "utf-8")
    code, out, _ = run("review", "schemas/toy.yaml", "--against", str(copy))
    assert code == 0
    assert "variant nano" in out
    assert "LAYERS=4" in out
    code, out, err = run("breaking", "schemas/toy.yaml", "--against", str(copy))
    assert (code, err) == (0, "")
    code, out, _ = run(
        *("review", "schemas/toy.yaml", "--against", str(copy), "--variant", "nano"),
        *("--format", "json"),
    )
    (model,) = _models(out)
    assert [total["difference_nbytes"] for total in model["totals"]] == [-4]


def _models(out: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(out)["models"]
    return found
