"""A session in a snapshot and out of it again: all of it, under today's schema, or an error."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from statekit import restore_session, save_session, session_bytes
from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.errors import (
    DamagedSnapshotError,
    IncompatibleSnapshotError,
    ParameterConflictError,
    SessionAdmissionError,
    SessionExistsError,
    SessionStateLostError,
    SnapshotError,
    UnsavableError,
)
from statekit.manager import SessionStateManager
from statekit.objects import EncodeOnce, EngineHandle, FixedState, HeldValue, LatentBuffer
from statekit.on_commit import OnCommit
from statekit.session import SessionState
from statekit.snapshot.contents import contents_of
from statekit.snapshot_file.file import open_snapshot, snapshot_bytes
from statekit.spec import ModelSpec, Park, Ring, Size, ValueSpec
from tests.block_pool import BlockPool
from tests.capture.sessions import dreamzero, everything_of, latents
from tests.equivalence.bits import assert_same_bits

SPEC = DreamZeroStateAdapter.SPEC


def same_values(session: SessionState, other: SessionState) -> None:
    """All that is held and staged is equal bit for bit, and so are the objects' settings."""
    one, two = everything_of(session), everything_of(other)
    for name in ("attrs", "objects", "parameters"):
        assert_same_bits(getattr(two, name), getattr(one, name), name, strides=True)
    assert {name: type(obj) for name, obj in session.objects.items()} == {
        name: type(obj) for name, obj in other.objects.items()
    }
    for name, obj in session.objects.items():
        assert vars(other.objects[name])["_on_commit"] == vars(obj)["_on_commit"]


def test_dreamzero_session_when_saved_and_restored_then_equal_and_goes_on(tmp_path: Path) -> None:
    """Every value, what is staged, the ring's bound, the parameter; through a file and as bytes."""
    state = DreamZeroStateAdapter("left/../arm", SessionStateManager(), vae_encoder_window=3)
    full = dreamzero(SessionStateManager())
    for one in SPEC.values:
        setattr(state, one.name, getattr(full, one.name))
    state.video_latents_across_time_object.stage(torch.ones(1, 16, 2, 1, 1))
    file = tmp_path / "s.statekit"
    assert save_session(state.session, file) == file.stat().st_size
    for source in (file, session_bytes(state.session)):
        manager = SessionStateManager()
        assert manager.restore(source, SPEC) == "left/../arm"
        other = DreamZeroStateAdapter("left/../arm", manager, vae_encoder_window=3)
        same_values(state.session, other.session)
        other.append_vae_encoder_chunk(torch.ones(1, 32, 4, 1, 1))
        out = other.vae_encoder_out
        assert out is not None
        assert out.shape[2] == 3
        for _ in range(5):
            other.accumulate_frames(np.zeros((8, 8, 3), np.uint8))
        assert len(other.stitched_buffer) == 4
        other.append_video_latents(latents(5.0))
        assert len(other.video_latents_across_time) == 4
        with pytest.raises(ParameterConflictError, match="built with vae_encoder_window=3"):
            DreamZeroStateAdapter("left/../arm", manager, vae_encoder_window=2)


def test_cosmos3_session_when_saved_and_restored_then_both_branches_are_whole() -> None:
    """All layers and frequencies of both branches, K and V without their padding."""
    state = Cosmos3StateAdapter("s", SessionStateManager())
    padded = torch.randn(1, 9, 2, 4).bfloat16()
    for branch in ("positive", "negative"):
        state.und_kv(branch).replace((padded[:, :3], padded[:, 3:5]) for _ in range(12))
    state.freqs_gen("positive").append((torch.ones(1, 2), torch.zeros(1, 2)))
    manager = SessionStateManager()
    manager.restore(session_bytes(state.session), Cosmos3StateAdapter.SPEC)
    other = Cosmos3StateAdapter("s", manager)
    same_values(state.session, other.session)
    assert_same_bits(other.get_branch_kv(True), state.get_branch_kv(True))
    assert other.session.nbytes == state.session.nbytes


def odd_values() -> dict[str, Any]:
    """What sessions hold beside plain tensors."""
    base = torch.arange(24, dtype=torch.int16).reshape(2, 3, 4)
    array = np.arange(12, dtype=">f4").reshape(3, 4)
    shared = [base]
    every = [getattr(torch, name) for name in (
        "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "bool", "uint8", "int64",
        "complex64", "complex128", "float64")]  # fmt: skip
    return {
        "dtypes": [torch.arange(3).to(dtype) for dtype in every],
        "views": [base, base[:, 1], base.transpose(0, 2), base[1:], base.expand(2, 2, 3, 4)],
        "arrays": [array, array[::-1], array.T, torch.from_numpy(np.arange(3)), np.float32(2.5)],
        "shared": [shared, shared, {"again": shared}],
        "empty": [torch.empty(0), torch.empty(0, 3), np.empty((2, 0)), [], {}, set(), None, b""],
        "plain": [1, -(10**30), 2.5, float("nan"), -0.0, 1 + 2j, True, "text\ud800", b"bytes"],
        "keys": {1: "a", ("b", 2): 3, None: frozenset({4})},
        "deque": deque([1, 2], maxlen=2),
        "torch": [torch.Size([2, 3]), torch.bfloat16, torch.device("cpu")],
    }  # fmt: skip


def test_odd_values_when_saved_and_restored_then_the_same_values_sharing_what_they_shared() -> None:
    """Dtypes, strides, big-endian arrays, aliases, empties, keys, NaN: all as they were."""
    session = SessionState("odd")
    session.attrs.update(odd_values())
    session.put("held", HeldValue[Any]().allocate())
    session.put("cell", FixedState[Any]().allocate(shape={"a": (2,)}, dtype=torch.int32))
    held, cell = session.get("held"), session.get("cell")
    assert held is not None
    assert cell is not None
    held.append(session.attrs["views"][1])  # shares a storage with the other bucket
    cell.append({"a": torch.tensor([1, 2], dtype=torch.int32)})
    cell.stage({"a": torch.tensor([3, 4], dtype=torch.int32)})
    other = restore_session(session_bytes(session))
    for name, value in session.attrs.items():
        if name not in ("plain", "empty", "torch", "keys"):
            assert_same_bits(other.attrs[name], value, name, strides=True)
    assert repr(other.attrs["plain"]) == repr(session.attrs["plain"])
    assert repr(other.attrs["empty"]) == repr(session.attrs["empty"])
    assert other.attrs["torch"] == session.attrs["torch"]
    assert other.attrs["keys"] == session.attrs["keys"]
    assert other.attrs["deque"].maxlen == 2
    first, second, third = other.attrs["shared"]
    assert first is second
    assert third["again"] is first
    storage = other.attrs["views"][0].untyped_storage().data_ptr()
    twin: Any = other.get("held")
    assert twin.view().untyped_storage().data_ptr() == storage
    assert other.attrs["arrays"][1].base is not None
    fixed: Any = other.get("cell")
    assert fixed.view(include_staged=False)["a"].tolist() == [1, 2]
    assert fixed.view()["a"].tolist() == [3, 4]
    assert other.nbytes_by_device() == session.nbytes_by_device()


def test_generators_when_saved_and_restored_then_they_draw_the_same_numbers() -> None:
    """The state of torch's, numpy's and Python's generators is part of the rollout."""
    session = SessionState()
    session.attrs["rng"] = [
        torch.Generator().manual_seed(3),
        np.random.default_rng(3),
        random.Random(3),
    ]

    def draw(rng: list[Any]) -> list[Any]:
        drawn = torch.rand(2, generator=rng[0]).tolist(), rng[1].random(2).tolist()
        return [*drawn, rng[2].random()]

    draw(session.attrs["rng"])
    other = restore_session(session_bytes(session))
    assert draw(other.attrs["rng"]) == draw(session.attrs["rng"])


def test_objects_when_not_allocated_then_not_saved_and_parked_in_no_way_missing() -> None:
    """What holds nothing is made anew by the adapter that asks for it."""
    state = dreamzero()
    state.video_latents_across_time_object.reset()
    other = restore_session(session_bytes(state.session), [SPEC])
    assert "video_latents" not in other.names
    assert "frames" in other.names


class Strange:
    """Holds what nobody can save."""


def unsavable(session: SessionState, how: str) -> str:
    """Put a value into the session that cannot be saved; what the error must name."""
    if how == "instance":
        session.attrs["odd"] = {"deep": [1, Strange()]}
        return "odd"
    if how == "graph":
        session.attrs["odd"] = torch.ones(2, requires_grad=True) * 2
        return "odd"
    if how == "engine":
        session.put("kv", EngineHandle[Any]().allocate(owned=BlockPool(4).open()))
        return "kv"

    class Mine(LatentBuffer[Any]):
        """A kind of one's own."""

    session.put("mine", Mine().allocate())
    return "mine"


@pytest.mark.parametrize("how", ["instance", "graph", "engine", "kind"])
def test_session_when_a_value_cannot_be_saved_then_named_and_nothing_is_written(
    how: str, tmp_path: Path
) -> None:
    """The error names session and value; the older snapshot of that name is as it was."""
    state = dreamzero()
    file = tmp_path / "s.statekit"
    save_session(state.session, file)
    before = file.read_bytes()
    name = unsavable(state.session, how)
    with pytest.raises(UnsavableError, match=name) as caught:
        save_session(state.session, file)
    assert "'s'" in str(caught.value)
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["s.statekit"]
    if how in ("engine", "kind"):
        save_session(state.session, file, without=[name])
        assert name not in restore_session(file).names


def test_session_when_an_atomic_group_would_be_torn_then_refused() -> None:
    """To leave a value out is to leave out what belongs together with it."""
    state = dreamzero()
    with pytest.raises(UnsavableError, match="the group vae_stream is torn; leave out vae_enc"):
        session_bytes(state.session, without=["vae_pending_body_frames", "vae_encoder_out"])
    data = session_bytes(state.session, without=SPEC.atomic["vae_stream"])
    other = restore_session(data, [SPEC])
    assert "vae_enc_feat_map" not in other.names
    assert "vae_stream_initialized" not in other.attrs
    assert "frames" in other.names


def test_session_when_a_step_is_under_way_then_not_saved() -> None:
    """The middle of a step is no moment to go back to."""
    state = dreamzero()
    with state.step(), pytest.raises(SnapshotError, match="a step is under way; save between two"):
        session_bytes(state.session)


# -- the schema of today ------------------------------------------------------------------------


def value(name: str, **more: Any) -> ValueSpec:
    known: dict[str, Any] = {
        "bucket": "attrs", "type": "torch.Tensor | None", "device": "cpu", "default": "None",
        "dtype": "float32", "size": Size(shape=("N", "4")),
    }  # fmt: skip
    return ValueSpec(name=name, **{**known, **more})


RING: dict[str, Any] = {"bucket": "StateObject", "object": "LatentBuffer", "type": "torch.Tensor",
                        "default": "", "ring": Ring(bound="2")}  # fmt: skip
OLD = ModelSpec(
    model="toy",
    symbols={"N": 3},
    values=(value("a"), value("b"), value("ring", **RING), value("unused")),
    atomic={"pair": ("a", "b")},
)


def with_value(name: str, **changes: Any) -> ModelSpec:
    values = tuple(attrs.evolve(one, **changes) if one.name == name else one for one in OLD.values)
    return attrs.evolve(OLD, values=values)


COMPATIBLE = {
    "the_same": OLD,
    "value_added": attrs.evolve(OLD, values=(*OLD.values, value("new"))),
    "bound_raised": with_value("ring", ring=Ring(bound="5")),
    "parking_and_lines": with_value("a", line=99, park=Park(("disk",))),
    "type_widened": with_value("ring", type="torch.Tensor | np.ndarray"),
    "unused_value_gone": attrs.evolve(OLD, values=OLD.values[:3]),
}
INCOMPATIBLE = {
    "value_gone": (attrs.evolve(OLD, values=OLD.values[1:], atomic={}), "SNAPSHOT_VALUE_GONE a"),
    "bound_lowered": (with_value("ring", ring=Ring(bound="1")), "SNAPSHOT_RING ring"),
    "dtype": (with_value("a", dtype="float16"), "SNAPSHOT_DTYPE a: was float32, is float16"),
    "shape": (attrs.evolve(OLD, symbols={"N": 7}), "SNAPSHOT_SIZE a"),
    "type": (with_value("a", type="np.ndarray | None"), "SNAPSHOT_TYPE a"),
    "bucket": (with_value("a", bucket="StateObject", object="HeldValue"), "SNAPSHOT_BUCKET a"),
    "default": (with_value("unused", default="0", type="int"), "SNAPSHOT_DEFAULT unused"),
    "group": (
        attrs.evolve(OLD, values=(*OLD.values, value("new")), atomic={"pair": ("a", "b", "new")}),
        "SNAPSHOT_ATOMIC pair",
    ),
    "model": (attrs.evolve(OLD, model="other"), "a snapshot of toy"),
}


def saved_toy() -> bytes:
    """A session of the old schema with data in all values but one."""
    session = SessionState("s")
    session.adopt(OLD)
    session.attrs["a"], session.attrs["b"] = torch.ones(3, 4), None
    ring = LatentBuffer[Any]().allocate(maxlen=2)
    ring.extend([torch.ones(3, 4), torch.zeros(3, 4)])
    session.put("ring", ring)
    return session_bytes(session)


@pytest.mark.parametrize("spec", COMPATIBLE.values(), ids=COMPATIBLE)
def test_snapshot_when_the_schema_changed_compatibly_then_restored_under_the_new_one(
    spec: ModelSpec,
) -> None:
    """Data is as it was, settings are those of today."""
    manager = SessionStateManager()
    manager.restore(saved_toy(), spec)
    session = manager.get_or_create_session("s")
    assert torch.equal(session.attrs["a"], torch.ones(3, 4))
    assert session.attrs["b"] is None
    ring: Any = session.get("ring")
    bound = spec["ring"].ring
    assert bound is not None
    assert ring.maxlen == int(bound.bound or 0)
    assert len(ring) == 2


@pytest.mark.parametrize(("spec", "words"), INCOMPATIBLE.values(), ids=INCOMPATIBLE)
def test_snapshot_when_the_schema_changed_otherwise_then_refused_with_the_difference(
    spec: ModelSpec, words: str
) -> None:
    """Nothing is begun, nothing is remembered of it."""
    manager = SessionStateManager()
    with pytest.raises(IncompatibleSnapshotError) as caught:
        manager.restore(saved_toy(), spec)
    assert words in str(caught.value)
    assert len(manager) == 0
    with pytest.raises(SessionStateLostError, match="unknown"), manager.lease("s"):
        pass


def test_restore_when_the_id_lives_or_there_is_no_room_then_refused_and_nothing_touched() -> None:
    """A live session is never replaced; one that does not fit is not begun."""
    data = saved_toy()
    manager = SessionStateManager()
    manager.restore(data, OLD)
    before = everything_of(manager.get_or_create_session("s"))
    with pytest.raises(SessionExistsError):
        manager.restore(data, OLD)
    assert everything_of(manager.get_or_create_session("s")).places == before.places
    assert manager.restore(data, OLD, session_id="t") == "t"
    assert "t" in manager
    small = SessionStateManager(budgets={"cpu": 300})
    with small.lease("first", begin=OLD):
        pass
    with pytest.raises(SessionAdmissionError):
        small.restore(data, OLD)
    assert len(small) == 1


@pytest.mark.parametrize(
    ("tree", "about"),
    [
        ([], {}),
        ({"attrs": {}, "objects": {}}, {"session_id": ""}),
        ({"attrs": {}, "objects": {"x": 1}}, {"holds": {"attrs": [], "objects": ["x"]}}),
        ({"attrs": {"a": 1}, "objects": {}}, {"holds": {"attrs": [], "objects": []}}),
        ({"attrs": {1: 1}, "objects": {}}, {"holds": {"attrs": [1], "objects": []}}),
        ({"attrs": {}, "objects": {}}, {"parameters": {"m": {"n": "1"}}}),
        ({"attrs": {}, "objects": {}}, {"parameters": []}),
        ({"attrs": {}, "objects": {}}, {"overrides": 3}),
        *[
            ({"attrs": {}, "objects": {"x": form}}, {"holds": {"attrs": [], "objects": ["x"]}})
            for form in (
                {"kind": "EngineHandle", "settings": {}, "held": None, "staged": None},
                {"kind": ["x"], "settings": {}, "held": None, "staged": None},
                {"kind": "HeldValue", "settings": {}, "held": None, "staged": None},
                {"kind": "HeldValue", "settings": {"on_commit": {"run": 1}, "update": "replaced"},
                 "held": None, "staged": None},
                {"kind": "LatentBuffer", "settings": {"on_commit": {}, "update": "replaced",
                 "maxlen": -1, "axis": None}, "held": [], "staged": []},
                {"kind": "LatentBuffer", "settings": {"on_commit": {}, "update": "replaced",
                 "maxlen": 2, "axis": 7}, "held": [torch.ones(2)], "staged": []},
                {"kind": "LatentBuffer", "settings": {"on_commit": {}, "update": "replaced",
                 "maxlen": 2, "axis": None}, "held": 3, "staged": []},
                {"kind": "FixedState", "settings": {"on_commit": {}, "update": "replaced"},
                 "held": {"a": 1}, "staged": None},
                {"kind": "EncodeOnce", "settings": {"on_commit": {}, "update": "in_place"},
                 "held": 1, "staged": 2},
                {"kind": "EncodeOnce", "settings": {"on_commit": {"device": 3},
                 "update": "replaced"}, "held": 1, "staged": None},
            )
        ],
    ],
)  # fmt: skip
def test_snapshot_when_sound_but_no_session_then_damaged_and_nothing_restored(
    tree: Any, about: dict[str, Any]
) -> None:
    """A file that anybody may have written is believed in nothing."""
    whole = {"session_id": "s", "parameters": {}, "overrides": {}, "models": [],
             "holds": {"attrs": [], "objects": []}, **about}  # fmt: skip
    data = snapshot_bytes(tree, whole)
    with pytest.raises(DamagedSnapshotError, match="restore from another snapshot"):
        restore_session(data)


def test_snapshot_when_its_schema_record_is_none_then_damaged() -> None:
    """What a file says of its schema is checked as well."""
    with open_snapshot(saved_toy()) as snapshot:
        tree, about = snapshot.read(), snapshot.about
    for record in ({}, {"record": 1}, 3, {**about["models"][0]["record"], "values": []}):
        models = [{"model": "toy", "fingerprint": "x", "record": record}]
        data = snapshot_bytes(tree, {**about, "models": models})
        with pytest.raises(DamagedSnapshotError, match="schema record"):
            SessionStateManager().restore(data, OLD)


def test_settings_when_saved_then_the_schema_goes_before_them() -> None:
    """What is done on commit, and how a value changes, is as the adapter of today would say."""
    session = SessionState("s")
    session.put("held", HeldValue[Any]().allocate(on_commit=OnCommit(detach=True, device="cpu")))
    once = EncodeOnce[Any]().allocate(on_commit=OnCommit(compact=True))
    session.put("once", once)
    data = session_bytes(session)
    plain: Any = restore_session(data)
    assert vars(plain.get("held"))["_on_commit"] == OnCommit(detach=True, device="cpu")
    assert vars(plain.get("once"))["_on_commit"] == OnCommit(compact=True)


def test_contents_when_taken_then_they_are_the_live_tensors_and_lists_of_their_own() -> None:
    """Nothing of what is replaced whole is copied for a snapshot; what the model changes is."""
    state = dreamzero()
    tree = contents_of(state.session).tree
    assert tree["attrs"]["clip_feas"] is state.clip_feas
    held: Any = tree["objects"]["vae_enc_feat_map"]["held"]
    feat_map: Any = state.vae_enc_feat_map
    assert held is not feat_map
    assert all(one is other for one, other in zip(held, feat_map, strict=True))
    kept = tree["objects"]["video_latents"]["held"]
    state.append_video_latents(latents(9.0))
    feat_map[0] = None
    assert len(kept) == 2
    assert held[0] is not None
