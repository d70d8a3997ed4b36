"""Sessions to go back in, and a picture of one that is compared with what comes later.

Owns `everything_of`: all that a reader, a writer or the manager could see of a session, copied.
"""

from __future__ import annotations

import copy
from typing import Any

import attrs
import numpy as np
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from statekit.objects.parkable import ParkableObject
from statekit.session import SessionState
from tests.equivalence.bits import assert_same_bits

__all__ = ["Seen", "assert_same_session", "dreamzero", "everything_of", "frame", "latents"]


@attrs.frozen(eq=False)
class Seen:
    """A session at one moment."""

    attrs: dict[str, Any]
    identities: dict[str, int]
    objects: dict[str, Any]
    places: dict[str, int]
    parameters: dict[str, Any]


def everything_of(session: SessionState) -> Seen:
    """Copies of all values, and which objects hold them."""
    return Seen(
        copy.deepcopy(session.attrs),
        {name: id(value) for name, value in session.attrs.items() if _has_identity(value)},
        {name: _fields(obj) for name, obj in session.objects.items()},
        {name: id(obj) for name, obj in session.objects.items()},
        copy.deepcopy(session.parameters),
    )


def assert_same_session(session: SessionState, before: Seen) -> None:
    """Fail where the session is not what it was, values and their holders."""
    now = everything_of(session)
    for name in ("attrs", "objects", "parameters"):
        assert_same_bits(getattr(now, name), getattr(before, name), name, strides=True)
    assert now.identities == before.identities
    assert now.places == before.places


def _has_identity(value: Any) -> bool:
    return isinstance(value, (list, dict, set, torch.Tensor, np.ndarray))


def _fields(obj: Any) -> dict[str, Any]:
    """All fields of an object, copied, but for the mark that tells that it was written."""
    assert isinstance(obj, ParkableObject)
    unseen = ("written", "_on_commit", "__orig_class__")  # marks, and a setting
    fields = {name: value for name, value in vars(obj).items() if name not in unseen}
    return copy.deepcopy(fields)


def frame(value: int, size: int = 8) -> np.ndarray[Any, Any]:
    """One stitched frame."""
    return np.full((size, size, 3), value, np.uint8)


def latents(value: float) -> torch.Tensor:
    """One latent block (B, T, C, H, W)."""
    return torch.full((1, 2, 16, 1, 1), value)


def dreamzero(manager: SessionStateManager | None = None, name: str = "s") -> DreamZeroStateAdapter:
    """A DreamZero session in the middle of its rollout, with something in every value."""
    state = DreamZeroStateAdapter(name, manager or SessionStateManager())
    state.accumulate_frames(frame(1))
    state.accumulate_frames(frame(2))
    state.current_start_frame = 2
    state.clip_feas, state.ys = torch.ones(1, 2, 4), torch.ones(1, 20, 1, 1, 1)
    state.language, state.prompt_embeds = torch.arange(4)[None], torch.ones(1, 4, 2)
    state.vae_stream_initialized = True
    state.vae_enc_feat_map = [torch.full((2,), float(i)) for i in range(4)] + [None, None]
    state.append_vae_encoder_chunk(torch.ones(1, 32, 1, 1, 1))
    state.vae_pending_body_frames = torch.ones(1, 3, 1, 8, 8)
    state.append_video_latents(latents(1.0))
    state.append_video_latents(latents(2.0))
    return state
