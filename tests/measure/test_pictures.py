"""Plots: the same run gives the same bytes, nothing leaves its frame, hostile names do no harm."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from statekit import measure
from statekit.errors import GenerateError
from statekit.manager import SessionStateManager
from statekit_codegen.measured.picture import (
    HEIGHT,
    LEFT,
    LEGEND,
    PLOT,
    SHOWN,
    SPARK,
    TOP,
    WIDTH,
    pictures_of,
)
from statekit_codegen.measured.png import write_png
from statekit_codegen.measured.report import report_of
from statekit_codegen.measured.svg import draw
from tests.measure.toy import measured

SVG = "{http://www.w3.org/2000/svg}"


def test_picture_when_drawn_then_within_its_frame_and_as_high_as_the_bytes() -> None:
    """Every corner lies in the plot; the highest one at its top."""
    (panel,) = pictures_of(report_of(measured().recording))
    sparks = [corner for band in panel.bands for corner in band.spark]
    assert all(LEGEND <= x <= LEGEND + SPARK[0] and TOP <= y <= panel.height for x, y in sparks)
    corners = [corner for band in panel.bands for corner in band.outline]
    assert all(LEFT <= x <= LEFT + PLOT and TOP <= y <= TOP + HEIGHT for x, y in corners)
    assert min(y for _, y in corners) == TOP
    assert len(panel.bands) <= SHOWN + 1
    assert (panel.first, panel.last) == (1, 12)


def test_svg_when_drawn_twice_then_the_same_and_well_formed() -> None:
    """Same report, same bytes; each band in both plots; a title for who cannot see it."""
    report = report_of(measured().recording)
    text = draw(pictures_of(report))
    assert text == draw(pictures_of(report))
    root = ElementTree.fromstring(text)
    assert len(root.findall(f"{SVG}polygon")) == 2 * len(pictures_of(report)[0].bands)
    assert root.findtext(f"{SVG}title") == "Bytes of sessions over steps, as measured: toy"
    assert "prefers-color-scheme: dark" in text


def test_svg_when_names_are_hostile_then_they_are_text() -> None:
    """Session ids and keys come from requests: none of them is markup."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        session = manager.get_or_create_session("</text><script>alert(1)</script>&")
        with session.step():
            session.attrs["<b>\x1b[31m"] = torch.zeros(4)
    root = ElementTree.fromstring(draw(pictures_of(report_of(record.recording))))
    assert not [one for one in root.iter() if "script" in one.tag]


def test_png_when_written_then_an_image_of_twice_the_size(tmp_path: Path) -> None:
    """What Pillow reads back has the frame's size, and the colours of the bands."""
    image_module = pytest.importorskip("PIL.Image")
    file = tmp_path / "plot.png"
    panels = pictures_of(report_of(measured().recording))
    write_png(panels, file)
    with image_module.open(file) as image:
        assert image.size == (2 * WIDTH, 2 * panels[0].height)
        assert len(image.convert("RGB").getcolors(1 << 24)) > len(panels[0].bands)


def test_png_when_pillow_is_missing_then_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other forms do not need it."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(GenerateError, match="Pillow is not installed; pip install"):
        write_png([], tmp_path / "plot.png")


def test_picture_when_nothing_held_bytes_then_there_is_none() -> None:
    """A run of counters has no plot, and an empty drawing is still one."""

    def forward(state: object, step: int) -> None:
        return None

    assert pictures_of(report_of(measured(forward, 2).recording)) == []
    ElementTree.fromstring(draw([]))
