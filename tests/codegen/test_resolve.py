"""Resolve: the spec that follows from a schema, field by field."""

from __future__ import annotations

import ast
from pathlib import Path

import attrs
import pytest
import yaml

from statekit.spec import (
    Codec,
    Family,
    Growth,
    Index,
    Measured,
    ModelSpec,
    Parameter,
    Park,
    Pending,
    Rebuild,
    Ring,
    Sharding,
    Size,
    Tolerance,
    ValueSpec,
)
from statekit_codegen.load import load_text
from tests.codegen.rule_cases import BASE

ROOT = Path(__file__).parents[2]


def spec_of(text: str) -> ModelSpec:
    """The spec of a schema."""
    return load_text(text.encode(), "toy.yaml").spec


FULL = """\
statekit: 1
model: toy
class: Toy
doc: Words.
symbols: {H: 16}
variants: {large: {H: 32}}
constants: {RING: 4}
parameters: {window: {type: int, default: 2, minimum: 1, doc: Words.}}
families:
  branch: {doc: Words., members: {cond: "", uncond: _neg}}
  layer: {doc: Words., count: " H / 8 "}
inputs: {prompt: {doc: Words., kept: false}}
values:
  cache:
    bucket: attrs
    doc: Words.
    type: Optional[list[torch.Tensor]]
    dtype: float32
    elements: {first: 8, then: 2*H}
    device: model
    update: in_place
    park: {tiers: [disk, host]}
    sharding: {over: tp, dim: 1}
    pending: {elements: H, why: Words.}
    measured: [{nbytes: 64, hardware: a desk, date: "2026-11-29", at: first}]
    decision: {operations: [park], why: Words.}
  count: {bucket: attrs, type: int, default: -3, coerce: int, device: none}
  frames:
    bucket: StateObject
    object: LatentBuffer
    key: ring
    item: np.ndarray
    dtype: uint8
    shape: [H, 3]
    device: cpu
    ring: {unbounded: for good, growth: {items: 2, every_steps: 3}}
    on_commit: [move, detach]
    sharding: replicated
  newest:
    bucket: StateObject
    object: LatentBuffer
    key: newest
    item: torch.Tensor
    device: cpu
    ring: {bound: window, axis: 1}
    pending: {why: Words.}
  kv:
    bucket: StateObject
    object: EncodeOnce
    key: kv{branch}/{layer}
    family: [branch, layer]
    type: torch.Tensor
    elements: H
    device: cuda:0
    rebuild: {from: [prompt, cache], cost: a pass, cost_ms: 3}
    sharding: {rank: 2}
    decision: {why: Words.}
  pool:
    bucket: StateObject
    object: RetrievalStore
    item: torch.Tensor
    shape: [H]
    device: cpu
    index: {shape: [" H / 4 ", 2], dtype: float16, metric: dot}
    codec: {cast: float16}
    ring: {nbytes: 8 * RING}
    lifetime: request
    tolerance: {atol: 1, rtol: 0.5, why: Words.}
    questions: [Words.]
  kept:
    bucket: StateObject
    object: WindowedKV
    item: torch.Tensor
    device: cpu
    ring: {bound: RING, axis: 0, sink: 1}
atomic: {both: [newest, cache]}
resets:
  session: {clears: all, doc: Words.}
  window: {keeps: [kv, cache]}
  some: {clears: [newest, cache]}
  none: {clears: []}
"""

EXPECTED = ModelSpec(
    model="toy",
    symbols={"H": 16},
    variants={"large": {"H": 32}},
    constants={"RING": 4},
    parameters={"window": Parameter(default=2, minimum=1)},
    families={
        "branch": Family(members={"cond": "", "uncond": "_neg"}),
        "layer": Family(count="H / 8"),
    },
    inputs={"prompt": False},
    values=(
        ValueSpec(
            name="cache",
            line=14,
            bucket="attrs",
            default="None",
            type="list[torch.Tensor] | None",
            device="model",
            dtype="float32",
            size=Size(elements="2*H", first="8"),
            update="in_place",
            park=Park(tiers=("disk", "host")),
            sharding=Sharding(over="tp", dim=1),
            pending=Pending(elements="H"),
            measured=(Measured(64, "a desk", "2026-11-29", "first"),),
            operations=("park",),
        ),
        ValueSpec(
            name="count",
            line=27,
            bucket="attrs",
            default="-3",
            coerce="int",
            type="int",
            device="none",
        ),
        ValueSpec(
            name="frames",
            line=28,
            bucket="StateObject",
            type="np.ndarray",
            device="cpu",
            key="ring",
            object="LatentBuffer",
            dtype="uint8",
            size=Size(shape=("H", "3")),
            ring=Ring(unbounded="for good", growth=Growth("2", 3)),
            on_commit=("move", "detach"),
            sharding=Sharding(),
        ),
        ValueSpec(
            name="newest",
            line=39,
            bucket="StateObject",
            type="torch.Tensor",
            device="cpu",
            object="LatentBuffer",
            ring=Ring(bound="window", axis=1),
            pending=Pending(),
        ),
        ValueSpec(
            name="kv",
            line=47,
            bucket="StateObject",
            type="torch.Tensor",
            device="cuda:0",
            key="kv{branch}/{layer}",
            object="EncodeOnce",
            size=Size(elements="H"),
            families=("branch", "layer"),
            rebuild=Rebuild(("prompt", "cache"), "a pass", 3.0),
            sharding=Sharding(rank=2),
        ),
        ValueSpec(
            name="pool",
            line=58,
            bucket="StateObject",
            type="torch.Tensor",
            device="cpu",
            object="RetrievalStore",
            size=Size(shape=("H",)),
            ring=Ring(nbytes="8 * RING"),
            index=Index(("H / 4", "2"), "float16", "dot"),
            codec=Codec("float16"),
            lifetime="request",
            tolerance=Tolerance(1.0, 0.5),
        ),
        ValueSpec(
            name="kept",
            line=70,
            bucket="StateObject",
            type="torch.Tensor",
            device="cpu",
            object="WindowedKV",
            ring=Ring(bound="RING", axis=0, sink="1"),
        ),
    ),
    resets={
        "session": ("cache", "count", "frames", "newest", "kv", "pool", "kept"),
        "window": ("count", "frames", "newest", "pool", "kept"),
        "some": ("cache", "newest"),
        "none": (),
    },
    atomic={"both": ("newest", "cache")},
    schema="toy.yaml",
)


def test_resolve_when_everything_is_said_then_the_spec_holds_all_of_it() -> None:
    """Every field of the spec comes from its key, in canonical text, and nothing is left out."""
    assert spec_of(FULL) == EXPECTED


def test_expected_spec_when_compared_with_the_class_then_no_field_is_left_untested() -> None:
    """Each field of a value's spec differs from its default somewhere in the test above."""
    for field in attrs.fields(ValueSpec):
        given = [getattr(value, field.name) for value in EXPECTED]
        assert any(value != field.default for value in given), field.name


def test_resolve_when_only_words_change_then_the_spec_does_not() -> None:
    """What a person reads (doc, why) is no part of the spec."""
    assert spec_of(FULL.replace("Words.", "Others.")) == EXPECTED


def test_resolve_when_only_the_form_changes_then_the_spec_does_not() -> None:
    """The order of keys, quotes and comments mean nothing."""
    quoted = FULL.replace("device: cpu", "'device': \"cpu\"  # here").replace(
        "model: toy\nclass: Toy\n", "class: Toy\nmodel: toy\n"
    )
    assert spec_of(quoted) == EXPECTED


@pytest.mark.parametrize(
    ("written", "type_", "source"),
    [
        ("0", "int", "0"),
        ("true", "bool", "True"),
        ("1.50", "float", "1.5"),
        ("null", "int | None", "None"),
        ("[]", "list[int]", "[]"),
        ("{}", "dict[str, int]", "{}"),
        ("it's", "str", '"it\'s"'),
        ('"a\\t\\n\\"b"', "str", "'a\\t\\n\"b'"),
    ],
)
def test_default_when_resolved_then_it_is_its_python_source(
    written: str, type_: str, source: str
) -> None:
    """The default of a carried value is the text that evaluates to it, in one form only."""
    old = "type: int, default: -3, coerce: int"
    value = spec_of(FULL.replace(old, f"type: '{type_}', default: {written}"))["count"]
    assert value.default == source
    assert ast.literal_eval(source) == yaml.safe_load(written)


def test_line_when_something_is_put_before_a_value_then_it_moves_with_it() -> None:
    """The line of a value is that of its key in the file."""
    moved = spec_of(f"# A comment.\n\n{FULL}")
    assert [value.line - 2 for value in moved] == [value.line for value in EXPECTED]


def test_model_when_loaded_then_it_keeps_words_file_and_digest() -> None:
    """The model has the schema's words, its path, and the digest of its very bytes."""
    model = load_text(BASE.encode(), "schemas/toy.yaml")
    assert model.schema.doc == "A toy."
    assert model.file == "schemas/toy.yaml"
    assert model.loaded.sha256 != load_text(f"{BASE}\n".encode(), "x").loaded.sha256
    assert len(model.loaded.sha256) == 64


def test_rebuild_when_the_source_is_unknown_or_itself_then_it_still_resolves() -> None:
    """Whether a source makes sense is an opinion for `vet`, not a reason to stop."""
    odd = FULL.replace("from: [prompt, cache]", "from: [kv, nobody]")
    assert spec_of(odd)["kv"].rebuild == Rebuild(("kv", "nobody"), "a pass", 3.0)


def test_our_schemas_when_loaded_then_they_are_the_models_that_are_described() -> None:
    """The schemas of this project load; their values and resets are those of the facts."""
    specs = {
        path.stem: spec_of(path.read_text("utf-8"))
        for path in sorted((ROOT / "schemas").glob("*.yaml"))
    }
    assert {name: len(spec.values) for name, spec in specs.items()} == {
        "cosmos3": 2,
        "cosmos3_multiview": 5,
        "dreamzero": 12,
        "hunyuan_gamecraft": 3,
        "lingbot_world_2": 13,
        "lingbot_world_fast": 14,
        "matrix_game_2": 11,
        "matrix_game_3": 8,
        "oasis": 3,
        "sana_wm": 11,
        "self_forcing": 4,
        "vjepa2_ac": 5,
    }
    assert [spec.model for spec in specs.values()] == list(specs)
    assert specs["dreamzero"].resets["window"] == (
        "stitched_buffer",
        "call_count",
        "current_start_frame",
        "clip_feas",
        "ys",
    )
