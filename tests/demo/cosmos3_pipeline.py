"""A tiny stand-in for Cosmos3: a reasoner that encodes text once, a generator that rereads it.

Random weights, the true hand-over: text K/V and rotary frequencies go through two fields of one
shared transformer, and K and V are slices of tensors that were padded to the longest prompt.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.nn import functional

__all__ = ["Cosmos3Pipeline", "TinyCosmos3Transformer"]

HEADS, HEAD = 4, 32
CHANNELS = HEADS * HEAD


class TinyCosmos3Transformer:
    """Attends from media tokens to the text of one branch.

    Attributes:
        cached_kv: (K, V) of every layer, each (1, S, HEADS, HEAD) bfloat16, or None.
        cached_freqs_gen: (cos, sin) of the media positions, each (1, M, 1, HEAD), or None.
    """

    def __init__(self, *, layers: int, padded_tokens: int) -> None:
        self.cached_kv: list[tuple[torch.Tensor, torch.Tensor]] | None = None
        self.cached_freqs_gen: tuple[torch.Tensor, torch.Tensor] | None = None
        self.padded_tokens = padded_tokens
        generator = torch.Generator().manual_seed(11)

        def matrix() -> torch.Tensor:
            weight: torch.Tensor = torch.randn(CHANNELS, CHANNELS, generator=generator)
            return weight.div(CHANNELS**0.5)

        self._embed = torch.randn(256, CHANNELS, generator=generator)
        self._text_layers = [(matrix(), matrix(), matrix()) for _ in range(layers)]
        self._media_layers = [(matrix(), matrix()) for _ in range(layers)]

    def __call__(self, media: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The prediction for media tokens (1, M, CHANNELS); encodes the text where need be."""
        if self.cached_kv is None or self.cached_freqs_gen is None:
            self._encode_text(tokens, media.shape[1])
        assert self.cached_kv is not None
        assert self.cached_freqs_gen is not None
        cos, sin = (half.float() for half in self.cached_freqs_gen)
        for (query, out), (k, v) in zip(self._media_layers, self.cached_kv, strict=True):
            q = (media @ query).reshape(1, -1, HEADS, HEAD)
            q = q * cos + q.roll(HEAD // 2, dims=-1) * sin
            attended = functional.scaled_dot_product_attention(
                q.transpose(1, 2), k.float().transpose(1, 2), v.float().transpose(1, 2)
            )
            media = media + torch.tanh(attended.transpose(1, 2).flatten(2) @ out)
        return media

    def _encode_text(self, tokens: torch.Tensor, media_tokens: int) -> None:
        real_len = tokens.shape[1]
        padded = functional.pad(tokens, (0, self.padded_tokens - real_len))
        hidden = self._embed[padded]
        cached_kv = []
        for mix, key, value in self._text_layers:
            hidden = hidden + torch.tanh(hidden @ mix)
            k, v = (
                (hidden @ weight).reshape(1, -1, HEADS, HEAD).bfloat16() for weight in (key, value)
            )
            cached_kv.append((k[:, :real_len], v[:, :real_len]))
        positions = torch.arange(real_len, real_len + media_tokens)[:, None]
        angles = positions / 10000 ** (torch.arange(HEAD) / HEAD)
        self.cached_freqs_gen = (
            angles.cos().bfloat16()[None, :, None],
            angles.sin().bfloat16()[None, :, None],
        )
        self.cached_kv = cached_kv


class Cosmos3Pipeline:
    """Denoise steps with classifier-free guidance over one shared transformer.

    Attributes:
        model_s: seconds spent in the transformer since construction.
    """

    def __init__(self, transformer: TinyCosmos3Transformer, *, guidance: float = 4.0) -> None:
        self.transformer = transformer
        self.guidance = guidance
        self.model_s = 0.0

    @torch.inference_mode()
    def step(
        self, state: Any, media: torch.Tensor, tokens: torch.Tensor, negative_tokens: torch.Tensor
    ) -> torch.Tensor:
        """The media tokens after one more denoise step."""
        predictions = []
        for is_negative, text in ((False, tokens), (True, negative_tokens)):
            # Load, forward and capture of one branch belong together: nothing may come between.
            state.load_into_transformer(self.transformer, is_negative)
            start = time.perf_counter()
            predictions.append(self.transformer(media, text))
            self.model_s += time.perf_counter() - start
            state.capture_from_transformer(self.transformer, is_negative)
        start = time.perf_counter()
        conditional, unconditional = predictions
        guided = unconditional + self.guidance * (conditional - unconditional)
        media = media - 0.02 * guided
        self.model_s += time.perf_counter() - start
        return media
