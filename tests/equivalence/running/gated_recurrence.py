"""A gated linear recurrence behind a short causal convolution, as SANA-WM's blocks have it.

Written for the tests: few heads, random weights, both branches of guidance. State of a layer: the
sums `state_kv` and `state_z` of everything so far, and the newest inputs of the convolution.

    G1  All of it is overwritten in place by each chunk, as the model's kernels do.
    G2  A chunk of n frames has the same bits whatever other sessions do in between.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.nn import functional

__all__ = ["BRANCHES", "GatedRecurrence", "HandRolledRecurrentState"]

BRANCHES = ("positive", "negative")
LAYERS, HEADS, DIM, KERNEL = 3, 2, 8, 4
HIDDEN = HEADS * DIM


class HandRolledRecurrentState:
    """What one session keeps, by hand: buffers that are made once and written over."""

    def __init__(self) -> None:
        self.reset_session()

    def reset_session(self) -> None:
        self.chunk_index = 0
        self._gdn: dict[tuple[str, int], dict[str, torch.Tensor]] = {}
        self._conv: dict[tuple[str, int], torch.Tensor] = {}

    def gdn_state(self, branch: str, layer: int) -> dict[str, torch.Tensor] | None:
        return self._gdn.get((branch, layer))

    def conv_tail(self, branch: str, layer: int) -> torch.Tensor | None:
        return self._conv.get((branch, layer))

    def store(
        self, branch: str, layer: int, state: dict[str, torch.Tensor], tail: torch.Tensor
    ) -> None:
        key = (branch, layer)
        if key not in self._gdn:
            self._gdn[key] = {name: torch.empty_like(part) for name, part in state.items()}
            self._conv[key] = torch.empty_like(tail, memory_format=torch.contiguous_format)
        for name, part in state.items():
            self._gdn[key][name].copy_(part)
        self._conv[key].copy_(tail)


class GatedRecurrence:
    """Layers of a recurrence; a chunk of inputs (1, frames, tokens, hidden) gives as many outputs.

    The recurrence runs over frames; the tokens of a frame are summed into one state per head.
    """

    def __init__(self, seed: int = 0) -> None:
        make = torch.Generator().manual_seed(seed)

        def weight(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=make) / shape[-1] ** 0.5

        self.conv = [weight(HIDDEN, KERNEL) for _ in range(LAYERS)]
        self.qkv = [weight(3 * HIDDEN, HIDDEN) for _ in range(LAYERS)]
        self.gate = [weight(HEADS, HIDDEN) for _ in range(LAYERS)]

    @torch.inference_mode()
    def forward(self, state: Any, chunk: torch.Tensor) -> torch.Tensor:
        """Both branches through all layers, combined with guidance of 2."""
        outs = {}
        for branch in BRANCHES:
            x = chunk if branch == "positive" else -chunk
            for layer in range(LAYERS):
                x = x + self._layer(state, branch, layer, x)
            outs[branch] = x
        state.chunk_index += 1
        return outs["negative"] + 2 * (outs["positive"] - outs["negative"])

    def _layer(self, state: Any, branch: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        frames, tokens = x.shape[1:3]
        tail = state.conv_tail(branch, layer)
        if tail is None:
            tail = x.new_zeros(1, KERNEL - 1, tokens, HIDDEN, dtype=torch.bfloat16)
        history = torch.cat([tail, x.bfloat16()], dim=1)
        taps = self.conv[layer].T.bfloat16()
        mixed = cast(
            torch.Tensor,
            sum(history[:, tap : tap + frames] * taps[tap] for tap in range(KERNEL)),
        ).float()
        q, k, v = (mixed @ self.qkv[layer].T).unflatten(-1, (3, HEADS, DIM)).unbind(3)
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        gate = torch.sigmoid(mixed.mean(2) @ self.gate[layer].T)  # (1, frames, heads)

        before = state.gdn_state(branch, layer)
        if before is None:
            kv, z = x.new_zeros(1, HEADS, DIM, DIM), x.new_zeros(1, HEADS, DIM, 1)
        else:
            kv, z = before["state_kv"].clone(), before["state_z"].clone()
        out = []
        for frame in range(frames):
            g = gate[:, frame, :, None, None]
            kv = g * kv + torch.einsum("bthd,bthe->bhde", k[:, frame], v[:, frame])
            z = g * z + k[:, frame].sum(1)[..., None]
            above = torch.einsum("bthd,bhde->bthe", q[:, frame], kv)
            below = torch.einsum("bthd,bhdo->btho", q[:, frame], z)
            out.append((above / below).flatten(2))
        state.store(branch, layer, {"state_kv": kv, "state_z": z}, history[:, -(KERNEL - 1) :])
        return torch.stack(out, dim=1)
