"""DreamZero at its full size, to be measured: the frames and all shapes are real, models are not.

Run as `python -m tests.measure.dreamzero_run [--steps N]`. The pipeline is that of the demo, on the
generated side; the encoder is a stand-in whose feature map has the size of the true one and is
never written into, so that 603 MiB of it take no memory.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.demo.camera import stitched_frames
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline
from tests.equivalence.wan_stream import WanStream

__all__ = ["FullSizePipeline", "rollout"]

HEIGHT, WIDTH = 352, 640
ENTRIES, TENSORS = 26, 24


class StandInVae:
    """Gives tensors of the shapes that the Wan encoder gives, at 96 channels."""

    def __init__(self) -> None:
        self._cached_conv_counts = {"encoder": ENTRIES}

    def encoder(
        self, frames: torch.Tensor, *, feat_cache: list[torch.Tensor | None], feat_idx: list[int]
    ) -> torch.Tensor:
        """Latents (1, 32, 1, H/8, W/8); replaces the entries of `feat_cache`."""
        pixels = frames.shape[3] * frames.shape[4]
        elements = (711 if feat_cache[0] is None else 1404) * pixels // TENSORS
        for entry in range(TENSORS):
            feat_cache[entry] = torch.empty(elements, dtype=torch.bfloat16)
        small = functional.avg_pool2d(frames[:, :, -1].float(), 8).bfloat16()
        return small.mean(1, keepdim=True).repeat(1, 32, 1, 1)[:, :, None]

    def quant_conv(self, latents: torch.Tensor) -> torch.Tensor:
        """The latents themselves."""
        return latents


class FullSizePipeline(DreamZeroPipeline):
    """The demo's pipeline, with text and image features as large as the true ones."""

    def __init__(self) -> None:
        super().__init__(WanStream(StandInVae()), local_attn_size=24, num_frame_per_block=2)
        generator = torch.Generator().manual_seed(3)
        self._text = torch.randn(512, 4096, generator=generator).bfloat16()

    def _encode_image(self, frame: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        clip_feas, ys = super()._encode_image(frame)
        return clip_feas.mean().expand(1, 257, 1280).clone(), ys.repeat(1, 1, 9, 1, 1)

    def _denoise_block(self, state: Any, latents: torch.Tensor) -> torch.Tensor:
        out = torch.einsum("bcthw,cd->btdhw", latents, self._denoise)
        return torch.tanh(out + state.clip_feas.mean() + state.ys[:, :16, :1].transpose(1, 2))


def rollout(manager: SessionStateManager, *, steps: int = 10, session_id: str = "robot") -> None:
    """So many forwards of one session, and its end."""
    pipeline = FullSizePipeline()
    frames = stitched_frames(HEIGHT // 2, WIDTH // 2)  # no picture is as wide as the full size
    tokens = torch.arange(512)[None]
    for step in range(steps):
        small = np.stack(list(itertools.islice(frames, 4 if step else 1)))
        stitched = small.repeat(2, axis=1).repeat(2, axis=2)
        state = DreamZeroStateAdapter(session_id, manager, vae_encoder_window=2)
        pipeline.forward(state, stitched, tokens)
    manager.drop_session(session_id)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    torch.set_num_threads(1)
    rollout(SessionStateManager(), steps=parser.parse_args().steps)
