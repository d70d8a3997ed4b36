"""Draws the ratios of a benchmark run as an SVG: bars on a logarithmic axis, goals marked.

Owns the drawing alone; what was measured comes as `Line` from `tests.benchmarks.report`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from tests.benchmarks.report import Line

__all__ = ["chart"]

LABELS, PLOT, RIGHT, ROW, TOP = 340, 420, 90, 20, 56
STYLE = """\
svg { background: #ffffff; font: 12px system-ui, sans-serif; }
text { fill: #1f2328; } .group { font-weight: 600; } .quiet { fill: #59636e; }
.grid { stroke: #d8dee4; } .one { stroke: #59636e; }
.met { fill: #4c78a8; } .missed { fill: #d1495b; } .goal { stroke: #1f2328; stroke-width: 2; }
"""


def chart(measured: Sequence[Line]) -> str:
    """The picture: all subjects but the baselines, group by group."""
    shown = [line for line in measured if not line.baseline]
    reach = [line.ratio for line in shown] + [line.goal for line in shown if line.goal]
    low = math.floor(math.log10(min(reach)) * 2) / 2
    high = math.ceil(math.log10(max(reach)) * 2) / 2

    def x(ratio: float) -> float:
        return LABELS + PLOT * (math.log10(ratio) - low) / (high - low)

    rows: list[str] = []
    y = TOP
    for group, members in itertools.groupby(shown, key=lambda line: line.group):
        y += 8
        rows.append(f'<text class="group" x="12" y="{y + 14}">{escape(group)}</text>')
        y += ROW
        for line in members:
            rows += _bar(line, x, y)
            y += ROW
    height = y + 12
    axis = []
    for power in range(math.ceil(low), math.floor(high) + 1):
        kind, place = "one" if power == 0 else "grid", f"{x(10.0**power):.1f}"
        axis.append(
            f'<line class="{kind}" x1="{place}" x2="{place}" y1="{TOP}" y2="{height - 8}"/>'
        )
        axis.append(
            f'<text class="quiet" x="{place}" y="{TOP - 6}" text-anchor="middle">'
            f"{10.0**power:g}</text>"
        )
    width = LABELS + PLOT + RIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img">',
            "<title>Times as long as the baseline of each group</title>",
            f"<style>{STYLE}</style>",
            *_legend(),
            *axis,
            *rows,
            "</svg>\n",
        ]
    )


def _legend() -> list[str]:
    return [
        '<text x="12" y="22">Times as long as the baseline of the group; less is better</text>',
        f'<rect class="met" x="{LABELS + 60}" y="13" width="22" height="10"/>',
        f'<text class="quiet" x="{LABELS + 88}" y="22">measured</text>',
        f'<rect class="missed" x="{LABELS + 170}" y="13" width="22" height="10"/>',
        f'<text class="quiet" x="{LABELS + 198}" y="22">misses its goal</text>',
        f'<line class="goal" x1="{LABELS + 314}" x2="{LABELS + 314}" y1="11" y2="25"/>',
        f'<text class="quiet" x="{LABELS + 324}" y="22">goal</text>',
    ]


def _bar(line: Line, x: Callable[[float], float], y: int) -> list[str]:
    start, end = sorted((x(1.0), x(line.ratio)))
    kind = "missed" if line.missed else "met"
    drawn = [
        f'<text x="{LABELS - 12}" y="{y + 14}" text-anchor="end">{escape(line.subject)}</text>',
        f'<rect class="{kind}" x="{start:.1f}" y="{y + 4}" width="{max(1.0, end - start):.1f}" '
        'height="12"/>',
        f'<text class="quiet" x="{LABELS + PLOT + RIGHT - 12}" y="{y + 14}" text-anchor="end">'
        f"{line.ratio:.2f}</text>",
    ]
    if line.goal:
        place = f"{x(line.goal):.1f}"
        drawn.append(f'<line class="goal" x1="{place}" x2="{place}" y1="{y + 1}" y2="{y + 19}"/>')
    return drawn
