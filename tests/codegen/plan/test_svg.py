"""The picture of a plan: well-formed, complete, the same each time, and never more than text."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from statekit.errors import GenerateError
from statekit_codegen.plan.answer import Answer, answer
from statekit_codegen.plan.svg import SHOWN, draw, write_svg
from tests.codegen.plan.schemas import TOY, asked, model, toy

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def everything() -> Answer:
    """All schemas of this project after 400 steps."""
    names = ("cosmos3", "dreamzero", "lingbot_world_2", "sana_wm")
    return answer([model(name) for name in names], asked(step=400), None)


def words(picture: str) -> list[str]:
    """The texts of a picture, in order."""
    tree = ElementTree.fromstring(picture)
    return ["".join(one.itertext()) for one in tree.iter(f"{SVG}text")]


def test_svg_when_drawn_then_every_model_has_a_panel_with_its_values(everything: Answer) -> None:
    """Names, the largest values with device and bytes, the first and the last step."""
    said = words(draw(everything))
    for name in ("cosmos3", "dreamzero", "lingbot_world_2", "sana_wm"):
        assert name in said
    assert "Bytes of one session between steps; 701.93 MiB after step 400" in said
    at = said.index("vae_enc_feat_map")
    assert said[at + 1] == "cuda:0 603.28 MiB"
    assert "3 smaller values" in said
    assert said.count("step 1") == said.count("step 400") == 4


def test_svg_when_drawn_again_then_it_is_the_same_and_not_large(everything: Answer) -> None:
    """The same bytes each time; bands that do not change have two corners on each side."""
    picture = draw(everything)
    assert picture == draw(everything)
    assert len(picture) < 100_000
    outlines = re.findall(r'points="([^"]*)"', picture)
    assert min(len(outline.split()) for outline in outlines) == 4


def test_svg_when_bands_are_stacked_then_each_begins_where_the_one_below_ends() -> None:
    """The upper edge of a band is the lower edge of the next; the highest reaches the top."""
    picture = draw(answer([toy()], asked(step=9), None))
    outlines = [
        [tuple(map(float, point.split(","))) for point in outline.split()]
        for outline in re.findall(r'points="([^"]*)"', picture)
    ]
    assert len(outlines) == 5
    for below, above in pairwise(outlines):
        upper = [y for x, y in below if x == below[0][0]]
        lower = [y for x, y in above if x == above[0][0]]
        assert min(upper) == max(lower)
    highest = min(y for outline in outlines for _, y in outline)
    tree = ElementTree.fromstring(picture)
    lines = [float(one.attrib["y1"]) for one in tree.iter(f"{SVG}line")]
    assert highest == min(lines)


def test_svg_when_values_are_many_then_the_smaller_ones_share_a_band() -> None:
    """One band more than are shown by name is the most; nothing is left out of the sum."""
    (plan,) = answer([model("dreamzero")], asked(step=2), None).models
    picture = draw(answer([model("dreamzero")], asked(step=2), None))
    assert picture.count("<polygon") == SHOWN + 1 < len(plan.curve.values)


def test_svg_when_names_are_long_then_they_are_shortened_and_whole_in_the_title() -> None:
    """A name of 60 letters does not run out of the picture."""
    name = "x" * 60
    text = TOY.replace("  cache:", f"  {name}:")
    picture = draw(answer([toy(text)], asked(step=2), None))
    assert f"<title>{name}</title>" in picture
    assert name not in words(picture)
    assert "x" * 35 + "…" in words(picture)


def test_svg_when_a_model_holds_no_memory_then_there_is_a_picture_without_panels() -> None:
    """Nothing to draw is no error."""
    text = TOY[: TOY.index("  cache:")] + TOY[TOY.index("resets:") :]
    picture = draw(answer([toy(text)], asked(step=2), None))
    assert words(picture) == []


def test_svg_when_there_is_one_step_then_it_is_drawn_as_wide_as_others() -> None:
    """A curve of one point is a bar."""
    picture = draw(answer([toy()], asked(step=1), None))
    outlines = re.findall(r'points="([^"]*)"', picture)
    assert all(len({point.split(",")[0] for point in one.split()}) == 2 for one in outlines)


def test_write_when_the_file_is_there_then_it_is_replaced(tmp_path: Path) -> None:
    """The file has the picture and nothing else; one that cannot be written is an error."""
    found = answer([toy()], asked(step=2), None)
    file = tmp_path / "plan.svg"
    file.write_text("x" * 10**6, "utf-8")
    write_svg(found, file)
    assert file.read_text("utf-8") == draw(found)
    with pytest.raises(GenerateError, match="cannot be written: Is a directory"):
        write_svg(found, tmp_path)
