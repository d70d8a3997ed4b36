"""The curves of a plan as one SVG: a panel a model, its values stacked, in light and in dark.

Owns the drawing and the file. Same answer, same bytes. Schema text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from statekit.errors import GenerateError
from statekit_codegen.plan.answer import Answer, ModelPlan
from statekit_codegen.plan.curve import Curve, Series
from statekit_codegen.units import format_nbytes

__all__ = ["SHOWN", "draw", "write_svg"]

SHOWN = 6
"""So many values of a model have a band of their own; the smaller ones share one."""

_WIDTH, _LEFT, _PLOT, _HIGH, _TOP, _LINE = 860, 92, 460, 190, 64, 36
_LEGEND = _LEFT + _PLOT + 28
_CHARS = 36
_STYLE = """\
svg { background: #ffffff; font: 12px system-ui, sans-serif; }
text { fill: #1f2328; } .name { font-weight: 600; font-size: 14px; } .quiet { fill: #59636e; }
.grid { stroke: #d8dee4; } .axis { stroke: #59636e; }
.b0 { fill: #4c78a8; } .b1 { fill: #f2a541; } .b2 { fill: #54a24b; } .b3 { fill: #b279a2; }
.b4 { fill: #e45756; } .b5 { fill: #72b7b2; } .b6 { fill: #9d9da1; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; } text { fill: #e6edf3; } .quiet { fill: #9198a1; }
  .grid { stroke: #2f353d; } .axis { stroke: #9198a1; }
}
"""


def write_svg(answer: Answer, file: Path) -> None:
    """Write the picture of `answer` to `file`.

    Raises:
        GenerateError: the file cannot be written.
    """
    try:
        file.write_bytes(draw(answer).encode())
    except OSError as error:
        found = f"cannot be written: {error.strerror or error}"
        raise GenerateError(
            str(file), found, "name a file in a folder that you may write"
        ) from None


def draw(answer: Answer) -> str:
    """The picture of `answer`."""
    panels: list[str] = []
    y = 0
    for plan in answer.models:
        if plan.curve.values:
            panels += _panel(plan, y)
            y += _panel_height(plan.curve)
    height = max(y, 40)
    names = ", ".join(plan.model for plan in answer.models)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Bytes of a session">',
            f"<title>Bytes of a session over steps: {escape(names)}</title>",
            f"<style>{_STYLE}</style>",
            *panels,
            "</svg>\n",
        ]
    )


def _panel_height(curve: Curve) -> int:
    return _TOP + max(_HIGH, _LINE * len(_bands(curve))) + 56


def _panel(plan: ModelPlan, y: int) -> Iterator[str]:
    curve = plan.curve
    top = max(curve.totals)
    base = y + _TOP + _HIGH
    yield f'<text class="name" x="16" y="{y + 28}">{escape(plan.model)}</text>'
    yield (
        f'<text class="quiet" x="16" y="{y + 46}">Bytes of one session between steps; '
        f"{format_nbytes(curve.totals[-1])} after step {curve.steps[-1]:,}</text>"
    )
    for quarter in range(5):
        place = base - _HIGH * quarter // 4
        kind = "grid" if quarter else "axis"
        yield (
            f'<line class="{kind}" x1="{_LEFT}" x2="{_LEFT + _PLOT}" y1="{place}" y2="{place}"/>'
        )
        label = format_nbytes(top * quarter // 4) if quarter else "0"
        yield (
            f'<text class="quiet" x="{_LEFT - 8}" y="{place + 4}" text-anchor="end">{label}</text>'
        )
    below = [0] * len(curve.steps)
    legend = []
    for number, band in enumerate(_bands(curve)):
        above = [low + nbytes for low, nbytes in zip(below, band.nbytes, strict=True)]
        yield _area(curve, below, above, top, base, f"b{number}", band.name)
        below = above
        place = y + _TOP + _LINE * number
        size = " ".join(filter(None, (band.device, format_nbytes(band.nbytes[-1]))))
        legend.append(
            f'<rect class="b{number}" x="{_LEGEND}" y="{place}" width="12" height="12"/>'
            f'<text x="{_LEGEND + 18}" y="{place + 11}">{escape(_short(band.name))}</text>'
            f'<text class="quiet" x="{_LEGEND + 18}" y="{place + 26}">{escape(size)}</text>'
        )
    yield from legend
    first, last = curve.steps[0], curve.steps[-1]
    yield f'<text class="quiet" x="{_LEFT}" y="{base + 20}">step {first:,}</text>'
    yield (
        f'<text class="quiet" x="{_LEFT + _PLOT}" y="{base + 20}" text-anchor="end">'
        f"step {last:,}</text>"
    )


def _bands(curve: Curve) -> list[Series]:
    """The largest values, the largest below; all others as one on top."""
    ranked = sorted(curve.values, key=lambda one: -max(one.nbytes))
    if len(ranked) <= SHOWN + 1:
        return ranked
    rest = ranked[SHOWN:]
    total = tuple(map(sum, zip(*(one.nbytes for one in rest), strict=True)))
    return [*ranked[:SHOWN], Series(f"{len(rest)} smaller values", "", total)]


def _short(name: str) -> str:
    return name if len(name) <= _CHARS else f"{name[: _CHARS - 1]}…"


def _area(
    curve: Curve, below: list[int], above: list[int], top: int, base: int, kind: str, name: str
) -> str:
    """One band, between two lines; each point holds until the next one."""
    last = max(1, curve.steps[-1] - curve.steps[0])

    def x(step: int) -> str:
        return f"{_LEFT + _PLOT * (step - curve.steps[0]) / last:.1f}"

    def line(heights: list[int]) -> list[str]:
        places = [f"{base - _HIGH * height / top:.1f}" for height in heights]
        points = [f"{x(curve.steps[0])},{places[0]}"]
        for index, step in enumerate(curve.steps):
            if index and places[index] != places[index - 1]:
                points += [f"{x(step)},{places[index - 1]}", f"{x(step)},{places[index]}"]
        return [*points, f"{_LEFT + _PLOT},{places[-1]}"]

    outline = " ".join([*line(above), *reversed(line(below))])
    return f'<polygon class="{kind}" points="{outline}"><title>{escape(name)}</title></polygon>'
