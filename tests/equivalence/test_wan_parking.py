"""The real Wan encoder under a budget: sessions that wait on disk go on as if nothing had been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.events import Event, Parked, Restored
from statekit.manager import SessionStateManager
from tests.equivalence.bits import assert_same_bits
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline
from tests.equivalence.hand_rolled_dreamzero import HandRolledDreamZeroState
from tests.equivalence.wan_stream import WanStream, build_vae

SMALL = {"H": 64, "W": 64, "TOKENS": 8}
# Without the values whose width is a constant of the real model, far beyond that of the stand-ins.
ADMITTED_WITH = attrs.evolve(
    DreamZeroStateAdapter.SPEC,
    values=tuple(
        value
        for value in DreamZeroStateAdapter.SPEC
        if value.name not in ("prompt_embeds", "clip_feas", "vae_enc_feat_map")
    ),
)
STEPS = 12
TOKENS = {"a": torch.arange(8)[None], "b": torch.arange(8, 16)[None]}


@pytest.fixture
def pipeline(one_thread: None) -> DreamZeroPipeline:
    return DreamZeroPipeline(WanStream(build_vae(base_dim=8)))


def frames(name: str) -> list[np.ndarray[Any, Any]]:
    """One frame for the first step of a session, one for each later one."""
    generator = np.random.default_rng(ord(name))
    return [generator.integers(0, 256, (64, 64, 3), dtype=np.uint8) for _ in range(STEPS)]


def test_rollouts_when_parked_between_all_steps_then_bits_are_those_without_a_manager(
    pipeline: DreamZeroPipeline, tmp_path: Path
) -> None:
    """Two sessions in turn under a budget for one: every output equals the hand-rolled run's."""
    wanted = {}
    for name in ("a", "b"):
        state = HandRolledDreamZeroState()
        wanted[name] = [pipeline.forward(state, one, TOKENS[name]) for one in frames(name)]
        wanted[f"{name} map"] = state.vae_enc_feat_map

    probe = SessionStateManager()
    with probe.lease("a", begin=ADMITTED_WITH, overrides=SMALL):
        adapter = DreamZeroStateAdapter("a", probe)
        for one in frames("a"):
            pipeline.forward(adapter, one, TOKENS["a"])
    one_session = probe.nbytes_by_device()["cpu"]
    parkable = adapter.vae_enc_feat_map_object.nbytes

    # Both fit with one feature map on disk, and do not fit with both in memory.
    budget = 2 * one_session - parkable // 2
    manager = SessionStateManager(budgets={"cpu": budget}, park_folder=tmp_path)
    events: list[Event] = []
    manager.subscribe(events.append)
    steps = {name: iter(frames(name)) for name in ("a", "b")}
    for step in range(STEPS):
        for name in ("a", "b"):
            begin = None if step else ADMITTED_WITH
            with manager.lease(name, begin=begin, overrides=SMALL):
                state = DreamZeroStateAdapter(name, manager)
                got = pipeline.forward(state, next(steps[name]), TOKENS[name])
            want = wanted[name][step]
            assert got.reset == want.reset
            assert_same_bits(got.latents, want.latents, f"latents of {name}, step {step}")
            assert_same_bits(got.video, want.video, f"video of {name}, step {step}")
            assert manager.nbytes_by_device()["cpu"] <= budget

    parked = [one for one in events if isinstance(one, Parked)]
    restored = [one for one in events if isinstance(one, Restored)]
    assert len(parked) >= STEPS
    assert len(restored) >= STEPS
    assert {one.values for one in parked} == {("vae_enc_feat_map",)}
    for name in ("a", "b"):
        with manager.lease(name):
            feat_map = DreamZeroStateAdapter(name, manager).vae_enc_feat_map
            assert_same_bits(feat_map, wanted[f"{name} map"], f"map of {name}", strides=True)
            assert len(feat_map or ()) == 26
            assert [one is None for one in feat_map or ()].count(True) == 2
    manager.close()
    assert [one.name for one in tmp_path.rglob("*") if one.is_file()] == ["gate"]
