"""Curve: the bytes of one session, step by step.

Owns the points of the curve. Not here: its drawing (`chart`, `svg`).
"""

from __future__ import annotations

import attrs

from statekit.spec import ModelSpec
from statekit_codegen.plan.need import session
from statekit_codegen.plan.question import Question

__all__ = ["POINTS", "Curve", "Series", "curve_of"]

POINTS = 240
"""About so many steps are looked at, the first two and the last among them."""


@attrs.frozen
class Series:
    """One value, or all of one device, at each step of a curve."""

    name: str
    device: str
    nbytes: tuple[int, ...]


@attrs.frozen
class Curve:
    """Bytes of one session between steps.

    Attributes:
        steps: the steps that were looked at.
        values: the values that hold memory, in the schema's order.
    """

    steps: tuple[int, ...]
    values: tuple[Series, ...]

    @property
    def devices(self) -> tuple[Series, ...]:
        """The sum of each device, in the order in which devices first occur."""
        sums: dict[str, list[int]] = {}
        for one in self.values:
            total = sums.setdefault(one.device, [0] * len(self.steps))
            for index, nbytes in enumerate(one.nbytes):
                total[index] += nbytes
        return tuple(Series(device, device, tuple(total)) for device, total in sums.items())

    @property
    def totals(self) -> tuple[int, ...]:
        """The sum over all devices at each step."""
        return tuple(map(sum, zip(*(one.nbytes for one in self.values), strict=True)))


def curve_of(spec: ModelSpec, file: str, asked: Question) -> Curve:
    """The curve of one session of `spec`, up to the step that is asked for."""
    steps = _steps(asked.step)
    held = session(spec, file, asked, 1)
    values = [
        Series(one.value.name, one.device, tuple(map(one.declared.at_step, steps)))
        for one in held
        if one.declared is not None and one.device != "none"
    ]
    return Curve(steps, tuple(one for one in values if any(one.nbytes)))


def _steps(last: int) -> tuple[int, ...]:
    spread = {1 + (last - 1) * index // POINTS for index in range(POINTS + 1)}
    return tuple(sorted({1, min(2, last), last, *spread}))
