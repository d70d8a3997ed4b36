"""Rollouts of both models that can stop at a step and go on in another process.

Run as `python -m tests.equivalence.resume_pipeline FOLDER FROM TO`: serves the steps FROM to TO of
two sessions of each model in turn. Restores them from FOLDER first unless FROM is 0, saves them
there, prints one digest a step as JSON, and kills itself: nothing is left to an orderly exit.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.demo.cosmos3_pipeline import CHANNELS, Cosmos3Pipeline, TinyCosmos3Transformer
from tests.equivalence.bits import to_bytes
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline
from tests.equivalence.wan_stream import WanStream, build_vae

__all__ = ["MODELS", "STEPS", "serve"]

STEPS = 10
SESSIONS = ("left/arm", "..right")
SPECS = (DreamZeroStateAdapter.SPEC, Cosmos3StateAdapter.SPEC)


def frame(session_id: str, step: int) -> np.ndarray[Any, Any]:
    """What the cameras see: one frame first, then two a step."""
    generator = np.random.default_rng([len(session_id), step])
    shape = (32, 48, 3) if step == 0 else (2, 32, 48, 3)
    return generator.integers(0, 256, shape, dtype=np.uint8)


def dreamzero(manager: SessionStateManager, folder: Path) -> Callable[[str, int], bytes]:
    """One forward of a session; all that goes on from step to step is in the session."""
    pipeline = DreamZeroPipeline(WanStream(build_vae(base_dim=8)), local_attn_size=10)

    def forward(session_id: str, step: int) -> bytes:
        state = DreamZeroStateAdapter(session_id, manager)
        tokens = torch.arange(8)[None] + len(session_id)
        with state.step():
            result = pipeline.forward(state, frame(session_id, step), tokens)
        return to_bytes(result.latents) + to_bytes(result.video)

    return forward


def cosmos3(manager: SessionStateManager, folder: Path) -> Callable[[str, int], bytes]:
    """One denoise step; the media that is denoised belongs to the request, not to the session."""
    vae = build_vae(base_dim=8)
    pipeline = Cosmos3Pipeline(TinyCosmos3Transformer(layers=3, padded_tokens=32))
    kept = folder / "media.safetensors"
    media: dict[str, torch.Tensor] = load_file(kept) if kept.exists() else {}

    def forward(session_id: str, step: int) -> bytes:
        state = Cosmos3StateAdapter(session_id, manager)
        if step == 0:
            media[session_id] = encoded(vae, frame(session_id, 0))
        text = torch.arange(4 + len(session_id))[None] + 1
        with state.step():
            media[session_id] = pipeline.step(state, media[session_id], text, text[:, :3] + 100)
        save_file({name: one.contiguous() for name, one in media.items()}, kept)
        return to_bytes(media[session_id])

    return forward


@torch.inference_mode()
def encoded(vae: Any, picture: np.ndarray[Any, Any]) -> torch.Tensor:
    """Media tokens (1, M, CHANNELS) of one picture, through the real encoder."""
    video = torch.from_numpy(picture).movedim(2, 0)[None, :, None].bfloat16() / 127.5 - 1
    latents = vae.encoder(video, feat_cache=[None] * 26, feat_idx=[0]).float()
    return latents.flatten()[: 4 * CHANNELS].reshape(1, -1, CHANNELS).clone()


MODELS = {"dreamzero": dreamzero, "cosmos3": cosmos3}


def serve(model: str, folder: Path, start: int, stop: int) -> Iterator[str]:
    """The digests of the steps from `start` to `stop`; both sessions are saved at the end."""
    torch.set_num_threads(1)
    manager = SessionStateManager()
    if start:
        found = manager.load_all(folder / model, *SPECS)
        assert not found.failed, found.failed
        assert set(found.done) == set(SESSIONS)
    forward = MODELS[model](manager, folder)
    for step in range(start, stop):
        digest = hashlib.sha256()
        for session_id in SESSIONS:
            digest.update(forward(session_id, step))
        yield digest.hexdigest()
    saved = manager.save_all(folder / model)
    assert not saved.failed, saved.failed


if __name__ == "__main__":
    place, first, last = sys.argv[1:]
    steps = int(first), int(last)
    print(json.dumps({name: [*serve(name, Path(place), *steps)] for name in MODELS}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
