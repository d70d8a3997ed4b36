"""Equivalence: what was compared, and how well it agreed."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from statekit.testing.elements import Within

__all__ = ["Equivalence"]


@attrs.frozen
class Equivalence:
    """What was found to be equivalent.

    Attributes:
        steps: how many steps were replayed.
        calls: how many reads, writes and calls.
        values: the names of the values that were compared at each step.
        left_out: values of the schema that the hand-rolled object does not have under their name.
        compared: how many values, results and arguments were compared.
        within: of each value that was within its tolerance and not equal: in how many elements, and
            how far they were apart at most.
    """

    steps: int
    calls: int
    values: tuple[str, ...]
    left_out: tuple[str, ...]
    compared: int
    within_count: int
    within: Mapping[str, Within]

    @property
    def bit_equal(self) -> int:
        """How many of the compared values were equal in every bit."""
        return self.compared - self.within_count

    def __str__(self) -> str:
        text = (
            f"equivalent: {self.steps} steps, {self.calls} calls; {self.bit_equal} of "
            f"{self.compared} values equal bit for bit"
        )
        for name, within in self.within.items():
            text += f"\n  {name}: within its tolerance, at most {within.max_abs:.3g} apart"
        if self.left_out:
            text += f"\n  not compared: {', '.join(self.left_out)}"
        return text
