"""DreamZero's rollout for the demo: one robot, hand-rolled and generated state side by side."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from statekit_codegen.units import format_nbytes
from tests.demo.camera import stitched_frames
from tests.demo.comparison import Comparison
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline, Forward
from tests.equivalence.hand_rolled_dreamzero import HandRolledDreamZeroStates
from tests.equivalence.held import held_bytes
from tests.equivalence.wan_stream import WanStream, build_vae

__all__ = ["DreamZeroRollout"]

STATE = ("clip_feas", "ys", "language", "prompt_embeds", "vae_enc_feat_map")
COUNTERS = ("call_count", "current_start_frame", "vae_stream_initialized")
SESSION = "robot"
WINDOW = 2


class DreamZeroRollout:
    """Iterate over it to run it, one step an iteration; `comparison` then holds the findings."""

    def __init__(
        self, *, steps: int = 36, height: int = 176, width: int = 320, base_dim: int = 8
    ) -> None:
        self.comparison = Comparison(
            model="dreamzero",
            setup=(
                f"{steps} forwards, three cameras stitched to {height}x{width}, "
                f"Wan encoder with base_dim={base_dim}"
            ),
            steps=steps,
        )
        self._frames = stitched_frames(height, width)
        self._pipeline = DreamZeroPipeline(
            WanStream(build_vae(base_dim=base_dim)), local_attn_size=24, num_frame_per_block=WINDOW
        )
        self._hand = HandRolledDreamZeroStates()
        self._manager = SessionStateManager()

    def __iter__(self) -> Iterator[int]:
        tokens = torch.arange(32)[None]
        for step in range(self.comparison.steps):
            count = 4 if step else 1  # a single frame later on would mean that the client restarts
            stitched = np.stack(list(itertools.islice(self._frames, count)))
            self._step(step, stitched, tokens)
            yield step
        self._finish()

    def _step(self, step: int, stitched: np.ndarray, tokens: torch.Tensor) -> None:
        def forward(open_state: Callable[[], Any]) -> tuple[Forward, float]:
            model_s, start = self._pipeline.model_s, time.perf_counter()
            result = self._pipeline.forward(open_state(), stitched, tokens)
            took = time.perf_counter() - start
            return result, took - (self._pipeline.model_s - model_s)

        sides: list[Callable[[], Any]] = [lambda: self._hand.get(SESSION), self._adapter]
        turns = sides if step % 2 else sides[::-1]  # neither side always finds warm caches
        results = {side: forward(side) for side in turns}
        (hand, hand_s), (adapter, adapter_s) = (results[side] for side in sides)
        comparison = self.comparison
        comparison.hand_s.append(hand_s)
        comparison.adapter_s.append(adapter_s)
        place = f"step {step + 1}"
        comparison.compare(f"{place}: latents", adapter.latents, hand.latents)
        comparison.compare(f"{place}: video", adapter.video, hand.video)
        self._compare_states(place)

    def _compare_states(self, place: str) -> None:
        hand, adapter = self._hand.get(SESSION), self._adapter()
        for name in (*STATE, *COUNTERS, "stitched_buffer", "vae_pending_body_frames"):
            found = getattr(adapter, name), getattr(hand, name)
            self.comparison.compare(f"{place}: {name}", *found)
        history = hand.vae_encoder_out
        newest = None if history is None else history[:, :, -WINDOW:]
        self.comparison.compare(f"{place}: vae_encoder_out", adapter.vae_encoder_out, newest)
        self.comparison.compare_bytes(place, self._manager, [adapter.session])

    def _finish(self) -> None:
        self.comparison.model_s = self._pipeline.model_s
        hand, adapter = self._hand.get(SESSION), self._adapter()
        video = adapter.get_concatenated_video_latents(), hand.get_concatenated_video_latents()
        self.comparison.compare("rollout: all video latents", *video)
        self.comparison.hand_held = held_bytes(hand)
        history = hand.vae_encoder_out
        assert history is not None
        ring_nbytes = held_bytes(adapter.vae_encoder_out_object.view())["cpu"]
        history_nbytes = held_bytes(history)["cpu"]
        self.comparison.bounded_what = "encoder output"
        self.comparison.adapter_bounded = f"{format_nbytes(ring_nbytes)}: ring of {WINDOW} frames"
        self.comparison.hand_bounded = (
            f"{format_nbytes(history_nbytes)}: {history.shape[2]} frames, growing"
        )
        self._manager.drop_session(SESSION)
        self.comparison.after = self._manager.stats()["total_nbytes"]

    def _adapter(self) -> DreamZeroStateAdapter:
        return DreamZeroStateAdapter(SESSION, self._manager, vae_encoder_window=WINDOW)
