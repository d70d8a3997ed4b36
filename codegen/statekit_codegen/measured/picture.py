"""Picture: bytes over steps, as bands in a panel for each model; where everything stands.

Owns the choice of bands and the geometry, for whoever draws. Each model is shown with the session
that held most. Sizes are in points, the origin is at the top left.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from statekit_codegen.measured.report import ModelReport, Report, Row
from statekit_codegen.units import format_nbytes

__all__ = [
    "COLOURS",
    "HEIGHT",
    "LEFT",
    "LEGEND",
    "LINE",
    "PLOT",
    "SPARK",
    "TOP",
    "WIDTH",
    "Band",
    "Panel",
    "pictures_of",
]

SHOWN = 6
"""So many values of a model have a band of their own; the smaller ones share one."""

WIDTH, LEFT, PLOT, HEIGHT, TOP = 1060, 92, 400, 208, 64
"""Of the picture, and where the plot stands in it."""

LINE, SPARK = 30, (116, 20)
"""How far the lines of the legend are apart, and how large each one's own small plot is."""

LEGEND = LEFT + PLOT + 32

_FAR = 3
"""What is declared is drawn where it is at most so many times as much."""

COLOURS = ("#4c78a8", "#f2a541", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d9da1")

Corners = tuple[tuple[float, float], ...]


@attrs.frozen
class Band:
    """One value, or what is left of them.

    Attributes:
        name, detail: for the legend.
        wrong: whether a finding says that its declaration is wrong.
        outline: the corners of its area.
        spark: the corners of its small plot, on a scale of its own, in the legend.
        declared_y: the height there of what is declared; None where that is nothing, or far off.
    """

    name: str
    detail: str
    wrong: bool
    outline: Corners
    spark: Corners
    declared_y: float | None


@attrs.frozen
class Panel:
    """One model.

    Attributes:
        title, subtitle: above the plot.
        top: how many bytes the plot is high.
        first, last: the steps at its sides.
        bands: the lowest first.
        height: of the whole panel.
    """

    title: str
    subtitle: str
    top: int
    first: int
    last: int
    bands: tuple[Band, ...]

    @property
    def height(self) -> int:
        """Of the whole panel, with what stands above and below the plot."""
        return TOP + max(HEIGHT + 30, LINE * len(self.bands)) + 14

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Heights below the top of the panel, and what stands beside them."""
        return [
            (TOP + HEIGHT - HEIGHT * quarter / 4,
             format_nbytes(self.top * quarter // 4) if quarter else "0")
            for quarter in range(5)
        ]  # fmt: skip


def pictures_of(report: Report) -> list[Panel]:
    """A panel for each model of which a session held bytes."""
    return [_panel(model) for model in report.models if model.fullest.peak_nbytes]


def _panel(model: ModelReport) -> Panel:
    session = model.fullest
    rows = {row.name: row for row in model.rows}
    series: list[tuple[str, Row | None, tuple[int, ...]]] = []
    for value in session.values:
        if value.peak_nbytes:
            points = tuple(map(sum, zip(*value.nbytes.values(), strict=True)))
            series.append((value.name, rows.get(value.name), points))
    series.sort(key=lambda one: -max(one[2]))
    if len(series) > SHOWN + 1:
        rest = [points for *_, points in series[SHOWN:]]
        total = tuple(map(sum, zip(*rest, strict=True)))
        series[SHOWN:] = [(f"{len(rest)} smaller values", None, total)]
    top = max(map(sum, zip(*(points for *_, points in series), strict=True)))
    plot = _Box(LEFT, TOP, PLOT, HEIGHT, top)
    below = (0,) * len(session.steps)
    bands = []
    for number, (name, row, points) in enumerate(series):
        above = tuple(low + nbytes for low, nbytes in zip(below, points, strict=True))
        declared = None if row is None else row.declared_nbytes
        if declared is not None and declared > _FAR * max(points):
            declared = None
        high = max(max(points), declared or 0)
        small = _Box(LEGEND, TOP + LINE * number, *SPARK, high)
        bands.append(
            Band(
                name,
                _detail(row, points),
                _is_wrong(row),
                plot.area(session.steps, above, below),
                small.area(session.steps, points, (0,) * len(points)),
                None if declared is None else small.y(declared),
            )
        )
        below = above
    steps = f"{session.step_count:,} steps"
    return Panel(
        title=model.model or "no schema",
        subtitle=f"Bytes of session {session.session_id!r} after each of {steps}; "
        f"{format_nbytes(session.peak_nbytes)} at most",
        top=top,
        first=1,
        last=session.step_count,
        bands=tuple(bands),
    )


@attrs.frozen
class _Box:
    """A plot: where it stands, how large it is, and how many bytes it is high."""

    left: int
    top: int
    width: int
    height: int
    nbytes: int

    def y(self, nbytes: int) -> float:
        """The height of so many bytes."""
        return self.top + self.height - self.height * nbytes / self.nbytes

    def area(self, steps: Sequence[int], above: Sequence[int], below: Sequence[int]) -> Corners:
        """The area between two lines."""
        return (*self._line(steps, above), *reversed(self._line(steps, below)))

    def _line(self, steps: Sequence[int], heights: Sequence[int]) -> list[tuple[float, float]]:
        """Each point is a stair, from the step before to its own."""
        last = steps[-1]
        points: list[tuple[float, float]] = []
        before = 0
        for step, height in zip(steps, heights, strict=True):
            y = self.y(height)
            points.append((self.left + self.width * before / last, y))
            points.append((self.left + self.width * step / last, y))
            before = step
        return points


def _detail(row: Row | None, points: Sequence[int]) -> str:
    peak = format_nbytes(max(points))
    if row is None or not _is_wrong(row) or row.declared_nbytes is None:
        return peak
    return f"{peak}, declared {format_nbytes(row.declared_nbytes)}"


def _is_wrong(row: Row | None) -> bool:
    notes = ("MEASURED_ABOVE", "MEASURED_UNWRITTEN")
    return row is not None and any(rule not in notes for rule in row.rules)
