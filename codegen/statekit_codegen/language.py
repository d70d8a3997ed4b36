"""The schema language, version 1, as classes: one class per mapping, one field per key.

These classes are the language's only definition: the loader structures YAML into them, and the
reference page is generated from their fields, whose `help` is what a schema author reads there.
Not here: positions in the file (`loader`), meaning (`check`, `resolve`), opinions (`rules`).

A field's key in YAML is its name here, except where `key` says otherwise (`class`, `from`).
"""

from __future__ import annotations

from typing import Any, Literal

import attrs

from statekit.spec import Bucket, CommitStep, ObjectKind, Operation, Tier, Update

__all__ = [
    "LANGUAGE_VERSION",
    "ConcatView",
    "Decision",
    "Elements",
    "Family",
    "Growth",
    "Input",
    "Measured",
    "Parameter",
    "Park",
    "Pending",
    "Rebuild",
    "Reset",
    "Ring",
    "Schema",
    "Sharding",
    "Value",
]

LANGUAGE_VERSION = 1

Dimension = str | int
"""A size expression: a whole number, or text in the grammar of `statekit.expressions`."""


def _key(help: str, *, key: str | None = None, recorded: bool = False, **kwargs: Any) -> Any:
    """A field with the text its reader sees; `recorded` means that no code acts on it yet."""
    metadata = {"help": help, "key": key, "recorded": recorded}
    return attrs.field(metadata=metadata, kw_only=True, **kwargs)


@attrs.frozen
class Decision:
    """Why a value lives where it lives. Every value has one."""

    operations: list[Operation] | None = _key(
        "What the manager does with the value beyond carrying it. Empty means: only carried, "
        "and then the bucket is `attrs`.",
        default=None,
    )
    why: str | None = _key(
        "The reason, in a sentence a reviewer can agree or disagree with.", default=None
    )


@attrs.frozen
class Parameter:
    """A keyword argument of the generated adapter."""

    type: Literal["int"] = _key("Its Python type.")
    default: int = _key("The value when the argument is left out.")
    minimum: int | None = _key("The least value accepted.", default=None)
    maximum: int | None = _key("The greatest value accepted.", default=None)
    doc: str = _key("What it sets, in one sentence.")


@attrs.frozen
class Family:
    """An axis along which values exist many times; exactly one of `members` and `count`."""

    members: dict[str, str] | None = _key(
        "Label of each member to the text that stands for it in a session key.", default=None
    )
    count: Dimension | None = _key(
        "How many members, numbered from 0. The figure is for planning: at run time there are as "
        "many as the model stores.",
        default=None,
    )
    doc: str = _key("What the members are.")


@attrs.frozen
class Input:
    """Something outside the session that a value can be rebuilt from."""

    kept: bool = _key("Whether whoever owns it still has it whenever a rebuild could be needed.")
    doc: str = _key("What it is and who keeps it.")


@attrs.frozen
class Elements:
    """Numbers of elements, where the first step leaves another number than later ones."""

    first: Dimension = _key("Elements after the first step.")
    then: Dimension = _key("Elements from the second step on.")


@attrs.frozen
class Growth:
    """How fast a buffer without a bound grows."""

    items: Dimension = _key("How many items are appended each time.", default=1)
    every_steps: int = _key("Every how many steps that happens.", default=1)


@attrs.frozen
class Ring:
    """How much a `LatentBuffer` keeps; exactly one of `bound` and `unbounded`."""

    bound: Dimension | None = _key(
        "The newest so many are kept: a positive number, a constant or a parameter.", default=None
    )
    axis: int | None = _key(
        "Count the bound in frames along this axis of the items, instead of in items.", default=None
    )
    unbounded: str | None = _key("Why there is no bound.", default=None)
    growth: Growth | None = _key("How fast it grows, where it has no bound.", default=None)


@attrs.frozen
class ConcatView:
    """The reader gets one array or tensor, or None while there is nothing."""

    concat: int = _key("The axis along which the items are joined.")


@attrs.frozen
class Rebuild:
    """What a value can be rebuilt from, and what that costs."""

    sources: list[str] = _key("Values of this schema, or names from `inputs`.", key="from")
    cost: str = _key("What a rebuild does, in words.")
    cost_ms: float | None = _key(
        "How long one takes, in milliseconds, where measured.", default=None
    )


@attrs.frozen
class Park:
    """Where a value may be put away and brought back from, bit for bit."""

    tiers: list[Tier] = _key("`host` memory, `disk`, or both.")


@attrs.frozen
class Sharding:
    """How a value lies over ranks: cut along `dim` over a group, or on one `rank` only."""

    over: Literal["tp", "sp", "cfg", "pp"] | None = _key(
        "The parallel group whose ranks hold different parts.", default=None
    )
    dim: int | None = _key(
        "The dimension that is cut; left out where ranks hold whole values: of a family, each its "
        "share of the members.",
        default=None,
    )
    rank: int | None = _key("The only rank that holds it.", default=None)


@attrs.frozen
class Pending:
    """A second copy that exists only while a step runs."""

    elements: Dimension | None = _key("Its number of elements, where it differs.", default=None)
    why: str = _key("What the second copy is for.")


@attrs.frozen
class Measured:
    """Bytes of the value in one session, as somebody measured them."""

    nbytes: int = _key("Bytes, counted by storage.")
    hardware: str = _key("What it was measured on.")
    date: str = _key("When, as YYYY-MM-DD.")
    at: Literal["first", "steady"] = _key(
        "After the first step, or in the steady state.", default="steady"
    )


@attrs.frozen
class Value:
    """One value that a session keeps between `forward()` calls."""

    bucket: Bucket = _key(
        "`attrs` if the manager only carries the value, `StateObject` if it acts on it."
    )
    doc: str | None = _key("What the value is.", default=None)
    object: ObjectKind | None = _key("The kind of StateObject.", default=None)
    key: str | None = _key(
        "The name of a StateObject in the session, where it differs from the value's. For a "
        "family: a template such as `und_kv{branch}/{layer}`.",
        default=None,
    )
    type: str | None = _key(
        "The Python type of an `attrs` value, or of what an `EncodeOnce` holds.", default=None
    )
    item: str | None = _key("The Python type of one item of a `LatentBuffer`.", default=None)
    default: Any = _key(
        "What a reader gets before anything was assigned: a number, a text, a boolean, null, or an "
        "empty list or mapping (a new one for each session).",
        default=None,
    )
    coerce: Literal["int", "bool", "float", "str"] | None = _key(
        "Convert every assigned value with this type.", default=None
    )
    dtype: str | None = _key("The element type, by the name torch and numpy share.", default=None)
    shape: list[Dimension] | None = _key(
        "The shape, one size expression per dimension; of one item for a `LatentBuffer`.",
        default=None,
    )
    elements: Elements | Dimension | None = _key(
        "The number of elements, for a list of tensors or where a shape would hide them; of one "
        "item for a `LatentBuffer`.",
        default=None,
    )
    device: str = _key(
        "`cpu`, `model` for wherever the model runs, a torch device such as `cuda:0`, or `none` "
        "for a value that holds no memory to speak of."
    )
    update: Update = _key(
        "How the model changes it: `replaced` by a new object each time; other `entries` in the "
        "containers that it has, no tensor written into; or `in_place`, tensors and arrays too. "
        "A failed step is undone by this word, so it must be true.",
        default="replaced",
    )
    ring: Ring | None = _key("How much a `LatentBuffer` keeps.", default=None)
    on_commit: list[CommitStep] = _key(
        "What happens to a payload when it is stored: `detach` from autograd, `move` to `device`, "
        "`compact` (copy a view that pins a larger storage).",
        factory=list,
    )
    view: Literal["list"] | ConcatView = _key(
        "What the reader of a `LatentBuffer` gets: a `list` of the items, or one joined tensor.",
        default="list",
    )
    family: list[str] = _key(
        "The families along which the value exists many times, from the outer one in.", factory=list
    )
    rebuild: Rebuild | None = _key("What it can be rebuilt from.", default=None)
    park: Park | None = _key("Where it may be parked.", default=None)
    sharding: Literal["replicated"] | Sharding | None = _key(
        "How it lies over the ranks of a model; `statekit plan --shard` divides by it.",
        default=None,
    )
    pending: Pending | None = _key("A second copy that exists while a step runs.", default=None)
    measured: list[Measured] = _key("Bytes somebody measured.", factory=list, recorded=True)
    decision: Decision | None = _key("Why the value lives where it lives.", default=None)


@attrs.frozen
class Reset:
    """What one reset clears; exactly one of the two."""

    clears: Literal["all"] | list[str] | None = _key(
        "`all`, or the values that it clears.", default=None
    )
    keeps: list[str] | None = _key(
        "The values that it keeps; all others are cleared.", default=None
    )
    doc: str | None = _key("When it happens.", default=None)


@attrs.frozen
class Schema:
    """One file: the session state of one model."""

    statekit: int = _key("Version of the language: 1.")
    model: str = _key("Name of the model, and of the generated module: lower case, digits, `_`.")
    class_: str = _key("Name of the generated class.", key="class")
    doc: str = _key("What this state is, in a sentence.")
    outside: dict[str, str] = _key(
        "State that lives elsewhere on purpose, and where.", factory=dict
    )
    symbols: dict[str, int] = _key(
        "Numbers of a deployment that size expressions may name.", factory=dict
    )
    constants: dict[str, int] = _key(
        "Numbers of the model itself; they become class attributes of the adapter.", factory=dict
    )
    parameters: dict[str, Parameter] = _key("Keyword arguments of the adapter.", factory=dict)
    families: dict[str, Family] = _key("Axes along which values exist many times.", factory=dict)
    inputs: dict[str, Input] = _key(
        "What values can be rebuilt from that is no value of the session.",
        factory=dict,
    )
    values: dict[str, Value] = _key("Every value that a session keeps.")
    atomic: dict[str, list[str]] = _key(
        "Groups of values that are restored together or not at all.", factory=dict
    )
    may_be_lost: str | None = _key(
        "Why a whole session may be evicted when a budget is exceeded and nothing else can be "
        "given up. Left out: it is never evicted for its bytes; a new one is refused instead.",
        default=None,
    )
    resets: dict[str, Reset] = _key("The resets; each becomes a method `reset_NAME`.", factory=dict)
