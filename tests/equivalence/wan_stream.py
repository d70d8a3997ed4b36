"""The Wan encoder as a stream whose only memory is a session's state.

Owns the encoder (random weights, so nothing is downloaded), the steps of a stream in the order in
which DreamZero's pipeline takes them, and the closed formula for the bytes of the feature map.
Not here: what the state is; the hand-rolled class and the adapter are used through the same names.

    E1  A body chunk always has `FRAMES_PER_CHUNK` frames: a shorter one corrupts the feature map.
    E2  The encoder replaces entries of the feature map and never writes into a tensor of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from diffusers import AutoencoderKLWan

from tests.equivalence.hand_rolled_dreamzero import append_encoder_chunk, newest_latent_frames

__all__ = ["FRAMES_PER_CHUNK", "EncoderState", "WanStream", "build_vae", "feature_map_elements"]

FRAMES_PER_CHUNK = 4
"""Raw frames that the encoder turns into one latent frame, the seed frame aside."""


class EncoderState(Protocol):
    """What a stream keeps between two calls: the four VAE values of a DreamZero session."""

    vae_stream_initialized: bool
    vae_enc_feat_map: list[torch.Tensor | None] | None
    vae_pending_body_frames: torch.Tensor | None
    vae_encoder_out: torch.Tensor | None

    def reset_vae_encoder_stream(self) -> None: ...


class WanStream:
    """Feeds frames (1, 3, 1, H, W) of any number of sessions through one encoder.

    Attributes:
        on_encoder: makes the context in which the encoder's modules run; for measuring them.
    """

    on_encoder: Callable[[], AbstractContextManager[None]] = staticmethod(nullcontext)

    def __init__(self, vae: Any) -> None:
        self.vae = vae
        # What the VAE itself allocates: one entry for each causal convolution of the encoder. The
        # two that only adapt channels (1x1x1) need no history, so the last two stay None.
        self._entries = int(vae._cached_conv_counts["encoder"])

    @torch.inference_mode()
    def seed(self, state: EncoderState, frame: torch.Tensor) -> None:
        """Start a new stream with its first frame."""
        state.reset_vae_encoder_stream()
        feat_map: list[torch.Tensor | None] = [None] * self._entries
        out = self._encode(frame, feat_map)
        state.vae_enc_feat_map = feat_map
        state.vae_encoder_out = out
        state.vae_pending_body_frames = None
        state.vae_stream_initialized = True

    @torch.inference_mode()
    def append(self, state: EncoderState, frame: torch.Tensor) -> bool:
        """Take one more frame; encode when a chunk is complete. Returns whether it was."""
        pending = state.vae_pending_body_frames
        pending = frame if pending is None else torch.cat([pending, frame], dim=2)
        if pending.shape[2] < FRAMES_PER_CHUNK:
            state.vae_pending_body_frames = pending
            return False
        feat_map = state.vae_enc_feat_map
        if feat_map is None:
            raise ValueError("the encoder stream has no frame yet; seed it first")
        out = self._encode(pending, feat_map)
        _append(state, out)
        state.vae_enc_feat_map = feat_map
        state.vae_pending_body_frames = None
        return True

    @torch.inference_mode()
    def latents(self, state: EncoderState, count: int) -> torch.Tensor:
        """The newest `count` latent frames after quantisation, (1, 32, count, H/8, W/8).

        Raises:
            ValueError: the state keeps fewer than `count`, or the stream is not seeded.
        """
        newest = _newest(state, count)
        if newest is None:
            raise ValueError("the encoder stream has no frame yet; seed it first")
        with self.on_encoder():
            latents: torch.Tensor = self.vae.quant_conv(newest)
        return latents

    def _encode(self, frames: torch.Tensor, feat_map: list[torch.Tensor | None]) -> torch.Tensor:
        with self.on_encoder():
            out: torch.Tensor = self.vae.encoder(frames, feat_cache=feat_map, feat_idx=[0])
        return out


def _append(state: Any, out: torch.Tensor) -> None:
    """An adapter accumulates by itself; for a hand-rolled state the pipeline does."""
    if hasattr(state, "append_vae_encoder_chunk"):
        state.append_vae_encoder_chunk(out)
    else:
        append_encoder_chunk(state, out)


def _newest(state: Any, count: int) -> torch.Tensor | None:
    if hasattr(state, "newest_vae_encoder_frames"):
        newest: torch.Tensor | None = state.newest_vae_encoder_frames(count)
        return newest
    return newest_latent_frames(state.vae_encoder_out, count)


def build_vae(*, base_dim: int, seed: int = 0) -> Any:
    """The VAE of Wan 2.1 in bfloat16, with `base_dim` channels and random weights from `seed`.

    Production has 96 channels. Many CPUs have no bfloat16 convolution worth the name (50 times
    slower), so convolutions take bfloat16, compute in float32 and give bfloat16, which is what an
    accelerator does too. All that is kept between calls is bfloat16.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        vae: Any = AutoencoderKLWan(base_dim=base_dim)  # type: ignore[no-untyped-call]
    vae.eval().requires_grad_(False)
    for module in vae.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Conv3d)):
            module.register_forward_pre_hook(_to_float32)
            module.register_forward_hook(_to_bfloat16)
        else:
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.bfloat16()
    return vae


def _to_float32(module: torch.nn.Module, args: tuple[torch.Tensor | None, ...]) -> tuple[Any, ...]:
    return tuple(arg if arg is None else arg.float() for arg in args)


def _to_bfloat16(module: torch.nn.Module, args: Any, out: torch.Tensor) -> torch.Tensor:
    return out.bfloat16()


def feature_map_elements(*, base_dim: int, height: int, width: int, first: bool = False) -> int:
    """Elements of the feature map after the seed frame (`first`), or from the first chunk on.

    Each causal convolution of 3 frames caches the last 2 frames of its *input*. With b = base_dim,
    channels per pixel of the input picture, resolution halving per level in both directions:

        conv_in     1/1    3
        level 0     1/1    b, b, b, b                       4 b
        level 1     1/4    b, 2b, 2b, 2b                    7 b / 4
        level 2     1/16   2b, 4b, 4b, 4b                  14 b / 16
        level 3     1/64   4b, 4b, 4b, 4b                  16 b / 64
        middle      1/64   4b, 4b, 4b, 4b                  16 b / 64
        conv_out    1/64   4b                               4 b / 64
                                                  sum  3 + 115 b / 16

    The two strided convolutions in time, after level 1 (2b at 1/16) and level 2 (4b at 1/64),
    cache 1 frame: 3 b / 16. After the seed there is only one frame to cache everywhere:

        first   (3 + 115 b / 16)     + 3 b / 16  =  3 +  59 b / 8      711 H W at b = 96
        then    (3 + 115 b / 16) * 2 + 3 b / 16  =  6 + 233 b / 16    1404 H W at b = 96

    H and W are multiples of 8, so all quotients times H W are whole numbers.
    """
    frames = 1 if first else 2
    sixteenths = frames * (3 * 16 + 115 * base_dim) + 3 * base_dim
    return sixteenths * height * width // 16
