"""The Wan VAE's streaming decoder: causal-convolution tails that join chunk to chunk.

The real architecture with random weights and few channels. State: what `StreamingDecodeState` of
LingBot World 2.0 keeps by hand, under the names of its schema.

    W1  The decoder replaces entries of the list of tails and writes into no tensor of it. Until the
        second latent frame, two entries are the text "Rep", a sentinel of the decoder's.
"""

from __future__ import annotations

from typing import Any

import torch

from tests.equivalence.wan_stream import build_vae

__all__ = ["HandRolledDecoderState", "WanDecoder"]


class HandRolledDecoderState:
    """What one session keeps of its video, by hand."""

    def __init__(self) -> None:
        self.reset_session()

    def reset_session(self) -> None:
        self.decoder_cache: list[torch.Tensor | str | None] | None = None
        self.conv_idx: list[int] = []
        self.frames_decoded = 0
        self.chunks_decoded = 0


class WanDecoder:
    """Decodes latents (1, 16, frames, h, w) of any number of sessions through one decoder."""

    def __init__(self, base_dim: int = 8) -> None:
        self.vae = build_vae(base_dim=base_dim, seed=1)
        self._entries = int(self.vae._cached_conv_counts["decoder"])

    @torch.inference_mode()
    def forward(self, state: Any, latents: torch.Tensor) -> torch.Tensor:
        """The next frames of the video, (1, 3, frames * 4, 8 h, 8 w); 3 fewer at its start."""
        tails = state.decoder_cache
        if tails is None:
            tails = [None] * self._entries
            state.decoder_cache = tails
        latents = self.vae.post_quant_conv(latents)
        out = []
        for frame in latents.split(1, dim=2):
            index = [0]
            first = state.frames_decoded == 0
            out.append(self.vae.decoder(frame, tails, index, first_chunk=first))
            state.conv_idx = index
            state.frames_decoded += 1
        state.decoder_cache = tails
        state.chunks_decoded += 1
        return torch.cat(out, dim=2).clamp(-1, 1)
