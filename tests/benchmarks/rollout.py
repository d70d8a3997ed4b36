"""One forward's state work of DreamZero, and managers full of sessions that did it.

Tensors are small on purpose: what is measured is the handling of values, not the copying of pixels.
The number of values and their structure are the real ones.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.equivalence.hand_rolled_dreamzero import (
    HandRolledDreamZeroState,
    append_encoder_chunk,
    newest_latent_frames,
)

__all__ = ["filled", "forward", "ids"]

TOKENS = torch.arange(8)[None]
EMBEDS = torch.zeros(1, 8, 16, dtype=torch.bfloat16)
FRAMES = np.zeros((4, 16, 16, 3), np.uint8)
PENDING = torch.zeros(1, 3, 1, 16, 16, dtype=torch.bfloat16)
ENCODED = torch.zeros(1, 32, 1, 2, 2, dtype=torch.bfloat16)
VIDEO = torch.zeros(1, 2, 16, 2, 2, dtype=torch.bfloat16)


def feature_map() -> list[torch.Tensor | None]:
    return [*(torch.zeros(1, 8, 2, 4, 4, dtype=torch.bfloat16) for _ in range(24)), None, None]


def forward(state: Any) -> None:
    """The state's part of one forward that completes a chunk, in the pipeline's order."""
    if state.reset_reason(TOKENS, 4, -1) == "session":
        state.reset()
    state.language = TOKENS
    state.accumulate_frames(FRAMES)
    if state.prompt_embeds is None:
        state.prompt_embeds = EMBEDS
    if state.current_start_frame == 0:
        state.vae_enc_feat_map, state.vae_encoder_out = feature_map(), ENCODED
        state.vae_stream_initialized = True
        state.clip_feas = state.ys = EMBEDS
    if state.vae_pending_body_frames is None:
        state.vae_pending_body_frames = PENDING
    feat_map = state.vae_enc_feat_map
    if isinstance(state, HandRolledDreamZeroState):
        append_encoder_chunk(state, ENCODED)
        newest_latent_frames(state.vae_encoder_out, 2)
    else:
        state.append_vae_encoder_chunk(ENCODED)
        state.newest_vae_encoder_frames(2)
    state.vae_enc_feat_map = feat_map
    state.vae_pending_body_frames = None
    state.current_start_frame += 2
    state.append_video_latents(VIDEO)


def ids(sessions: int) -> list[str]:
    """The ids of so many sessions."""
    return [f"robot-{index}" for index in range(sessions)]


@cache
def filled(sessions: int, forwards: int) -> SessionStateManager:
    """A manager of so many sessions with so many forwards behind each; made once, and looked at."""
    manager = SessionStateManager(sessions)
    for session_id in ids(sessions):
        for _ in range(forwards):
            forward(DreamZeroStateAdapter(session_id, manager))
    manager.stats()
    return manager
