"""The small Wan encoder and DreamZero's pipeline behind it, as the model of a replica.

Owns the model, its inputs (made from the session's id and the step's number, so that a client can
send any step again), and the outputs of one session in one process.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import numpy as np
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from statekit.replicas.lane import Limits
from statekit.replicas.replica import Replica
from statekit.replicas.saving import Saving
from statekit.replicas.serving import Serves, Turn
from tests.equivalence.bits import to_bytes
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline
from tests.equivalence.wan_stream import WanStream, build_vae

__all__ = ["WanModel", "alone", "frames", "make"]


class WanModel:
    """One forward a step; all that goes on from step to step is in the session."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self._pipeline = DreamZeroPipeline(WanStream(build_vae(base_dim=4)), local_attn_size=10)

    def step(self, turn: Turn, pictures: np.ndarray[Any, Any]) -> str:
        """A digest of all that the forward gave."""
        return self.forward(DreamZeroStateAdapter(turn.session_id, turn.manager), pictures)

    def forward(self, state: DreamZeroStateAdapter, pictures: np.ndarray[Any, Any]) -> str:
        """One block further."""
        tokens = torch.arange(8)[None] + _seed(str(state.session_id)) % 100
        result = self._pipeline.forward(state, pictures, tokens)
        return hashlib.sha256(to_bytes(result.latents) + to_bytes(result.video)).hexdigest()


def _seed(session_id: str) -> int:
    return zlib.crc32(session_id.encode())


def frames(session_id: str, step: int) -> np.ndarray[Any, Any]:
    """What the cameras see: one frame first, then two a step."""
    generator = np.random.default_rng([_seed(session_id), step])
    shape = (16, 24, 3) if step == 0 else (2, 16, 24, 3)
    return generator.integers(0, 256, shape, dtype=np.uint8)


def alone(lengths: dict[str, int]) -> dict[str, list[str]]:
    """The outputs of sessions of these lengths in one process, all in turn, with no replica."""
    manager, model = SessionStateManager(max_sessions=len(lengths)), WanModel()
    found: dict[str, list[str]] = {name: [] for name in lengths}
    for step in range(max(lengths.values())):
        for name, length in lengths.items():
            if step < length:
                state = DreamZeroStateAdapter(name, manager)
                with state.step():
                    found[name].append(model.forward(state, frames(name, step)))
    return found


def make(name: str, limits: Limits, saving: Saving | None) -> Replica:
    """A replica that serves it."""
    manager = SessionStateManager(max_sessions=128, budgets={"cpu": "64GiB"})
    serves = [Serves(DreamZeroStateAdapter.SPEC, WanModel())]
    return Replica(name, manager, serves, limits=limits, saving=saving)
