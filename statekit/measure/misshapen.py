"""Misshapen: whether a value had another shape than declared, and which extent to mend.

A literal extent is to be met; constants and parameters are the most. A symbol that another value
says to be something else is a misfit only where no shape of the value agrees: the run may have had
both sizes, one after the other.
"""

from __future__ import annotations

import attrs

from statekit.measure.comparison import Comparison
from statekit.measure.numbers import extents_of

__all__ = ["wrong_shape"]


@attrs.frozen
class _Misfit:
    """An extent that is not as declared, and whether that is certain."""

    shape: tuple[int, ...]
    dim: int
    number: int
    why: str
    certain: bool


def wrong_shape(one: Comparison) -> tuple[str, str] | None:
    """What is wrong with the shapes, and what to write; None where nothing is."""
    size = one.value.size
    if size is None or size.shape is None or not one.measured.shapes:
        return None
    declared = f"[{', '.join(size.shape)}]"
    misfits = []
    for shape in one.measured.shapes:
        if len(shape) != len(size.shape):
            return f"its shape was {shape}, declared {declared}", "write `shape` with that rank"
        misfits.append(_misfit(one, shape))
    found = next((one for one in misfits if one is not None and one.certain), None)
    if found is None and None not in misfits:
        found = misfits[0]
    if found is None:
        return None
    todo = f"write extent {found.dim} as {found.number}, where `{size.shape[found.dim]}` stands"
    return f"its shape was {found.shape}, declared {declared}: {found.why}", todo


def _misfit(one: Comparison, shape: tuple[int, ...]) -> _Misfit | None:
    """The extent that does not fit; one that is certain before all others."""
    doubtful: _Misfit | None = None
    for extent in extents_of(one.value, shape):
        declared = extent.declared
        if declared.names & one.spec.symbols.keys():
            why = one.numbers.contradiction(extent)
            if why is not None and doubtful is None:
                doubtful = _Misfit(shape, extent.dim, extent.found, why, certain=False)
            continue
        limit = one.numbers.evaluate(declared)
        if limit is None:
            continue
        if extent.found > limit if declared.names else extent.found != limit:
            most = "at most " if declared.names else ""
            why = f"extent {extent.dim} was {extent.found}, not {most}{limit}"
            return _Misfit(shape, extent.dim, extent.found, why, certain=True)
    return doubtful
