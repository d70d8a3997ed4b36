"""Chart: the curve of a session in a terminal, one band a device, stacked.

Owns which character stands where. Colours are the layout's (`text`): a chart is lines of runs, each
a text and the number of the band that it belongs to, or None.
"""

from __future__ import annotations

import attrs

from statekit_codegen.plan.curve import Curve, Series
from statekit_codegen.units import format_nbytes

__all__ = ["ASCII", "BLOCKS", "HEIGHT", "Run", "chart"]

HEIGHT = 10
ASCII = "#:+o."
BLOCKS = "█▒░▓▚"
"""What the bands are drawn with, the lowest first: told apart without colour too."""

_LABEL = 11


@attrs.frozen
class Run:
    """Some characters of a line, and the band that they belong to."""

    text: str
    band: int | None = None


def chart(curve: Curve, width: int, marks: str) -> list[list[Run]]:
    """The lines of the chart, top first, in `width` columns; the last ones are axis and legend."""
    columns = max(10, width - _LABEL - 2)
    top = max(curve.totals)
    heights = [_heights(curve, index, top) for index in _indices(curve, columns)]
    lines: list[list[Run]] = []
    for row in range(HEIGHT - 1, -1, -1):
        label = {HEIGHT - 1: format_nbytes(top), HEIGHT // 2 - 1: format_nbytes(top // 2)}.get(row)
        bands = [_band(column, row) for column in heights]
        lines.append([Run(f"{label or '':>{_LABEL}} |"), *_runs(bands, marks)])
    lines.append([Run(f"{'0':>{_LABEL}} +{'-' * columns}")])
    first, last = f"step {curve.steps[0]}", f"step {curve.steps[-1]:,}"
    lines.append([Run(f"{'':>{_LABEL}}  {first}{last:>{columns - len(first)}}")])
    legend = [Run(" " * (_LABEL + 2))]
    for band, device in enumerate(_stacked(curve)):
        mark = marks[band % len(marks)]
        legend += [Run(mark * 2, band), Run(f" {device.name}   ")]
    lines.append(legend)
    return lines


def _indices(curve: Curve, columns: int) -> list[int]:
    """The point of the curve that each column shows: the newest one not beyond its step."""
    last = curve.steps[-1]
    found, index = [], 0
    for column in range(columns):
        step = 1 + (last - 1) * column // max(1, columns - 1)
        while index + 1 < len(curve.steps) and curve.steps[index + 1] <= step:
            index += 1
        found.append(index)
    return found


def _heights(curve: Curve, index: int, top: int) -> list[int]:
    """Up to which row each band reaches, rounded half up; the sum decides, not each band."""
    found, total = [], 0
    for device in _stacked(curve):
        total += device.nbytes[index]
        found.append((2 * total * HEIGHT + top) // (2 * top))
    return found


def _stacked(curve: Curve) -> list[Series]:
    """The devices, the fullest one lowest."""
    return sorted(curve.devices, key=lambda one: -max(one.nbytes))


def _band(reach: list[int], row: int) -> int | None:
    return next((band for band, height in enumerate(reach) if row < height), None)


def _runs(bands: list[int | None], marks: str) -> list[Run]:
    """The row's characters, those of one band next to each other in one run."""
    runs: list[Run] = []
    for band in bands:
        mark = " " if band is None else marks[band % len(marks)]
        if runs and runs[-1].band == band:
            runs[-1] = Run(runs[-1].text + mark, band)
        else:
            runs.append(Run(mark, band))
    return runs
