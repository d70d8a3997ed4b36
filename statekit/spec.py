"""What a schema says, as frozen classes: `ModelSpec` holds a `ValueSpec` for every value.

Owns the data and its lookups. Not here: the words that a person wrote (they are the docstrings
of the generated class and the review), the bytes that follow from a spec (`statekit.declared`),
and anything that acts. Imports neither torch nor the generator, so that tools can read a spec
without loading either.

What the runtime acts on: bucket, key, object, ring, index, codec, lifetime, on_commit, update,
families, resets; and for admission and release: sizes, pending, park, rebuild, atomic, inputs,
operations, may_be_lost. Tools act on sharding and variants (`statekit plan`), measured (`statekit
vet`) and tolerance (`statekit.testing`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import attrs

__all__ = [
    "Bucket",
    "Codec",
    "CommitStep",
    "Family",
    "Growth",
    "Index",
    "Lifetime",
    "Measured",
    "Metric",
    "ModelSpec",
    "ObjectKind",
    "Operation",
    "Parameter",
    "Park",
    "Pending",
    "Rebuild",
    "Ring",
    "Sharding",
    "Size",
    "Tier",
    "Tolerance",
    "Update",
    "ValueSpec",
]

Bucket = Literal["attrs", "StateObject"]
ObjectKind = Literal[
    "LatentBuffer", "EncodeOnce", "HeldValue", "FixedState", "WindowedKV", "RetrievalStore"
]
Operation = Literal["accumulate", "stage", "release", "rebuild", "park"]
"""What the manager does with a value beyond carrying it."""
Update = Literal["replaced", "entries", "in_place"]
"""How the model changes a value: a new object each time; other entries in the containers that it
has, whose tensors and arrays it leaves alone; or by writing into those as well."""
CommitStep = Literal["detach", "move", "compact"]
Tier = Literal["host", "disk"]
Lifetime = Literal["session", "request"]
"""How long a value may live: as long as its session, or only while a request uses that."""
Metric = Literal["euclidean", "cosine", "dot"]
"""How near two keys of a RetrievalStore are."""


@attrs.frozen
class Parameter:
    """A keyword argument of the generated adapter, with its bounds."""

    default: int
    minimum: int | None = None
    maximum: int | None = None


@attrs.frozen
class Family:
    """An axis along which a value exists many times: CFG branches, layers.

    Either `members` (label to the text that stands in a session key) or `count`, a size
    expression for members 0, 1, 2, ...
    """

    members: Mapping[str, str] = attrs.field(factory=dict)
    count: str | None = None


@attrs.frozen
class Size:
    """How many elements a value has: a `shape`, or `elements` for a list of tensors.

    All are size expressions. `first` is the number of elements after the first step, where it
    differs from the steady one.
    """

    shape: tuple[str, ...] | None = None
    elements: str | None = None
    first: str | None = None


@attrs.frozen
class Growth:
    """How fast an unbounded buffer grows: `items` more every `every_steps` steps.

    After the first step there are `first`.
    """

    items: str = "1"
    every_steps: int = 1
    first: str = "1"


@attrs.frozen
class Ring:
    """The bound of a buffer, in items, in frames along `axis` or in `nbytes`; or why it has none.

    With `sink`, so many frames at the start stay for good; `bound` counts them too.
    """

    bound: str | None = None
    axis: int | None = None
    sink: str | None = None
    nbytes: str | None = None
    unbounded: str = ""
    growth: Growth = Growth()

    @property
    def bounded(self) -> bool:
        """Whether there is an end to what is kept."""
        return self.bound is not None or self.nbytes is not None


@attrs.frozen
class Index:
    """The keys of a RetrievalStore: one of `shape` and `dtype` for each entry."""

    shape: tuple[str, ...]
    dtype: str
    metric: Metric = "euclidean"


@attrs.frozen
class Codec:
    """The form in which a RetrievalStore keeps its values: `cast` to another dtype."""

    cast: str


@attrs.frozen
class Tolerance:
    """How far a value may be from the hand-rolled one: `atol + rtol * abs(hand-rolled)`."""

    atol: float = 0.0
    rtol: float = 0.0


@attrs.frozen
class Rebuild:
    """Where a value can be rebuilt from (values of the session or inputs), and what that costs."""

    sources: tuple[str, ...]
    cost: str = ""
    cost_ms: float | None = None


@attrs.frozen
class Park:
    """The tiers that a value may be parked in."""

    tiers: tuple[Tier, ...]


@attrs.frozen
class Sharding:
    """How a value lies over the ranks of a model.

    `over` names the parallel group (tp, sp, cfg, pp) whose ranks hold different parts, cut along
    `dim`; without `dim` they hold whole values: of a family, each its share of the members. With
    `rank`, that one alone holds it; with none of the three it is replicated.
    """

    over: str | None = None
    dim: int | None = None
    rank: int | None = None


@attrs.frozen
class Pending:
    """A second copy that exists only while a step runs; `elements` where its size differs."""

    elements: str | None = None


@attrs.frozen
class Measured:
    """Bytes that somebody measured: how many, on what, when, and after which step."""

    nbytes: int
    hardware: str
    date: str
    at: Literal["first", "steady"] = "steady"


@attrs.frozen
class ValueSpec:
    """One value of a session: where it lives, what it is, how large, who clears it."""

    name: str
    bucket: Bucket
    type: str
    device: str
    key: str = ""
    object: ObjectKind | None = None
    default: str = ""
    """What a carried value reads as at first, as Python source; empty for an object."""
    coerce: str | None = None
    dtype: str | None = None
    size: Size | None = None
    update: Update = "replaced"
    ring: Ring | None = None
    on_commit: tuple[CommitStep, ...] = ()
    families: tuple[str, ...] = ()
    rebuild: Rebuild | None = None
    park: Park | None = None
    sharding: Sharding | None = None
    pending: Pending | None = None
    index: Index | None = None
    codec: Codec | None = None
    lifetime: Lifetime = "session"
    tolerance: Tolerance | None = None
    measured: tuple[Measured, ...] = ()
    operations: tuple[Operation, ...] = ()
    line: int = 0
    """Where the schema file begins to describe it, counted from 1; 0 if there is no file."""


@attrs.frozen
class ModelSpec:
    """Everything that a schema says about one model's session state."""

    model: str
    symbols: Mapping[str, int] = attrs.field(factory=dict)
    constants: Mapping[str, int] = attrs.field(factory=dict)
    parameters: Mapping[str, Parameter] = attrs.field(factory=dict)
    variants: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    """Named deployments: numbers that stand for those of `symbols`."""
    families: Mapping[str, Family] = attrs.field(factory=dict)
    inputs: Mapping[str, bool] = attrs.field(factory=dict)
    """What a value may be rebuilt from that is no value: name, and whether it is kept."""
    values: tuple[ValueSpec, ...] = ()
    resets: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Reset to the names of the values that it clears."""
    atomic: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Group to the values that are restored together or not at all."""
    may_be_lost: bool = False
    """Whether a whole session may be evicted under pressure, because its client can start over."""
    schema: str = ""
    """The schema file, as the generated module names it; empty if there is none."""

    def __getitem__(self, name: str) -> ValueSpec:
        """The value called `name`. Raises: KeyError."""
        for value in self.values:
            if value.name == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[ValueSpec]:
        return iter(self.values)

    def environment(self, overrides: Mapping[str, int] | None = None) -> dict[str, int]:
        """The numbers that size expressions may name: symbols, constants, parameter defaults."""
        defaults = {name: parameter.default for name, parameter in self.parameters.items()}
        return {**self.symbols, **self.constants, **defaults, **(overrides or {})}

    def keys_of(self, value: ValueSpec) -> tuple[str, ...]:
        """The session keys of `value`, one for each member of the families it names.

        A family with a `count` has as many members as the model stores: its place in the key
        stays `{NAME}`.
        """
        keys = [value.key or value.name]
        for name in value.families:
            for_each = self.families[name].members
            if for_each:
                keys = [
                    key.replace(f"{{{name}}}", text) for key in keys for text in for_each.values()
                ]
        return tuple(keys)

    def key_pattern(self, value: ValueSpec) -> re.Pattern[str]:
        """Matches the session keys of all members of `value`, and no others."""
        exact = (re.sub(r"\\\{.*?\\\}", r"[0-9]+", re.escape(key)) for key in self.keys_of(value))
        return re.compile("|".join(exact))

    def cleared_by(self, name: str) -> tuple[str, ...]:
        """The resets that clear the value called `name`, in the schema's order."""
        return tuple(reset for reset, cleared in self.resets.items() if name in cleared)
