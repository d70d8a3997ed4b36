"""DreamZero: whole forwards in the pipeline's order, sessions interleaved, on both sides."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.equivalence.bits import assert_same_bits
from tests.equivalence.hand_rolled_dreamzero import (
    HandRolledDreamZeroStates,
    append_encoder_chunk,
    newest_latent_frames,
)

BLOCK = 2
LOCAL_ATTN = 12
CHANNELS = 8

quant_conv = torch.nn.Conv3d(CHANNELS, CHANNELS, 1, dtype=torch.bfloat16).requires_grad_(False)
"""Pointwise in time, as the real one is."""


class EncoderError(Exception):
    """The encoder breaks off with part of its cache replaced."""


class Pipeline:
    """A small DreamZero: real state, arithmetic in place of the networks."""

    def __init__(self, get_state: Callable[[Any], Any], append_chunk: Callable[..., None]) -> None:
        self.get_state, self.append_chunk = get_state, append_chunk

    def forward(
        self, session_id: str, stitched: np.ndarray, tokens: torch.Tensor | None, fail: bool
    ) -> list[Any]:
        """One forward; returns all that a caller could see of it."""
        state = self.get_state(session_id)
        num_video_frames = stitched.shape[0] if stitched.ndim == 4 else 1
        reason = state.reset_reason(tokens, num_video_frames, LOCAL_ATTN)
        if reason is not None:
            state.reset(clear_video_latents=reason == "session")
        state.language = tokens if tokens is not None else torch.tensor([[0]])
        chunk = state.accumulate_frames(stitched)
        if state.prompt_embeds is None:
            state.prompt_embeds = state.language.bfloat16() / 3
        body = torch.from_numpy(chunk).permute(3, 0, 1, 2)[None].bfloat16() / 127.5 - 1
        if state.current_start_frame == 0:
            if state.vae_stream_initialized:
                self.append_chunk(state, self.encode(state, body[:, :, -1:], fail))
            else:
                state.reset_vae_encoder_stream()
                state.vae_enc_feat_map = [None, torch.zeros_like(body[:, :, -1:]), None]
                state.vae_encoder_out = self.encode(state, body, fail)
                state.vae_stream_initialized = True
            state.clip_feas, state.ys = body.mean(), body[:, :, -1:] * 2
        else:
            self.append_chunk(state, self.encode(state, body[:, :, -1:], fail))
        quantised = newest_latent_frames(quant_conv(state.vae_encoder_out), BLOCK)
        state.current_start_frame += BLOCK
        drift = state.clip_feas * state.ys.mean() + state.prompt_embeds.sum()
        state.append_video_latents((quantised + drift).transpose(1, 2))
        return [
            reason,
            chunk,
            quantised,
            state.get_concatenated_video_latents(),
            state.call_count,
            state.current_start_frame,
        ]

    def encode(self, state: Any, body: torch.Tensor, fail: bool) -> torch.Tensor:
        """A causal encoder: what it puts out depends on the frames before, through the cache."""
        last = state.vae_enc_feat_map[1]
        out = []
        for i in range(body.shape[2]):
            last = body[:, :, i : i + 1] + last / 2
            state.vae_enc_feat_map[1] = last
            if fail:
                raise EncoderError
            out.append(last.repeat(1, 3, 1, 1, 1)[:, :CHANNELS])
        return torch.cat(out, dim=2)


def rollout(pipeline: Pipeline, drop: Callable[[Any], Any], ids: list[str], seed: int) -> list[Any]:
    """The outputs of 80 forwards in an order that `seed` determines."""
    order, noise = random.Random(seed), np.random.default_rng(seed)
    outputs: list[Any] = []
    for _ in range(80):
        session_id = order.choice(ids)
        count = order.choice([None, None, 1, 4, 4, 4, 4, 6])
        shape = (4, 6, 3) if count is None else (count, 4, 6, 3)
        stitched = noise.integers(0, 256, shape, dtype=np.uint8)
        tokens = order.choice([None, None, torch.tensor([[5, 6]]), torch.tensor([[5, 6, 7]])])
        tokens = torch.tensor([[1, 2]]) if order.random() < 0.8 else tokens
        try:
            fail = order.random() < 0.04
            outputs.append(pipeline.forward(session_id, stitched, tokens, fail))
        except EncoderError:
            drop(session_id)
            outputs.append("failed, dropped")
        if order.random() < 0.03:
            outputs.append(drop(session_id))
    return outputs


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kept", [False, True], ids=["adapter_per_forward", "adapter_kept"])
def test_rollout_when_sessions_interleave_then_outputs_have_equal_bits(
    kept: bool, seed: int
) -> None:
    """Resets, failures, drops and evictions included, every output has the hand-rolled bits."""
    ids = ["a", "b", "c"]
    max_sessions = 8 if kept else 2  # with an adapter per forward, sessions are evicted as well
    states = HandRolledDreamZeroStates(max_sessions)
    want = rollout(Pipeline(states.get, append_encoder_chunk), states.drop, ids, seed)

    manager = SessionStateManager(max_sessions)
    adapters: dict[str, DreamZeroStateAdapter] = {}

    def get_state(session_id: str) -> DreamZeroStateAdapter:
        adapter = adapters.get(session_id) or DreamZeroStateAdapter(session_id, manager)
        if kept:
            adapters[session_id] = adapter
        return adapter

    def drop(session_id: str) -> bool:
        adapters.pop(session_id, None)
        return manager.drop_session(session_id)

    append = DreamZeroStateAdapter.append_vae_encoder_chunk
    got = rollout(Pipeline(get_state, append), drop, ids, seed)
    assert_same_bits(got, want, f"rollout {seed}")
    assert manager.stats()["evictions"] > 0 or kept
    for session_id, hand in list(states.states.items()):
        out = get_state(session_id).vae_encoder_out
        assert out is not None
        assert out.shape[2] <= BLOCK
        assert_same_bits(out, newest_latent_frames(hand.vae_encoder_out, out.shape[2]))


def test_rollout_when_it_runs_then_all_kinds_of_reset_occur() -> None:
    """The rollouts above are worth comparing: they reset for both reasons, fail and drop."""
    seen = set()
    for seed in range(5):
        states = HandRolledDreamZeroStates(8)
        run = Pipeline(states.get, append_encoder_chunk)
        for output in rollout(run, states.drop, ["a", "b", "c"], seed):
            seen.add(output if isinstance(output, (str, bool)) else output[0])
    assert seen == {None, "session", "inference", "failed, dropped", True, False}


def test_accumulate_frames_when_clip_is_long_then_only_four_frames_are_held() -> None:
    """A clip of 33 frames leaves the bytes of 4, and does not change under the caller's hands."""
    manager = SessionStateManager()
    adapter = DreamZeroStateAdapter("s", manager)
    clip = np.random.default_rng(0).integers(0, 256, (33, 8, 10, 3), dtype=np.uint8)
    newest = clip[-4:].copy()
    adapter.accumulate_frames(clip)
    assert manager.nbytes_by_device() == {"cpu": 4 * 8 * 10 * 3}
    clip[:] = 0
    assert_same_bits(adapter.stitched_buffer, list(newest))


def test_vae_encoder_out_when_stream_is_long_then_ring_is_bounded_and_history_is_not() -> None:
    """After 50 appends of slices the ring holds two latent frames' bytes, the history all 51."""
    manager = SessionStateManager()
    adapter = DreamZeroStateAdapter("s", manager)
    hand = HandRolledDreamZeroStates().get("s")
    everything = torch.randn(1, 32, 51, 4, 4).bfloat16()
    frame = 32 * 4 * 4 * 2
    adapter.vae_encoder_out = hand.vae_encoder_out = everything[:, :, :1]
    for index in range(1, 51):
        chunk = everything[:, :, index : index + 1]
        adapter.append_vae_encoder_chunk(chunk)
        append_encoder_chunk(hand, chunk)
    assert manager.nbytes_by_device() == {"cpu": 2 * frame}
    assert hand.vae_encoder_out.untyped_storage().nbytes() == 51 * frame
    assert_same_bits(adapter.vae_encoder_out, hand.vae_encoder_out[:, :, -2:])
