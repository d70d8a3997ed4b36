"""A causal transformer over frames with sink-and-window keys and values, as Self-Forcing runs it.

Written for the tests: few heads, random weights. A chunk of frames is denoised in several passes;
each pass writes the chunk's keys and values over those of the pass before, and a last pass over the
clean chunk leaves what later chunks attend to.

    T1  By hand the keys and values lie in buffers of fixed size with two cursors: what is older
        than the window is shifted out behind the sink, in place.
    T2  The clean chunks and the prompt are enough to write all of it again, bit for bit.
    T3  Text keys and values are encoded once, from the prompt.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

__all__ = ["HandRolledWindowState", "WindowTransformer"]

LAYERS, HEADS, DIM, TOKENS, TEXT = 2, 2, 8, 4, 5
HIDDEN = HEADS * DIM
SINK, WINDOW = 1 * TOKENS, 5 * TOKENS  # the window counts the sink
PASSES = (0.9, 0.4)

Pair = tuple[torch.Tensor, torch.Tensor]


class HandRolledWindowState:
    """What one session keeps, by hand: buffers, cursors, and the text's keys and values."""

    def __init__(self) -> None:
        self.reset_session()

    def reset_session(self) -> None:
        self.start_frame = 0
        self._buffers: list[Pair] | None = None
        self._global_end = [0] * LAYERS
        self._local_end = [0] * LAYERS
        self._text: list[Pair] | None = None
        self._clean: list[torch.Tensor] = []

    def text_pairs(self) -> list[Pair] | None:
        return self._text

    def keep_text(self, pairs: list[Pair]) -> None:
        self._text = pairs

    def write(self, layer: int, pair: Pair, start: int) -> None:
        """Write the keys and values of the tokens from `start` on, over those of a pass before."""
        if self._buffers is None:
            empty = pair[0].new_zeros(1, WINDOW, HEADS, DIM)
            self._buffers = [(empty.clone(), empty.clone()) for _ in range(LAYERS)]
        count, end = pair[0].shape[1], start + pair[0].shape[1]
        local, reached = self._local_end[layer], self._global_end[layer]
        new = end - reached
        if new > 0 and local + new > WINDOW:
            gone = local + new - WINDOW
            for buffer in self._buffers[layer]:
                buffer[:, SINK : local - gone] = buffer[:, SINK + gone : local].clone()
            local -= gone
        local += new
        for buffer, part in zip(self._buffers[layer], pair, strict=True):
            buffer[:, local - count : local] = part
        self._local_end[layer], self._global_end[layer] = local, end

    def seen_by(self, layer: int) -> Pair:
        """The keys and values that a token of the newest chunk attends to."""
        assert self._buffers is not None
        k, v = self._buffers[layer]
        return k[:, : self._local_end[layer]], v[:, : self._local_end[layer]]

    def lost_chunks(self) -> list[tuple[int, torch.Tensor]]:
        """Nothing is ever lost."""
        return []

    def finish(self, clean: torch.Tensor) -> None:
        """The chunk is done: what was written last stays."""
        self._clean.append(clean)
        self.start_frame += clean.shape[1]

    @property
    def clean_latents(self) -> torch.Tensor | None:
        return torch.cat(self._clean, dim=1) if self._clean else None


class WindowTransformer:
    """Denoises chunks (1, frames, TOKENS, hidden) of any number of sessions."""

    def __init__(self, seed: int = 0) -> None:
        make = torch.Generator().manual_seed(seed)

        def weight(*shape: int) -> torch.Tensor:
            return (torch.randn(*shape, generator=make) / shape[-1] ** 0.5).bfloat16()

        self.qkv = [weight(3 * HIDDEN, HIDDEN) for _ in range(LAYERS)]
        self.out = [weight(HIDDEN, HIDDEN) for _ in range(LAYERS)]
        self.text = [weight(2 * HIDDEN, HIDDEN) for _ in range(LAYERS)]

    @torch.inference_mode()
    def forward(self, state: Any, noise: torch.Tensor) -> torch.Tensor:
        """The clean chunk; the session's keys and values then reach to its end."""
        if state.text_pairs() is None:
            prompt = torch.linspace(-1, 1, TEXT * HIDDEN).bfloat16().view(1, TEXT, HIDDEN)
            pairs = [(prompt @ one.T).unflatten(-1, (2, HEADS, DIM)) for one in self.text]
            state.keep_text([(one[:, :, 0].clone(), one[:, :, 1].clone()) for one in pairs])
        for start, chunk in state.lost_chunks():
            self._predict(state, chunk, start)
        start = state.start_frame * TOKENS
        x = noise
        for level in PASSES:
            x = x - level * self._predict(state, x, start)
        self._predict(state, x, start)
        state.finish(x)
        return x

    def _predict(self, state: Any, x: torch.Tensor, start: int) -> torch.Tensor:
        frames = x.shape[1]
        hidden = x.flatten(1, 2)
        for layer in range(LAYERS):
            q, k, v = (hidden @ self.qkv[layer].T).unflatten(-1, (3, HEADS, DIM)).unbind(2)
            k = k + torch.arange(start, start + k.shape[1]).bfloat16()[None, :, None, None] / 64
            state.write(layer, (k.contiguous(), v.contiguous()), start)
            text_k, text_v = state.text_pairs()[layer]
            attended = _attend(q, *state.seen_by(layer)) + _attend(q, text_k, text_v)
            hidden = hidden + attended.flatten(2) @ self.out[layer].T
        return hidden.unflatten(1, (frames, TOKENS))


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    heads = (one.transpose(1, 2) for one in (q, k, v))
    return functional.scaled_dot_product_attention(*heads).transpose(1, 2)
