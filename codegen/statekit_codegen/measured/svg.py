"""SVG: the pictures of a run as one drawing, in light and in dark.

Same report, same bytes. What comes from schemas and sessions is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

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

__all__ = ["draw", "write_svg"]

_BANDS = " ".join(f".b{number} {{ fill: {colour}; }}" for number, colour in enumerate(COLOURS))
_STYLE = f"""\
svg {{ background: #ffffff; font: 12px system-ui, sans-serif; }}
text {{ fill: #1f2328; }} .name {{ font-weight: 600; font-size: 14px; }}
.quiet {{ fill: #59636e; }} .wrong {{ fill: #cf222e; font-weight: 600; }}
.grid {{ stroke: #d8dee4; }} .axis {{ stroke: #59636e; }}
.declared {{ stroke: #1f2328; stroke-dasharray: 3 2; }}
{_BANDS}
@media (prefers-color-scheme: dark) {{
  svg {{ background: #0d1117; }} text {{ fill: #e6edf3; }} .quiet {{ fill: #9198a1; }}
  .wrong {{ fill: #ff7b72; }} .grid {{ stroke: #2f353d; }} .axis {{ stroke: #9198a1; }}
  .declared {{ stroke: #e6edf3; }}
}}
"""


def write_svg(panels: Sequence[Panel], file: Path) -> None:
    """Write the drawing to `file`.

    Raises:
        GenerateError: it cannot be written.
    """
    try:
        file.write_bytes(draw(panels).encode())
    except OSError as error:
        found = f"cannot be written: {error.strerror or error}"
        todo = "name a file in a folder that you may write"
        raise GenerateError(str(file), found, todo) from None


def draw(panels: Sequence[Panel]) -> str:
    """The drawing."""
    parts: list[str] = []
    y = 0
    for panel in panels:
        parts += _panel(panel, y)
        y += panel.height
    height = max(y, 2 * LINE)
    names = ", ".join(panel.title for panel in panels)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Bytes of sessions">',
            f"<title>Bytes of sessions over steps, as measured: {escape(names)}</title>",
            f"<style>{_STYLE}</style>",
            *parts,
            "</svg>\n",
        ]
    )


def _panel(panel: Panel, y: int) -> Iterator[str]:
    yield _text(16, y + 28, panel.title, "name")
    yield _text(16, y + 46, panel.subtitle, "quiet")
    for number, (place, label) in enumerate(panel.ticks):
        kind = "grid" if number else "axis"
        at = f"{y + place:g}"
        yield f'<line class="{kind}" x1="{LEFT}" x2="{LEFT + PLOT}" y1="{at}" y2="{at}"/>'
        yield _text(LEFT - 8, y + place + 4, label, "quiet", "end")
    for number, band in enumerate(panel.bands):
        title = f"<title>{escape(band.name)}: {escape(band.detail)}</title>"
        for corners in (band.outline, band.spark):
            points = " ".join(f"{px:.1f},{y + py:.1f}" for px, py in corners)
            yield f'<polygon class="b{number}" points="{points}">{title}</polygon>'
        if band.declared_y is not None:
            at = f"{y + band.declared_y:.1f}"
            ends = f'x1="{LEGEND}" x2="{LEGEND + SPARK[0]}" y1="{at}" y2="{at}"'
            yield f'<line class="declared" {ends}/>'
        base = y + TOP + LINE * number + SPARK[1]
        yield f'<line class="grid" x1="{LEGEND}" x2="{LEGEND + SPARK[0]}" y1="{base}" y2="{base}"/>'
        kind = "wrong" if band.wrong else "quiet"
        yield (
            f'<text x="{LEGEND + SPARK[0] + 14}" y="{base - 5}">{escape(band.name)} '
            f'<tspan class="{kind}">{escape(band.detail)}</tspan></text>'
        )
    base = y + TOP + HEIGHT + 18
    yield _text(LEFT, base, f"step {panel.first:,}", "quiet")
    yield _text(LEFT + PLOT, base, f"step {panel.last:,}", "quiet", "end")
    yield _text(LEGEND, y + 46, "each on a scale of its own, dashed: declared", "quiet")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "") -> str:
    end = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}"{end}>{escape(text)}</text>'
