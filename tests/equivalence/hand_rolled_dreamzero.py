"""DreamZero's state as a server carries it by hand: the reference of the equivalence tests.

Plain attributes, lists and `torch.cat`, and a table of 64 sessions. Written from the description of
the model's behaviour; it shares no code with statekit, on purpose.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import torch


class HandRolledDreamZeroState:
    """What one session keeps between `forward()` calls."""

    FRAMES_PER_CHUNK = 4

    def __init__(self, session_id: str | None = None) -> None:
        self.session_id = session_id
        self.video_latents_across_time: list[torch.Tensor] = []
        self.language: torch.Tensor | None = None
        self.prompt_embeds: torch.Tensor | None = None
        self.reset_vae_encoder_stream()
        self.reset_inference_state()

    def reset(self, *, clear_video_latents: bool = True) -> None:
        self.reset_inference_state()
        if clear_video_latents:
            self.video_latents_across_time = []
            self.language = None
            self.prompt_embeds = None
            self.reset_vae_encoder_stream()

    def reset_inference_state(self) -> None:
        self.stitched_buffer: list[np.ndarray] = []
        self.call_count = 0
        self.current_start_frame = 0
        self.clip_feas: torch.Tensor | None = None
        self.ys: torch.Tensor | None = None

    def reset_vae_encoder_stream(self) -> None:
        self.vae_stream_initialized = False
        self.vae_enc_feat_map: list[torch.Tensor | None] | None = None
        self.vae_encoder_out: torch.Tensor | None = None
        self.vae_pending_body_frames: torch.Tensor | None = None

    def reset_reason(
        self, text_tokens: torch.Tensor | None, num_video_frames: int, local_attn_size: int
    ) -> str | None:
        if self.language is None:
            return "session"
        if text_tokens is not None and not torch.equal(self.language, text_tokens):
            return "session"
        if num_video_frames == 1 and self.call_count > 1:
            return "session"
        if local_attn_size != -1 and self.current_start_frame >= local_attn_size:
            return "inference"
        return None

    def should_reset(
        self, text_tokens: torch.Tensor | None, num_video_frames: int, local_attn_size: int
    ) -> bool:
        return self.reset_reason(text_tokens, num_video_frames, local_attn_size) is not None

    def accumulate_frames(self, stitched: np.ndarray) -> np.ndarray:
        if stitched.ndim == 3:
            self.stitched_buffer.append(stitched)
        elif stitched.ndim == 4:
            self.stitched_buffer.extend(stitched[i] for i in range(stitched.shape[0]))
        else:
            raise ValueError(f"frames must have 3 or 4 dimensions, got {stitched.ndim}")
        del self.stitched_buffer[: -self.FRAMES_PER_CHUNK]
        if not self.stitched_buffer:
            raise ValueError("no frames to make a chunk of")
        count = 1 if self.call_count == 0 else self.FRAMES_PER_CHUNK
        chunk = self.stitched_buffer[-count:]
        while len(chunk) < count:
            chunk.insert(0, chunk[0].copy())
        result = np.stack(chunk, axis=0)
        self.call_count += 1
        return result

    def append_video_latents(self, video_out: torch.Tensor) -> None:
        if video_out.ndim != 5:
            raise ValueError(f"latents must have 5 dimensions, got {video_out.ndim}")
        self.video_latents_across_time.append(video_out.transpose(1, 2).detach().cpu())

    def get_concatenated_video_latents(self) -> torch.Tensor | None:
        if not self.video_latents_across_time:
            return None
        if len(self.video_latents_across_time) == 1:
            return self.video_latents_across_time[0]
        return torch.cat(self.video_latents_across_time, dim=2)

    def clear_video_latents(self) -> None:
        self.video_latents_across_time = []


class HandRolledDreamZeroStates:
    """Sessions by id; the least recently used one goes when there are more than `max_sessions`."""

    def __init__(self, max_sessions: int = 64) -> None:
        self.max_sessions = max_sessions
        self.states: OrderedDict[str, HandRolledDreamZeroState] = OrderedDict()

    def get(self, session_id: str | None) -> HandRolledDreamZeroState:
        key = session_id or "default"
        if key not in self.states:
            self.states[key] = HandRolledDreamZeroState(session_id)
        self.states.move_to_end(key)
        while len(self.states) > self.max_sessions:
            self.states.popitem(last=False)
        return self.states[key]

    def drop(self, session_id: str | None) -> bool:
        return self.states.pop(session_id or "default", None) is not None


def append_encoder_chunk(state: HandRolledDreamZeroState, chunk: torch.Tensor) -> None:
    """What the pipeline does with new encoder output: the history grows for ever."""
    if state.vae_encoder_out is None:
        state.vae_encoder_out = chunk
    else:
        state.vae_encoder_out = torch.cat([state.vae_encoder_out, chunk], dim=2)


def newest_latent_frames(history: torch.Tensor | None, count: int) -> torch.Tensor | None:
    """What the pipeline reads of the history: the newest `count` latent frames.

    Where there are fewer yet, copies of the last one stand in front.
    """
    if history is None or history.shape[2] == 0:
        return None
    newest = history[:, :, -count:]
    while newest.shape[2] < count:
        newest = torch.cat([history[:, :, -1:], newest], dim=2)
    return newest
