"""The schema language, version 1, as classes: one class per mapping, one field per key.

These classes are the language's only definition: the loader structures YAML into them, and the
reference page is generated from their fields, whose `help` is what a schema author reads there.
Not here: positions in the file (`loader`), meaning (`check`, `resolve`), opinions (`rules`).

A field's key in YAML is its name here, except where `key` says otherwise (`class`, `from`).
"""

from __future__ import annotations

from typing import Any, Literal

import attrs

from statekit.spec import Bucket, CommitStep, Lifetime, ObjectKind, Operation, Update
from statekit_codegen.language_parts import (
    Codec,
    ConcatView,
    Dimension,
    Elements,
    Growth,
    Index,
    Measured,
    Park,
    Pending,
    Rebuild,
    Ring,
    Sharding,
    Tolerance,
    entry,
)

__all__ = [
    "LANGUAGE_VERSION",
    "Codec",
    "ConcatView",
    "Decision",
    "Dimension",
    "Elements",
    "Family",
    "Growth",
    "Index",
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
    "Tolerance",
    "Value",
]

LANGUAGE_VERSION = 1


@attrs.frozen
class Decision:
    """Why a value lives where it lives. Every value has one."""

    operations: list[Operation] | None = entry(
        "What the manager does with the value beyond carrying it. Empty means: only carried, "
        "and then the bucket is `attrs`.",
        default=None,
    )
    why: str | None = entry(
        "The reason, in a sentence a reviewer can agree or disagree with.", default=None
    )


@attrs.frozen
class Parameter:
    """A keyword argument of the generated adapter."""

    type: Literal["int"] = entry("Its Python type.")
    default: int = entry("The value when the argument is left out.")
    minimum: int | None = entry("The least value accepted.", default=None)
    maximum: int | None = entry("The greatest value accepted.", default=None)
    doc: str = entry("What it sets, in one sentence.")


@attrs.frozen
class Family:
    """An axis along which values exist many times; exactly one of `members` and `count`."""

    members: dict[str, str] | None = entry(
        "Label of each member to the text that stands for it in a session key.", default=None
    )
    count: Dimension | None = entry(
        "How many members, numbered from 0. The figure is for planning: at run time there are as "
        "many as the model stores.",
        default=None,
    )
    doc: str = entry("What the members are.")


@attrs.frozen
class Input:
    """Something outside the session that a value can be rebuilt from."""

    kept: bool = entry("Whether whoever owns it still has it whenever a rebuild could be needed.")
    doc: str = entry("What it is and who keeps it.")


@attrs.frozen
class Value:
    """One value that a session keeps between `forward()` calls."""

    bucket: Bucket = entry(
        "`attrs` if the manager only carries the value, `StateObject` if it acts on it."
    )
    doc: str | None = entry("What the value is.", default=None)
    object: ObjectKind | None = entry("The kind of StateObject.", default=None)
    key: str | None = entry(
        "The name of a StateObject in the session, where it differs from the value's. For a "
        "family: a template such as `und_kv{branch}/{layer}`.",
        default=None,
    )
    type: str | None = entry(
        "The Python type of an `attrs` value, or of what an object holds as a whole "
        "(`EncodeOnce`, `HeldValue`, `FixedState`).",
        default=None,
    )
    item: str | None = entry(
        "The Python type of what is appended: an item of a `LatentBuffer`, a tensor or a pair of "
        "keys and values of a `WindowedKV`, a value of a `RetrievalStore`.",
        default=None,
    )
    default: Any = entry(
        "What a reader gets before anything was assigned: a number, a text, a boolean, null, or an "
        "empty list or mapping (a new one for each session).",
        default=None,
    )
    coerce: Literal["int", "bool", "float", "str"] | None = entry(
        "Convert every assigned value with this type.", default=None
    )
    dtype: str | None = entry("The element type, by the name torch and numpy share.", default=None)
    shape: list[Dimension] | None = entry(
        "The shape, one size expression per dimension; of one item for a buffer, of one tensor of "
        "it for a `WindowedKV`.",
        default=None,
    )
    elements: Elements | Dimension | None = entry(
        "The number of elements, for a list of tensors or where a shape would hide them; of one "
        "item for a buffer, of one entry along the axis, all tensors together, for a `WindowedKV`.",
        default=None,
    )
    device: str = entry(
        "`cpu`, `model` for wherever the model runs, a torch device such as `cuda:0`, or `none` "
        "for a value that holds no memory to speak of."
    )
    update: Update = entry(
        "How the model changes it: `replaced` by a new object each time; other `entries` in the "
        "containers that it has, no tensor written into; or `in_place`, tensors and arrays too. "
        "A failed step is undone by this word, so it must be true. Not for a `FixedState`, which "
        "is in place by nature, nor a `WindowedKV` or a `RetrievalStore`, which are never so.",
        default="replaced",
    )
    ring: Ring | None = entry("How much a buffer keeps.", default=None)
    index: Index | None = entry("The keys of a `RetrievalStore`.", default=None)
    codec: Codec | None = entry(
        "The form in which a `RetrievalStore` keeps its values; left out: as they are.",
        default=None,
    )
    on_commit: list[CommitStep] = entry(
        "What happens to a payload when it is stored: `detach` from autograd, `move` to `device`, "
        "`compact` (copy a view that pins a larger storage).",
        factory=list,
    )
    view: Literal["list"] | ConcatView = entry(
        "What the reader of a `LatentBuffer` gets: a `list` of the items, or one joined tensor.",
        default="list",
    )
    family: list[str] = entry(
        "The families along which the value exists many times, from the outer one in.", factory=list
    )
    rebuild: Rebuild | None = entry("What it can be rebuilt from.", default=None)
    park: Park | None = entry("Where it may be parked.", default=None)
    sharding: Literal["replicated"] | Sharding | None = entry(
        "How it lies over the ranks of a model; `statekit plan --shard` divides by it.",
        default=None,
    )
    pending: Pending | None = entry("A second copy that exists while a step runs.", default=None)
    lifetime: Lifetime = entry(
        "`session`, or `request`: the value exists only while a request uses the session (a "
        "lease), and is cleared when the last one ends.",
        default="session",
    )
    tolerance: Tolerance | None = entry(
        "How far it may be from the hand-rolled one in tests; left out: equal bit for bit.",
        default=None,
    )
    measured: list[Measured] = entry("Bytes somebody measured.", factory=list, recorded=True)
    decision: Decision | None = entry("Why the value lives where it lives.", default=None)
    questions: list[str] = entry(
        "What is still to be found out about it; `statekit vet` reports each.", factory=list
    )


@attrs.frozen
class Reset:
    """What one reset clears; exactly one of the two."""

    clears: Literal["all"] | list[str] | None = entry(
        "`all`, or the values that it clears.", default=None
    )
    keeps: list[str] | None = entry(
        "The values that it keeps; all others are cleared.", default=None
    )
    doc: str | None = entry("When it happens.", default=None)


@attrs.frozen
class Schema:
    """One file: the session state of one model."""

    statekit: int = entry("Version of the language: 1.")
    model: str = entry("Name of the model, and of the generated module: lower case, digits, `_`.")
    class_: str = entry("Name of the generated class.", name="class")
    doc: str = entry("What this state is, in a sentence.")
    outside: dict[str, str] = entry(
        "State that lives elsewhere on purpose, and where.", factory=dict
    )
    symbols: dict[str, int] = entry(
        "Numbers of a deployment that size expressions may name.", factory=dict
    )
    variants: dict[str, dict[str, int]] = entry(
        "Named deployments: each has numbers that stand for those of `symbols`; `--variant NAME` "
        "computes with them.",
        factory=dict,
    )
    constants: dict[str, int] = entry(
        "Numbers of the model itself; they become class attributes of the adapter.", factory=dict
    )
    parameters: dict[str, Parameter] = entry("Keyword arguments of the adapter.", factory=dict)
    families: dict[str, Family] = entry("Axes along which values exist many times.", factory=dict)
    inputs: dict[str, Input] = entry(
        "What values can be rebuilt from that is no value of the session.",
        factory=dict,
    )
    values: dict[str, Value] = entry("Every value that a session keeps.")
    atomic: dict[str, list[str]] = entry(
        "Groups of values that are restored together or not at all.", factory=dict
    )
    may_be_lost: str | None = entry(
        "Why a whole session may be evicted when a budget is exceeded and nothing else can be "
        "given up. Left out: it is never evicted for its bytes; a new one is refused instead.",
        default=None,
    )
    resets: dict[str, Reset] = entry(
        "The resets; each becomes a method `reset_NAME`.", factory=dict
    )
    questions: list[str] = entry(
        "What is still to be found out about the model; `statekit vet` reports each.",
        factory=list,
    )
