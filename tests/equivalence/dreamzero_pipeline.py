"""A small DreamZero pipeline: the real encoder, tiny stand-ins for the rest, the true order of use.

Owns the steps of one forward, as a server takes them on the state of one session. The state is
whatever the caller hands in: hand-rolled or adapter, the pipeline cannot tell.

The stand-ins (text encoder, image encoder, denoiser) are random and cheap, and each output depends
on all that the state holds, so a state that gives back one wrong bit changes the video.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import torch
from torch.nn import functional

from tests.equivalence.wan_stream import WanStream

__all__ = ["DreamZeroPipeline", "Forward"]

LATENT_CHANNELS = 16
TEXT_CHANNELS = 64


@attrs.frozen
class Forward:
    """What one forward gave.

    Attributes:
        reset: the reset that came first, "session" or "inference", or None.
        latents: what the encoder's stream gave to the denoiser.
        video: the new latent block (B, T, C, H, W).
    """

    reset: str | None
    latents: torch.Tensor
    video: torch.Tensor


class DreamZeroPipeline:
    """Models and settings that all sessions share.

    Attributes:
        model_s: seconds spent in models since construction; the rest of a forward is state work.
    """

    def __init__(
        self, stream: WanStream, *, local_attn_size: int = -1, num_frame_per_block: int = 2
    ) -> None:
        self.stream = stream
        self.local_attn_size = local_attn_size
        self.num_frame_per_block = num_frame_per_block
        self.model_s = 0.0
        generator = torch.Generator().manual_seed(7)
        self._text = torch.randn(256, TEXT_CHANNELS, generator=generator).bfloat16()
        self._image = torch.randn(3, 20, generator=generator).bfloat16()
        self._denoise = torch.randn(32, LATENT_CHANNELS, generator=generator).bfloat16()
        stream.on_encoder = self._model_work

    @torch.inference_mode()
    def forward(self, state: Any, stitched: np.ndarray, text_tokens: torch.Tensor) -> Forward:
        """Advance one session by one block.

        Args:
            state: the session's state.
            stitched: new camera frames, (H, W, 3) or (T, H, W, 3), uint8.
            text_tokens: the prompt, (1, TOKENS) int64.
        """
        frames = 1 if stitched.ndim == 3 else stitched.shape[0]
        reason: str | None = state.reset_reason(text_tokens, frames, self.local_attn_size)
        if reason == "session":
            state.reset()
        elif reason == "inference":
            state.reset_inference_state()
        state.language = text_tokens

        chunk = state.accumulate_frames(stitched)
        if state.prompt_embeds is None:
            with self._model_work():
                state.prompt_embeds = self._text[text_tokens]
        with self._model_work():
            video = torch.from_numpy(chunk).movedim(3, 0)[None].bfloat16() / 127.5 - 1
            newest = video[:, :, -1:].clone()

        if state.current_start_frame == 0:
            with self._model_work():
                clip_feas, ys = self._encode_image(newest)
            if state.vae_stream_initialized:
                self.stream.append(state, newest)
            else:
                self.stream.seed(state, newest)
            state.clip_feas, state.ys = clip_feas, ys
        else:
            self.stream.append(state, newest)
        latents = self.stream.latents(state, self.num_frame_per_block)

        with self._model_work():
            out = self._denoise_block(state, latents)
        state.current_start_frame += self.num_frame_per_block
        state.append_video_latents(out)
        return Forward(reason, latents, out)

    def _encode_image(self, frame: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Features (1, 1, 20) and conditioning (1, 20, 1, H/8, W/8) of one frame."""
        small = functional.avg_pool2d(frame[:, :, 0], 8)
        ys = torch.einsum("bchw,cd->bdhw", small, self._image)[:, :, None]
        return ys.mean((2, 3, 4))[:, None], ys

    def _denoise_block(self, state: Any, latents: torch.Tensor) -> torch.Tensor:
        """A block (B, T, C, H, W) that depends on the latents and on each conditioning value."""
        out = torch.einsum("bcthw,cd->btdhw", latents, self._denoise)
        out = out + state.ys[:, :LATENT_CHANNELS].transpose(1, 2)
        out = out * (1 + state.prompt_embeds.mean()) + state.clip_feas.mean()
        return torch.tanh(out + 0.01 * state.current_start_frame + 0.1 * state.call_count)

    @contextlib.contextmanager
    def _model_work(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.model_s += time.perf_counter() - start
