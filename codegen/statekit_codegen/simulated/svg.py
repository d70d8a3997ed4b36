"""A report as drawings, in light and in dark: what became of the sessions, time over a budget.

Same report, same bytes. Names are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.sax.saxutils import escape

from statekit.simulation.outcome import Outcome
from statekit_codegen.simulated.report import Report
from statekit_codegen.simulated.words import POLICY_WORDS, load_words, share, sizes

__all__ = ["over", "sessions"]

_Parts = Callable[[Outcome], list[tuple[str, float]]]

_WIDTH, _LEFT, _PLOT, _ROW, _BAR = 760, 130, 360, 24, 16
_TOP, _GAP = 78, 14
_SIDE = _LEFT + _PLOT + 14
_STYLE = """\
svg { background: #ffffff; font: 12px system-ui, sans-serif; }
text { fill: #1f2328; } .name { font-weight: 600; font-size: 14px; } .quiet { fill: #59636e; }
.load { font-weight: 600; } .axis { stroke: #59636e; } .track { fill: #eff2f5; }
.finished { fill: #54a24b; } .refused { fill: #f2a541; } .interrupted { fill: #e45756; }
.over { fill: #b279a2; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; } text { fill: #e6edf3; } .quiet { fill: #9198a1; }
  .axis { stroke: #9198a1; } .track { fill: #1c2128; }
}
"""


def sessions(report: Report) -> str:
    """What became of the sessions: a bar for each policy at each load."""

    def parts(one: Outcome) -> list[tuple[str, float]]:
        begun = one.begun or 1
        return [
            ("finished", one.finished / begun),
            ("refused", one.refused / begun),
            ("interrupted", one.interrupted / begun),
        ]

    legend = ("finished", "refused", "interrupted")
    return _drawing(report, "What became of the sessions", legend, parts)


def over(report: Report) -> str:
    """For how much of the replicas' time a device was over its budget."""
    title = "Time during which a device was over its budget"
    return _drawing(report, title, (), lambda one: [("over", one.over_share)])


def _drawing(report: Report, title: str, legend: tuple[str, ...], parts: _Parts) -> str:
    body: list[str] = []
    y = _TOP
    for load in report.loads:
        body.append(f'<text class="load" x="16" y="{y + 12}">{load_words(load)}</text>')
        y += _ROW - 4
        for one in report.at(load):
            body += _row(one, y, parts(one))
            y += _ROW
        y += _GAP
    height = y + 6
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<text class="name" x="16" y="28">{escape(title)}</text>',
            f'<text class="quiet" x="16" y="48">{escape(_size(report))}</text>',
            *_legend(legend),
            *body,
            "</svg>\n",
        ]
    )


def _size(report: Report) -> str:
    return sizes(report).split(";")[0]


def _legend(names: tuple[str, ...]) -> Iterator[str]:
    x = _WIDTH - 16 - 100 * len(names)
    for name in names:
        yield f'<rect class="{name}" x="{x}" y="18" width="12" height="12" rx="2"/>'
        yield f'<text class="quiet" x="{x + 18}" y="28">{name}</text>'
        x += 100


def _row(one: Outcome, y: int, parts: list[tuple[str, float]]) -> Iterator[str]:
    words = escape(POLICY_WORDS[one.policy])
    yield f'<text class="quiet" x="{_LEFT - 10}" y="{y + 12}" text-anchor="end">{words}</text>'
    yield f'<rect class="track" x="{_LEFT}" y="{y}" width="{_PLOT}" height="{_BAR}" rx="2"/>'
    x = float(_LEFT)
    for name, part in parts:
        width = _PLOT * part
        if width:
            yield (
                f'<rect class="{name}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}">'
                f"<title>{share(part)} {name}</title></rect>"
            )
        x += width
    said = ", ".join(f"{share(part)} {name}" for name, part in parts if part) or share(0)
    yield f'<text x="{_SIDE}" y="{y + 12}">{escape(said.removesuffix(" over"))}</text>'
