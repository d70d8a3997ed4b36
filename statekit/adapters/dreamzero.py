"""DreamZero's adapter: the generated class, and what no schema can say.

Owns DreamZero's rules: how frames become a chunk, how latents are laid out, when a rollout starts
anew. Where each value lives, and what a reset clears, is `schemas/dreamzero.yaml`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from statekit.adapters.generated.dreamzero import DreamZeroState
from statekit.errors import ParameterError, PayloadError

__all__ = ["DreamZeroStateAdapter"]


class DreamZeroStateAdapter(DreamZeroState):
    """Session state of DreamZero, with the interface of the class that it replaces."""

    __slots__ = ()

    def accumulate_frames(self, stitched: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Append one frame (H, W, C) or several (T, H, W, C); return the chunk to encode.

        The chunk is a new array (T, H, W, C) of the newest frames, padded in front with copies of
        the oldest one: T is 1 on the first call after a reset, FRAMES_PER_CHUNK later.

        Raises:
            PayloadError: `stitched` has another rank, or there is no frame at all; nothing changes.
        """
        if stitched.ndim not in (3, 4):
            raise _wrong_rank("accumulate_frames", stitched, "(H, W, C) or (T, H, W, C)")
        buffer = self.stitched_buffer_object
        newest = stitched[-self.FRAMES_PER_CHUNK :]
        buffer.extend([stitched] if stitched.ndim == 3 else newest)
        count = self.FRAMES_PER_CHUNK if self.call_count else 1
        frames = buffer.view()[-count:]
        if not frames:
            raise PayloadError("accumulate_frames", "no frame, now or before", "pass at least one")
        chunk = np.stack([frames[0]] * (count - len(frames)) + frames)
        self.call_count += 1
        return chunk

    def append_video_latents(self, video_out: torch.Tensor) -> None:
        """Keep a block of latents (B, T, C, H, W) as (B, C, T, H, W), detached, in host memory.

        Raises:
            PayloadError: `video_out` has another rank; nothing changes.
        """
        if video_out.ndim != 5:
            raise _wrong_rank("append_video_latents", video_out, "(B, T, C, H, W)")
        self.video_latents_across_time_object.append(video_out.transpose(1, 2))

    def get_concatenated_video_latents(self) -> torch.Tensor | None:
        """All blocks along the time dimension: None, the only block itself, or a new tensor."""
        return self.video_latents_across_time_object.joined(2)

    def clear_video_latents(self) -> None:
        """Drop all blocks of latents."""
        self.reset_video_latents()

    def append_vae_encoder_chunk(self, chunk: torch.Tensor) -> None:
        """Append encoder output (1, 32, T, h, w); the newest `vae_encoder_window` frames stay.

        Raises:
            PayloadError: `chunk` does not continue what is kept; nothing changes.
        """
        self.vae_encoder_out_object.append(chunk)

    def newest_vae_encoder_frames(self, count: int) -> torch.Tensor | None:
        """The newest `count` latent frames, or None before there are any.

        Where fewer are kept yet, copies of the last one stand in front.

        Raises:
            ParameterError: `count` is below 1, or more than `vae_encoder_window` ever keeps.
        """
        window = self.vae_encoder_window
        if not 1 <= count <= window:
            todo = f"read 1 to vae_encoder_window={window} frames, or build with a larger window"
            raise ParameterError("count", count, todo)
        kept = self.vae_encoder_out
        if kept is None or not kept.shape[2]:
            return None
        newest = kept[:, :, -count:]
        missing = count - newest.shape[2]
        return torch.cat([newest[:, :, -1:]] * missing + [newest], dim=2) if missing else newest

    def reset(self, *, clear_video_latents: bool = True) -> None:
        """Clear all; or with False what a new attention window clears (`reset_window`)."""
        if clear_video_latents:
            self.reset_session()
        else:
            self.reset_window()

    def reset_inference_state(self) -> None:
        """Clear what a new attention window clears; the rollout goes on."""
        self.reset_window()

    def reset_reason(
        self, text_tokens: torch.Tensor | None, num_video_frames: int, local_attn_size: int
    ) -> Literal["session", "inference"] | None:
        """Which reset is due before this forward, if any.

        Args:
            text_tokens: tokens of the request; None: not given.
            num_video_frames: frames in the request; 1 means that the client starts over.
            local_attn_size: latent frames of the attention window; -1: without bound.
        """
        if (
            self.language is None
            or (text_tokens is not None and not torch.equal(self.language, text_tokens))
            or (num_video_frames == 1 and self.call_count > 1)
        ):
            return "session"
        if local_attn_size != -1 and self.current_start_frame >= local_attn_size:
            return "inference"
        return None

    def should_reset(
        self, text_tokens: torch.Tensor | None, num_video_frames: int, local_attn_size: int
    ) -> bool:
        """Whether there is a `reset_reason`."""
        return self.reset_reason(text_tokens, num_video_frames, local_attn_size) is not None


def _wrong_rank(method: str, found: Any, wanted: str) -> PayloadError:
    return PayloadError(method, f"got shape {tuple(found.shape)}", f"pass {wanted}")
