"""The page of described models: its commands print what it shows, its table is what is computed."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest

from statekit_codegen.cli import main
from statekit_codegen.plan.need import Need, need_of
from statekit_codegen.units import format_nbytes
from tests.codegen.plan.schemas import asked, model

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
MODELS = sorted(path.stem for path in (ROOT / "schemas").glob("*.yaml"))
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```$", PAGE, re.M | re.S)
SECTIONS = re.findall(r"^## (?!What recurs)(.*?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
"""Title and text of each model's section."""


def commands() -> list[tuple[str, str]]:
    """Every command, with the texts that are shown below it."""
    found: list[tuple[str, str]] = []
    for kind, text in BLOCKS:
        if kind == "sh":
            found.append((text, ""))
        else:
            found[-1] = (found[-1][0], found[-1][1] + text)
    return found


@pytest.mark.parametrize(("command", "shown"), commands())
def test_models_page_when_a_command_is_run_then_it_prints_what_is_shown(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line that is shown below a command is one that it prints."""
    monkeypatch.chdir(ROOT)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    program, *args = shlex.split(command)
    stdout, stderr = io.StringIO(), io.StringIO()
    assert program == "statekit"
    assert (main(args, stdout, stderr), stderr.getvalue()) == (0, "")
    assert shown
    printed = stdout.getvalue().splitlines()
    assert [line for line in shown.splitlines() if line not in printed] == []


def test_models_page_when_a_schema_is_described_then_it_has_a_section_with_its_sources() -> None:
    """Each schema has one section, in the order of their names, that plans it and says whence."""
    named = [re.findall(r"schemas/(\w+)\.yaml", text) for _, text in SECTIONS]
    assert [names[0] for names in named] == MODELS
    for (title, text), names in zip(SECTIONS, named, strict=True):
        assert set(names) == {names[0]}, title
        for part in ("- **Decided**", "- **Source**", f"```sh\nstatekit plan schemas/{names[0]}"):
            assert part in text, (title, part)


def test_models_page_when_its_table_is_computed_then_the_figures_are_those() -> None:
    """Bytes after two steps, values, lines of schema and of hand-written code, by model."""
    rows = re.findall(r"^\| \[(.*?)\]\(#(.*?)\) \| (.*) \|$", PAGE, re.M)
    assert [title for title, _, _ in rows] == [title for title, _ in SECTIONS]
    assert [anchor for _, anchor, _ in rows] == [_anchor(title) for title, _ in SECTIONS]
    assert [cells for _, _, cells in rows] == [_cells(name) for name in MODELS]


def test_models_page_when_it_links_then_the_sections_are_there() -> None:
    """Every link within the page leads to a section, and every model has a link."""
    linked = set(re.findall(r"\]\(#(.*?)\)", PAGE))
    assert linked == {_anchor(title) for title, _ in SECTIONS}


def test_models_page_when_it_compares_with_hand_rolled_classes_then_their_lines_are_counted() -> (
    None
):
    """The classes that two adapters replace in the tests have as many lines as the page says."""
    for name, title in (("cosmos3", "Cosmos3"), ("dreamzero", "DreamZero")):
        lines = _lines(ROOT / "tests" / "equivalence" / f"hand_rolled_{name}.py")
        assert re.search(rf"\b{lines}(\s+lines)?\s+\({title}\)", PAGE)


def _cells(name: str) -> str:
    need = need_of(model(name).spec, name, asked(step=2))
    own = ROOT / "statekit" / "adapters" / f"{name}.py"
    device = _between(need, "cuda:0")
    running = need.in_use().get("cuda:0", 0)
    return " | ".join(
        [
            format_nbytes(device),
            format_nbytes(_between(need, "cpu")) if _between(need, "cpu") else "-",
            format_nbytes(running) if running > device else "-",
            str(len(model(name).spec.values)),
            f"{_lines(ROOT / 'schemas' / f'{name}.yaml')} lines",
            f"{_lines(own)} lines" if own.exists() else "-",
        ]
    )


def _between(need: Need, device: str) -> int:
    """Bytes on a device between two steps."""
    return sum(one.nbytes or 0 for one in need.values if one.device == device)


def _lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def _anchor(title: str) -> str:
    """The name that Markdown gives to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
