"""Declared bytes: exactly what a spec says that a session holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit.declared import (
    DTYPE_NBYTES,
    ONE_RANK,
    DeclaredBytes,
    Ranks,
    by_device,
    declared_bytes,
    measurable,
    members,
    session_at_step,
)
from statekit.errors import ExpressionError
from statekit.objects import Cast, LatentBuffer, RetrievalStore, WindowedKV
from statekit.spec import (
    Codec,
    Family,
    Growth,
    Index,
    ModelSpec,
    Pending,
    Ring,
    Sharding,
    Size,
    ValueSpec,
)
from statekit_codegen.load import load_text

ROOT = Path(__file__).parents[1]


def spec(value: ValueSpec, **numbers: int) -> ModelSpec:
    """A model of one value."""
    families = {"branch": Family(members={"a": "", "b": "_b"}), "layer": Family(count="L")}
    return ModelSpec(model="toy", symbols={"L": 3, **numbers}, families=families, values=(value,))


def value(**fields: object) -> ValueSpec:
    """A tensor value on the CPU, with these fields."""
    defaults: dict[str, object] = {
        "name": "x",
        "bucket": "attrs",
        "type": "torch.Tensor",
        "device": "cpu",
        "dtype": "bfloat16",
    }
    return ValueSpec(**{**defaults, **fields})  # type: ignore[arg-type]


def declared(one: ValueSpec, **numbers: int) -> DeclaredBytes | None:
    """The declared bytes of a value under these symbols."""
    return declared_bytes(spec(one, **numbers), one)


def test_dtypes_when_compared_with_torch_then_their_bytes_are_torchs() -> None:
    """Every dtype of the language is one of torch, of that many bytes, and of numpy where it is."""
    assert {name: getattr(torch, name).itemsize for name in DTYPE_NBYTES} == dict(DTYPE_NBYTES)
    in_numpy = [name for name in DTYPE_NBYTES if name != "bfloat16" and "float8" not in name]
    assert all(np.dtype(name).itemsize == DTYPE_NBYTES[name] for name in in_numpy)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (value(size=Size(shape=("H", "W / 2"))), DeclaredBytes(120, 120)),
        (value(size=Size(shape=())), DeclaredBytes(2, 2)),
        (value(size=Size(elements="3 * H")), DeclaredBytes(60, 60)),
        (value(size=Size(elements="4", first="1")), DeclaredBytes(2, 8)),
        (value(size=Size(shape=("H",)), pending=Pending()), DeclaredBytes(20, 20, pending=20)),
        (value(size=Size(elements="4"), pending=Pending("H")), DeclaredBytes(8, 8, pending=20)),
        (value(size=Size(shape=("H",)), families=("branch", "layer")), DeclaredBytes(120, 120)),
        (value(device="none"), DeclaredBytes(0, 0)),
        (value(size=None), None),
        (value(size=Size(shape=("H",)), dtype=None), None),
        (value(size=Size(shape=("H", "1")), ring=Ring(bound="4")), DeclaredBytes(20, 80)),
        (value(size=Size(shape=("H", "1")), ring=Ring(bound="4", axis=1)), DeclaredBytes(20, 80)),
        (value(size=Size(shape=("H", "5")), ring=Ring(bound="2", axis=1)), DeclaredBytes(40, 40)),
        (value(size=Size(shape=("1", "H")), ring=Ring(bound="3", axis=0)), DeclaredBytes(20, 60)),
        (value(size=Size(elements="H"), ring=Ring(bound="3")), DeclaredBytes(20, 60)),
        (
            value(size=Size(shape=("H",)), ring=Ring(bound="3"), pending=Pending()),
            DeclaredBytes(20, 60, pending=60),
        ),
        (
            value(size=Size(elements="H"), ring=Ring(unbounded="why")),
            DeclaredBytes(20, 20, growth=20),
        ),
        (
            value(size=Size(shape=("H",)), ring=Ring(unbounded="why", growth=Growth("2", 3))),
            DeclaredBytes(20, 20, growth=40, every_steps=3),
        ),
    ],
)
def test_declared_bytes_when_computed_then_they_follow_from_the_size(
    one: ValueSpec, expected: DeclaredBytes | None
) -> None:
    """Shape or elements, times dtype, times members; a ring up to its bound."""
    assert declared(one, H=10, W=12) == expected


def test_declared_bytes_when_a_number_is_overridden_then_it_counts() -> None:
    """Overrides stand in for the schema's own numbers; what then has no value is an error."""
    one = value(size=Size(shape=("H / 8", "2")))
    model = spec(one, H=16)
    assert declared_bytes(model, one, {"H": 32}) == DeclaredBytes(16, 16)
    with pytest.raises(ExpressionError, match="remainder"):
        declared_bytes(model, one, {"H": 33})
    with pytest.raises(ExpressionError, match="the result is 0"):
        declared_bytes(model, one, {"H": 0})


def test_members_when_there_are_families_then_they_multiply() -> None:
    """Members of a family are counted, a numbered family by its expression."""
    one = value(families=("branch", "layer"))
    model = spec(one)
    assert members(model, one, model.environment()) == 6
    assert members(model, value(), model.environment()) == 1


def test_at_step_when_a_buffer_grows_then_each_step_adds_what_it_says() -> None:
    """The first step leaves one item; then every so many steps more are added."""
    grown = DeclaredBytes(20, 20, growth=40, every_steps=3)
    assert [grown.at_step(step) for step in (1, 2, 3, 4, 5, 7)] == [20, 20, 20, 60, 60, 100]
    assert [DeclaredBytes(5, 8).at_step(step) for step in (1, 2, 9)] == [5, 8, 8]


@pytest.mark.parametrize("kind", ["LatentBuffer", "RetrievalStore"])
def test_growth_when_the_first_step_brings_another_number_then_it_counts_from_there(
    kind: Any,
) -> None:
    """15 items, then 10 with every second step."""
    growth = Growth(items="10", every_steps=2, first="FIRST")
    value = ValueSpec(
        "pool",
        "StateObject",
        "torch.Tensor",
        "cpu",
        object=kind,
        dtype="float32",
        size=Size(shape=("3",)),
        ring=Ring(unbounded="kept", growth=growth),
        index=Index(("2",), "int64") if kind == "RetrievalStore" else None,
    )
    one = 3 * 4 + (2 * 8 if kind == "RetrievalStore" else 0)
    declared = declared_bytes(ModelSpec("m", symbols={"FIRST": 15}, values=(value,)), value)
    assert declared is not None
    found = [declared.at_step(step) for step in (1, 2, 3, 4, 5)]
    assert found == [one * items for items in (15, 15, 25, 25, 35)]
    assert declared.most == 15 * one


def test_window_when_numbers_leave_no_room_beside_the_sink_then_refused() -> None:
    """What a WindowedKV refuses when it is made, a plan and an admission refuse before."""
    window = value(
        object="WindowedKV",
        type="torch.Tensor",
        size=Size(shape=("1", "2", "4")),
        ring=Ring(bound="W", axis=1, sink="S"),
    )
    model = spec(window, W=10, S=9)
    assert declared_bytes(model, window) is not None
    with pytest.raises(ExpressionError, match="a sink of 9 in a bound of 9"):
        declared_bytes(model, window, {"W": 9})


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    bound=st.integers(1, 5),
    axis=st.integers(0, 2),
    steps=st.integers(1, 6),
    by_frames=st.booleans(),
)
def test_ring_when_it_is_really_filled_then_it_holds_the_declared_bytes(
    shape: list[int], bound: int, axis: int, steps: int, by_frames: bool
) -> None:
    """A LatentBuffer that gets items of the declared shape holds the declared bytes exactly."""
    axis %= len(shape)
    ring = Ring(bound=str(bound), axis=axis if by_frames else None)
    one = value(size=Size(shape=tuple(map(str, shape))), ring=ring)
    buffer = LatentBuffer[torch.Tensor]().allocate(maxlen=bound, axis=ring.axis)
    held = []
    for _ in range(steps + math.prod(shape) * bound):
        buffer.append(torch.zeros(shape, dtype=torch.bfloat16))
        held.append(buffer.nbytes)
    expected = declared(one)
    assert expected is not None
    assert (held[0], held[-1]) == (expected.first, expected.steady)


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    bound=st.integers(2, 6),
    sink=st.integers(0, 1),
    axis=st.integers(0, 2),
    pair=st.booleans(),
)
def test_window_when_it_is_really_filled_then_it_holds_the_declared_bytes(
    shape: list[int], bound: int, sink: int, axis: int, pair: bool
) -> None:
    """A WindowedKV of one tensor or of two holds the declared bytes, at first and at last."""
    axis %= len(shape)
    one = value(
        bucket="StateObject",
        object="WindowedKV",
        type="tuple[torch.Tensor, torch.Tensor]" if pair else "torch.Tensor",
        size=Size(shape=tuple(map(str, shape))),
        ring=Ring(bound=str(bound), axis=axis, sink=str(sink)),
    )
    window = WindowedKV[Any]().allocate(bound=bound, axis=axis, sink=sink)
    block = torch.zeros(shape, dtype=torch.bfloat16)
    held = []
    for _ in range(bound + 2):
        window.append((block.clone(), block.clone()) if pair else block.clone())
        held.append(window.nbytes)
    expected = declared(one)
    assert expected is not None
    assert (held[0], held[-1]) == (expected.first, expected.steady)
    entry = math.prod(shape) // shape[axis] * (2 if pair else 1)
    by_entry = attrs.evolve(one, size=Size(elements=str(entry), first="1"))
    assert declared(by_entry) == DeclaredBytes(2, expected.steady)


@given(
    count=st.integers(1, 9),
    key=st.integers(1, 5),
    cast=st.sampled_from([None, "float16", "float64"]),
    form=st.sampled_from(["bound", "nbytes", "unbounded"]),
    limit=st.integers(1, 200),
)
def test_store_when_it_is_really_filled_then_it_holds_the_declared_bytes(
    count: int, key: int, cast: str | None, form: str, limit: int
) -> None:
    """A RetrievalStore holds keys and values in the form of its codec, up to its bound."""
    entry = count * DTYPE_NBYTES[cast or "float32"] + 2 * key
    rings = {
        "bound": Ring(bound=str(limit % 5 + 1)),
        "nbytes": Ring(nbytes=str(limit + entry)),
        "unbounded": Ring(unbounded="why", growth=Growth("1")),
    }
    ring = rings[form]
    one = value(
        bucket="StateObject",
        object="RetrievalStore",
        dtype="float32",
        size=Size(elements=str(count)),
        ring=ring,
        index=Index(shape=(str(key),), dtype="float16"),
        codec=None if cast is None else Codec(cast),
    )
    store = RetrievalStore[torch.Tensor]().allocate(
        bound=None if ring.bound is None else int(ring.bound),
        nbytes=None if ring.nbytes is None else int(ring.nbytes),
        codec=None if cast is None else Cast(getattr(torch, cast)),
    )
    expected = declared(one)
    assert expected is not None
    for step in range(1, 1 + limit // entry + 8):
        store.append((torch.zeros(key, dtype=torch.float16), torch.zeros(count)))
        at_step = expected.at_step(step)
        assert at_step == store.nbytes if form == "unbounded" else at_step >= store.nbytes
    assert store.nbytes == expected.at_step(step)
    assert expected.first == entry


def test_store_when_its_values_are_of_any_size_then_its_bytes_are_the_bound() -> None:
    """Where nobody says how large an entry is, a bound in bytes is what may be held."""
    one = value(object="RetrievalStore", size=None, ring=Ring(nbytes="64 * H"))
    assert declared(one, H=2) == DeclaredBytes(128, 128)
    assert declared(value(object="RetrievalStore", size=None, ring=Ring("2"))) is None


def test_store_when_it_lies_on_ranks_then_a_bound_in_bytes_is_that_of_each() -> None:
    """A bound in items is dealt out with the items; each rank has a budget of its own."""
    index = Index(shape=("2",), dtype="float32")
    sharding = Sharding(over="tp", dim=0)
    one = value(object="RetrievalStore", size=Size(elements="4"), index=index, sharding=sharding)
    ranks = Ranks({"tp": 2})
    items = attrs.evolve(one, ring=Ring("10"))
    assert declared_bytes(spec(items), items, ranks=ranks) == DeclaredBytes(8, 80)
    budget = attrs.evolve(one, ring=Ring(nbytes="100"))
    assert declared_bytes(spec(budget), budget, ranks=ranks) == DeclaredBytes(16, 96)


@pytest.mark.parametrize(
    ("one", "pending"),
    [
        (value(size=Size(elements="4", first="9")), 18),
        (value(size=Size(elements="4"), ring=Ring("3")), 24),
        (value(size=Size(elements="4"), ring=Ring(unbounded="why"), families=("branch",)), 16),
        (value(device="none"), 0),
    ],
)
def test_value_when_it_lives_for_a_request_then_it_is_counted_as_a_second_copy(
    one: ValueSpec, pending: int
) -> None:
    """Between two requests it is 0 bytes, and it never grows; while a step runs it is all there."""
    brief = attrs.evolve(one, lifetime="request")
    assert declared(brief) == DeclaredBytes(0, 0, pending=pending)
    found = declared(brief)
    assert found is not None
    assert (measurable(brief, found), measurable(brief, found, "first")) == (pending, pending)


def test_session_when_added_up_then_each_device_has_its_own_sum() -> None:
    """Values are summed by device at a step; what cannot be computed is there without a figure."""
    values = (
        value(size=Size(elements="4", first="1")),
        value(name="y", size=Size(elements="1"), pending=Pending("3")),
        value(name="z", size=Size(elements="8"), device="model"),
        value(name="n", device="none"),
        value(name="u"),
    )
    model = ModelSpec(model="toy", values=values)
    assert by_device(session_at_step(model, 2)) == {"cpu": 10, "model": 16}
    assert by_device(session_at_step(model, 1)) == {"cpu": 4, "model": 16}
    held = session_at_step(model, None, model_device="cuda:0")
    assert by_device(held) == {"cpu": 10, "cuda:0": 16}
    assert by_device(held, lambda one: one.pending_nbytes) == {"cpu": 6, "cuda:0": 0}
    assert [one.nbytes for one in held] == [8, 2, 16, 0, None]


def test_session_when_no_step_is_named_then_it_is_the_most_but_for_growth() -> None:
    """What shrinks after its first step counts at its largest; what grows counts one item."""
    shrinks = value(size=Size(elements="4", first="9"))
    grows = value(name="y", size=Size(elements="5"), ring=Ring(unbounded="why"))
    held = session_at_step(ModelSpec(model="toy", values=(shrinks, grows)), None)
    assert [one.nbytes for one in held] == [18, 10]


@pytest.mark.parametrize(
    ("one", "parts", "expected"),
    [
        # along a dimension of a shape: whole slices, and the largest share
        ({"size": Size(shape=("8", "3")), "sharding": Sharding("tp", 0)}, 4, (12, 12, 0, 0)),
        ({"size": Size(shape=("5", "3")), "sharding": Sharding("tp", 0)}, 4, (12, 12, 0, 0)),
        ({"size": Size(shape=("5", "3")), "sharding": Sharding("tp", 1)}, 4, (10, 10, 0, 0)),
        # elements alone: rounded up
        ({"size": Size(elements="10"), "sharding": Sharding("tp", 2)}, 4, (6, 6, 0, 0)),
        # another group, all ranks alike, another one each
        ({"size": Size(elements="10"), "sharding": Sharding("sp", 0)}, 4, (20, 20, 0, 0)),
        ({"size": Size(elements="10"), "sharding": Sharding()}, 4, (20, 20, 0, 0)),
        ({"size": Size(elements="10"), "sharding": Sharding("tp")}, 4, (20, 20, 0, 0)),
        # the members of families are dealt out: 6 of them over 4 ranks
        (
            {
                "size": Size(elements="10"),
                "sharding": Sharding("tp"),
                "families": ("branch", "layer"),
            },
            4,
            (40, 40, 0, 0),
        ),
        # rings, growth and pending copies are cut as their values are
        (
            {
                "size": Size(shape=("8", "3")),
                "sharding": Sharding("tp", 0),
                "ring": Ring(bound="5"),
                "pending": Pending("7"),
            },
            4,
            (12, 60, 0, 4),
        ),
        (
            {
                "size": Size(shape=("2", "3")),
                "sharding": Sharding("tp", 0),
                "ring": Ring(bound="5", axis=0),
            },
            2,
            (6, 18, 0, 0),
        ),
        (
            {
                "size": Size(shape=("8", "3")),
                "sharding": Sharding("tp", 0),
                "ring": Ring(unbounded="why"),
            },
            4,
            (12, 12, 12, 0),
        ),
    ],
)
def test_declared_bytes_when_cut_over_a_group_then_they_are_the_largest_share(
    one: dict[str, object], parts: int, expected: tuple[int, int, int, int]
) -> None:
    """Only what the schema says is cut is divided, and never below what some rank holds."""
    held = value(**one)
    got = declared_bytes(spec(held), held, None, Ranks({"tp": parts}))
    assert got is not None
    assert (got.first, got.steady, got.growth, got.pending) == expected


def test_declared_bytes_when_one_rank_holds_a_value_then_the_others_hold_nothing() -> None:
    """A value of rank 1 is on rank 1, and on the only rank where there is one."""
    held = value(size=Size(elements="10"), sharding=Sharding(rank=1), pending=Pending())
    model = spec(held)
    everything = DeclaredBytes(20, 20, pending=20)
    assert declared_bytes(model, held, None, ONE_RANK) == everything
    assert declared_bytes(model, held, None, Ranks({"tp": 2, "cfg": 2}, 1)) == everything
    assert declared_bytes(model, held, None, Ranks({"tp": 2, "cfg": 2}, 3)) == DeclaredBytes(0, 0)


@given(
    extents=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    dim=st.integers(0, 2),
    parts=st.integers(1, 5),
    bound=st.integers(1, 4),
    kind=st.sampled_from(["tensor", "items", "frames", "unbounded"]),
)
def test_shares_when_a_tensor_is_really_cut_then_the_largest_one_is_declared(
    extents: list[int], dim: int, parts: int, bound: int, kind: str
) -> None:
    """No part that `torch.tensor_split` in ceiling chunks gives has more than is declared."""
    dim %= len(extents)
    ring = {
        "tensor": None,
        "items": Ring(bound=str(bound)),
        "frames": Ring(bound=str(bound), axis=(dim + 1) % len(extents)),
        "unbounded": Ring(unbounded="why"),
    }[kind]
    held = value(size=Size(shape=tuple(map(str, extents))), ring=ring, sharding=Sharding("sp", dim))
    got = declared_bytes(spec(held), held, None, Ranks({"sp": parts}))
    whole = declared_bytes(spec(held), held)
    assert got is not None
    assert whole is not None
    full = torch.empty(whole.steady // 2 // extents[dim], extents[dim], dtype=torch.bfloat16)
    if kind == "frames" and len(extents) == 1:  # the frames themselves are dealt out
        full = torch.empty(1, bound, dtype=torch.bfloat16)
    assert got.steady == max(part.numel() * 2 for part in full.chunk(parts, dim=1))


def test_dreamzero_when_computed_from_the_schema_then_figures_are_the_measured_ones() -> None:
    """The feature map, the latent frames and the pending frames have the bytes of the facts."""
    model = load_text((ROOT / "schemas" / "dreamzero.yaml").read_bytes(), "dreamzero.yaml").spec
    figures = {one.name: declared_bytes(model, one) for one in model}
    assert figures["vae_enc_feat_map"] == DeclaredBytes(320_348_160, 632_586_240)
    assert figures["vae_encoder_out"] == DeclaredBytes(225_280, 450_560)
    assert figures["vae_pending_body_frames"] == DeclaredBytes(4_055_040, 4_055_040)
