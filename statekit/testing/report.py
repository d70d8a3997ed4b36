"""The report of a first difference: where, what, both values with their bits, and what to do.

Owns the text alone, for a terminal of 80 columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from statekit.errors import EquivalenceError
from statekit.spec import Tolerance
from statekit.testing.comparison import Difference

__all__ = ["ADAPTER", "HAND_ROLLED", "RECORDED", "different"]

HAND_ROLLED = "hand-rolled"
ADAPTER = "adapter"
RECORDED = "recorded"

_WIDTH = 78
_INDENT = 15
_OTHER_THAN_RECORDED = (
    "replay on an object like the one that was recorded, at its beginning; and record through "
    "recorder.state alone, so that the trace has all that was done to it"
)


def different(
    place: str, what: str, difference: Difference, *, of: str, to: str, tolerance: Tolerance | None
) -> EquivalenceError:
    """The error for the first difference.

    Args:
        place: where in the trace: "step 3, call 17 (read latent)".
        what: the value's name.
        of: whose value is wrong.
        to: whose value is right.
        tolerance: the one that the schema states for the value.
    """
    elements = difference.elements
    what = _at(what, difference.path)
    found = f"{what} has {'another ' + difference.aspect if elements is None else 'other bits'}"
    todo = _OTHER_THAN_RECORDED if to == RECORDED else _what_to_do(difference)
    rows = [("value", what)]
    if elements is None:
        rows += [("differs in", difference.aspect), (to, difference.want), (of, difference.got)]
    else:
        rows.append(("is a", elements.form))
        if elements.index:
            rows.append(("element", str(list(elements.index))))
        width = max(len(elements.want), len(elements.got))
        rows.append((to, f"{elements.want:>{width}}  {elements.want_bits}"))
        rows.append((of, f"{elements.got:>{width}}  {elements.got_bits}"))
        if elements.total > 1:
            rows.append(("differing", f"{elements.count:,} of {elements.total:,} elements"))
        far = "one is no number" if elements.max_abs is None else f"{elements.max_abs:.6g}"
        rows.append(("apart", f"{far} at most" if elements.total > 1 else far))
        if tolerance is not None:
            limits = f"atol {tolerance.atol:g}, rtol {tolerance.rtol:g}: {elements.beyond:,} beyond"
            rows.append(("tolerance", limits))
    head = textwrap.fill(f"not equivalent at {place}", _WIDTH)
    foot = textwrap.fill(f"{todo}.", _WIDTH)
    report = "\n".join([head, "", *_table(rows), "", foot[0].upper() + foot[1:]])
    return EquivalenceError(place, found, todo, report)


def _at(what: str, path: str) -> str:
    """A part of a value, whose name may be several words."""
    joint = ", at " if path and not what.isidentifier() else ""
    return f"{what}{joint}{path}"


def _what_to_do(difference: Difference) -> str:
    if difference.aspect == "sharing":
        return (
            "store the object that is passed, as the hand-rolled class does; or declare on_commit, "
            "which says that a value is a copy"
        )
    if difference.aspect == "outcome":
        return "let the adapter's method do what the hand-rolled one does, errors included"
    if difference.elements is not None:
        return (
            "mend the adapter; or, where floating-point work is done in another order on purpose, "
            "state a tolerance with its reason in the schema"
        )
    return "mend the adapter, or its schema"


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    lines = []
    for label, text in rows:
        head = f"  {label:<{_INDENT - 3}} "
        indent = " " * _INDENT
        lines += textwrap.wrap(
            text, _WIDTH, initial_indent=head, subsequent_indent=indent, drop_whitespace=False
        ) or [head.rstrip()]
    return [line.rstrip() for line in lines]
