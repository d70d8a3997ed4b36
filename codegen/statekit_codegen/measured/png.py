"""PNG: the pictures of a run as an image, drawn by Pillow, at twice the size of the SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from statekit.errors import GenerateError
from statekit_codegen.measured.picture import (
    COLOURS,
    HEIGHT,
    LEFT,
    LEGEND,
    LINE,
    PLOT,
    SPARK,
    TOP,
    WIDTH,
    Panel,
)

__all__ = ["require_pillow", "write_png"]

_SCALE = 2
_SMOOTH = 2
"""Areas are drawn so many times as large again, and made smaller: their edges are smooth then."""

_INK, _QUIET, _WRONG, _GRID = "#1f2328", "#59636e", "#cf222e", "#d8dee4"


def require_pillow(file: Path) -> None:
    """Refuse to draw `file` where that cannot be done.

    Raises:
        GenerateError: Pillow is not installed, or too old to have a font.
    """
    todo = "pip install 'pillow>=10.1', or draw with --svg"
    try:
        import PIL
    except ImportError:
        raise GenerateError(f"--png {file}", "Pillow is not installed", todo) from None
    if tuple(map(int, PIL.__version__.split(".")[:2])) < (10, 1):
        raise GenerateError(f"--png {file}", f"Pillow is {PIL.__version__}", todo)


def write_png(panels: Sequence[Panel], file: Path) -> None:
    """Write the image to `file`.

    Raises:
        GenerateError: Pillow is not installed, or the file cannot be written.
    """
    require_pillow(file)
    from PIL import Image

    width, height = WIDTH, max(2 * LINE, sum(panel.height for panel in panels))
    large = _SCALE * _SMOOTH
    image = Image.new("RGB", (width * large, height * large), "white")
    _areas(image, panels, large)
    image = image.resize((width * _SCALE, height * _SCALE), Image.Resampling.LANCZOS)
    _words(image, panels)
    try:
        image.save(file, format="PNG", optimize=True)
    except OSError as error:
        found = f"cannot be written: {error.strerror or error}"
        todo = "name a file in a folder that you may write"
        raise GenerateError(str(file), found, todo) from None


def _areas(image: Any, panels: Sequence[Panel], scale: int) -> None:
    from PIL import ImageDraw

    pen = ImageDraw.Draw(image)
    y = 0
    for panel in panels:
        for number, (place, _) in enumerate(panel.ticks):
            ends = [
                (LEFT * scale, (y + place) * scale),
                ((LEFT + PLOT) * scale, (y + place) * scale),
            ]
            pen.line(ends, fill=_GRID if number else _QUIET, width=scale)
        for number, band in enumerate(panel.bands):
            for corners in (band.outline, band.spark):
                outline = [(px * scale, (y + py) * scale) for px, py in corners]
                pen.polygon(outline, fill=COLOURS[number])
            base = (y + TOP + LINE * number + SPARK[1]) * scale
            left, right = LEGEND * scale, (LEGEND + SPARK[0]) * scale
            pen.line([(left, base), (right, base)], fill=_GRID, width=scale)
            if band.declared_y is not None:
                at = (y + band.declared_y) * scale
                for dash in range(left, right, 5 * scale):
                    ends = [(dash, at), (min(right, dash + 3 * scale), at)]
                    pen.line(ends, fill=_INK, width=scale)
        y += panel.height


def _words(image: Any, panels: Sequence[Panel]) -> None:
    from PIL import ImageDraw, ImageFont

    pen = ImageDraw.Draw(image)
    small, large = (ImageFont.load_default(size * _SCALE) for size in (12, 14))

    def write(
        x: float, y: float, text: str, fill: str, anchor: str = "ls", font: Any = small
    ) -> None:
        pen.text((x * _SCALE, y * _SCALE), text, fill=fill, font=font, anchor=anchor)

    y = 0
    for panel in panels:
        write(16, y + 28, panel.title, _INK, font=large)
        write(16, y + 46, panel.subtitle, _QUIET)
        for place, label in panel.ticks:
            write(LEFT - 8, y + place + 4, label, _QUIET, "rs")
        for number, band in enumerate(panel.bands):
            place = y + TOP + LINE * number + SPARK[1] - 5
            left = LEGEND + SPARK[0] + 14
            write(left, place, band.name, _INK)
            after = left + 6 + pen.textlength(band.name, font=small) / _SCALE
            write(after, place, band.detail, _WRONG if band.wrong else _QUIET)
        base = y + TOP + HEIGHT + 18
        write(LEFT, base, f"step {panel.first:,}", _QUIET)
        write(LEFT + PLOT, base, f"step {panel.last:,}", _QUIET, "rs")
        write(LEGEND, y + 46, "each on a scale of its own, dashed: declared", _QUIET)
        y += panel.height
