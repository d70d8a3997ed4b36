"""The mappings of a value: how large it is, how much is kept of it, where it may go.

Owns the classes that `Value` is made of, and how a field of the language is written. The whole is
`language`.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs

from statekit.spec import Metric, Tier

__all__ = [
    "Codec",
    "ConcatView",
    "Dimension",
    "Elements",
    "Growth",
    "Index",
    "Measured",
    "Park",
    "Pending",
    "Rebuild",
    "Ring",
    "Sharding",
    "Tolerance",
    "entry",
]

Dimension = str | int
"""A size expression: a whole number, or text in the grammar of `statekit.expressions`."""


def entry(help: str, *, name: str | None = None, recorded: bool = False, **kwargs: Any) -> Any:
    """A field with the text its reader sees; `recorded` means that no code acts on it yet."""
    metadata = {"help": help, "key": name, "recorded": recorded}
    return attrs.field(metadata=metadata, kw_only=True, **kwargs)


@attrs.frozen
class Elements:
    """Numbers of elements, where the first step leaves another number than later ones."""

    first: Dimension = entry("Elements after the first step.")
    then: Dimension = entry("Elements from the second step on.")


@attrs.frozen
class Growth:
    """How fast a buffer without a bound grows."""

    items: Dimension = entry("How many items are appended each time.", default=1)
    every_steps: int = entry("Every how many steps that happens.", default=1)
    first: Dimension = entry("How many items there are after the first step.", default=1)


@attrs.frozen
class Ring:
    """How much a buffer keeps; exactly one of `bound`, `nbytes` and `unbounded`.

    A `LatentBuffer` has a bound or none. A `WindowedKV` has a bound along an axis. A
    `RetrievalStore` has a bound in items or in bytes, or none.
    """

    bound: Dimension | None = entry(
        "The newest so many are kept: a positive number, a constant or a parameter.", default=None
    )
    axis: int | None = entry(
        "Count the bound in frames along this axis of the items, instead of in items.", default=None
    )
    sink: Dimension | None = entry(
        "Of a `WindowedKV`: the first so many frames stay for good, and `bound` counts them too. "
        "A number, a constant or a parameter.",
        default=None,
    )
    nbytes: Dimension | None = entry(
        "Of a `RetrievalStore`: the newest entries are kept whose keys and values fit in so many "
        "bytes. A parameter, or an expression over numbers and constants.",
        default=None,
    )
    unbounded: str | None = entry("Why there is no bound.", default=None)
    growth: Growth | None = entry("How fast it grows, where it has no bound.", default=None)


@attrs.frozen
class Index:
    """The keys of a `RetrievalStore`: every entry is stored under one."""

    shape: list[Dimension] = entry("The shape of one key.")
    dtype: str = entry("The element type of a key.")
    metric: Metric = entry(
        "How near two keys are: by the least `euclidean` distance, by the greatest `cosine` or "
        "`dot` product.",
        default="euclidean",
    )


@attrs.frozen
class Codec:
    """The form in which a `RetrievalStore` keeps its values; readers get the original dtype."""

    cast: str = entry("The element type that values are kept in.")


@attrs.frozen
class ConcatView:
    """The reader gets one array or tensor, or None while there is nothing."""

    concat: int = entry("The axis along which the items are joined.")


@attrs.frozen
class Rebuild:
    """What a value can be rebuilt from, and what that costs."""

    sources: list[str] = entry("Values of this schema, or names from `inputs`.", name="from")
    cost: str = entry("What a rebuild does, in words.")
    cost_ms: float | None = entry(
        "How long one takes, in milliseconds, where measured.", default=None
    )


@attrs.frozen
class Park:
    """Where a value may be put away and brought back from, bit for bit."""

    tiers: list[Tier] = entry("`host` memory, `disk`, or both.")


@attrs.frozen
class Sharding:
    """How a value lies over ranks: cut along `dim` over a group, or on one `rank` only."""

    over: Literal["tp", "sp", "cfg", "pp"] | None = entry(
        "The parallel group whose ranks hold different parts.", default=None
    )
    dim: int | None = entry(
        "The dimension that is cut; left out where ranks hold whole values: of a family, each its "
        "share of the members.",
        default=None,
    )
    rank: int | None = entry("The only rank that holds it.", default=None)


@attrs.frozen
class Pending:
    """A second copy that exists only while a step runs."""

    elements: Dimension | None = entry("Its number of elements, where it differs.", default=None)
    why: str = entry("What the second copy is for.")


@attrs.frozen
class Measured:
    """Bytes of the value in one session, as somebody measured them."""

    nbytes: int = entry("Bytes, counted by storage.")
    hardware: str = entry("What it was measured on.")
    date: str = entry("When, as YYYY-MM-DD.")
    at: Literal["first", "steady"] = entry(
        "After the first step, or in the steady state.", default="steady"
    )


@attrs.frozen
class Tolerance:
    """How far a value may be from the hand-rolled one in tests: `atol + rtol * abs(hand-rolled)`.

    Only `statekit.testing` reads it. At least one of the two is above 0.
    """

    atol: float = entry("The absolute part.", default=0.0)
    rtol: float = entry("The part that is relative to the hand-rolled value.", default=0.0)
    why: str = entry("Why the two cannot be equal bit for bit.")
