"""Steps around the real Wan encoder: a forward that fails costs that forward, and no bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from statekit.testing import Faults
from tests.capture.sessions import assert_same_session, everything_of
from tests.equivalence.bits import assert_same_bits
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline, Forward
from tests.equivalence.hand_rolled_dreamzero import HandRolledDreamZeroState
from tests.equivalence.wan_stream import WanStream, build_vae

TOKENS = torch.arange(8)[None]


@pytest.fixture
def pipeline(one_thread: None) -> DreamZeroPipeline:
    return DreamZeroPipeline(WanStream(build_vae(base_dim=4)), local_attn_size=12)


def frames(count: int, size: int = 32) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(3)
    return [generator.integers(0, 256, (size, size, 3), dtype=np.uint8) for _ in range(count)]


def test_body_chunk_when_it_has_three_frames_then_undone_and_the_right_one_gives_the_same_bits(
    pipeline: DreamZeroPipeline,
) -> None:
    """A chunk that is too short fails in the encoder after entries of its cache were replaced."""
    stream = pipeline.stream
    given = [torch.from_numpy(one).movedim(2, 0)[None, :, None].bfloat16() for one in frames(9)]
    wanted, state = HandRolledDreamZeroState(), DreamZeroStateAdapter("s", SessionStateManager())
    stream.seed(wanted, given[0])
    stream.seed(state, given[0])
    for one in given[1:5]:
        stream.append(wanted, one)
        stream.append(state, one)

    before = everything_of(state.session)
    feat_map: Any = state.vae_enc_feat_map
    entries = list(feat_map)
    replaced: list[int] = []
    with pytest.raises(RuntimeError) as caught, torch.inference_mode(), state.step():
        try:
            stream._encode(torch.cat(given[5:8], dim=2), feat_map)
        finally:
            pairs = zip(feat_map, entries, strict=True)
            replaced += [index for index, (now, then) in enumerate(pairs) if now is not then]
    assert "size" in str(caught.value).lower()
    assert 0 < len(replaced) < len(entries), "the chunk failed before or after, not in the middle"
    assert_same_session(state.session, before)

    for one in given[5:9]:
        stream.append(wanted, one)
        with state.step():
            stream.append(state, one)
    assert_same_bits(state.vae_enc_feat_map, wanted.vae_enc_feat_map, "feature map", strides=True)
    assert_same_bits(stream.latents(state, 2), stream.latents(wanted, 2), "latents")


FORWARDS = {"seed": 0, "pending_frame": 1, "chunk": 4, "window_reset": 6, "new_prompt": 3}
"""How many forwards come before it."""


@pytest.mark.parametrize("forward", FORWARDS)
def test_forward_when_it_fails_before_any_one_access_then_as_if_it_had_not_been(
    pipeline: DreamZeroPipeline, forward: str
) -> None:
    """For each read and write: the session is as before it, and a retry gives the same bits.

    Each kind of forward: the first one, one that only collects a frame, one that completes a chunk,
    one that starts a new attention window, one that starts a new rollout.
    """
    single = frames(8)
    given = [single[0], *(np.stack([one, one]) for one in single[1:])]  # one alone starts anew
    count = FORWARDS[forward]
    tokens = TOKENS + 1 if forward == "new_prompt" else TOKENS
    state = DreamZeroStateAdapter("s", SessionStateManager())
    hand_rolled = HandRolledDreamZeroState()
    for one in given[:count]:
        pipeline.forward(state, one, TOKENS)
        pipeline.forward(hand_rolled, one, TOKENS)
    wanted = pipeline.forward(hand_rolled, given[count], tokens)
    assert wanted.reset == {"window_reset": "inference", "new_prompt": "session",
                            "seed": "session"}.get(forward)  # fmt: skip

    outputs: list[Forward] = []

    def run() -> None:
        with state.step():
            outputs.append(pipeline.forward(state, given[count], tokens))

    assert Faults().everywhere(run, state) > 30
    assert_same_bits(outputs[-1].latents, wanted.latents, "latents")
    assert_same_bits(outputs[-1].video, wanted.video, "video")
    assert_same_bits(state.vae_enc_feat_map, hand_rolled.vae_enc_feat_map, "feature map")
    assert state.call_count == hand_rolled.call_count
