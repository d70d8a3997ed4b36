"""The real Wan encoder, streamed through hand-rolled state and through the adapter."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.equivalence.bits import assert_same_bits
from tests.equivalence.hand_rolled_dreamzero import HandRolledDreamZeroState
from tests.equivalence.held import held_bytes
from tests.equivalence.wan_stream import WanStream, build_vae, feature_map_elements

BFLOAT16_NBYTES = 2


@pytest.fixture(scope="module")
def small_vae_stream() -> WanStream:
    return WanStream(build_vae(base_dim=8))


@pytest.fixture
def small_stream(one_thread: None, small_vae_stream: WanStream) -> WanStream:
    return small_vae_stream


def moving_frames(height: int, width: int, seed: int = 0) -> Iterator[torch.Tensor]:
    """Frames (1, 3, 1, H, W) in [-1, 1] of a pattern that moves by some pixels a frame."""
    generator = torch.Generator().manual_seed(seed)
    pattern = torch.rand(1, 3, 1, height, width, generator=generator) * 2 - 1
    while True:
        yield pattern.bfloat16()
        pattern = pattern.roll((1, 3), dims=(3, 4))


def assert_same_stream(adapter: DreamZeroStateAdapter, hand: HandRolledDreamZeroState) -> None:
    """The carried values have equal bits; the ring is the newest part of the history."""
    for name in ("vae_stream_initialized", "vae_enc_feat_map", "vae_pending_body_frames"):
        assert_same_bits(getattr(adapter, name), getattr(hand, name), name)
    history = hand.vae_encoder_out
    assert history is not None
    newest = history[:, :, -adapter.vae_encoder_window :]
    assert_same_bits(adapter.vae_encoder_out, newest, "vae_encoder_out")


def feature_map_nbytes(feat_map: list[torch.Tensor | None] | None) -> int:
    assert feat_map is not None
    assert len(feat_map) == 26
    assert sum(entry is None for entry in feat_map) == 2
    return held_bytes(feat_map)["cpu"]


@pytest.mark.parametrize("window", [1, 2, 3])
def test_stream_when_fed_frame_by_frame_then_both_sides_have_equal_bits(
    small_stream: WanStream, window: int
) -> None:
    """At every step state and latents have equal bits, for every count that the window allows."""
    hand = HandRolledDreamZeroState("robot")
    manager = SessionStateManager()
    frames = moving_frames(64, 64)
    frame = next(frames)
    small_stream.seed(hand, frame)
    small_stream.seed(DreamZeroStateAdapter("robot", manager, vae_encoder_window=window), frame)
    for _ in range(18):
        adapter = DreamZeroStateAdapter("robot", manager, vae_encoder_window=window)
        assert_same_stream(adapter, hand)
        for count in range(1, window + 1):
            ring, history = (small_stream.latents(side, count) for side in (adapter, hand))
            assert_same_bits(ring, history, f"{count} latents")
        frame = next(frames)
        encoded = small_stream.append(hand, frame)
        assert small_stream.append(adapter, frame) is encoded
    assert hand.vae_encoder_out is not None
    assert hand.vae_encoder_out.shape[2] == 5  # the seed and four chunks: the history grows
    assert adapter.vae_encoder_out is not None
    assert adapter.vae_encoder_out.shape[2] == window


def test_stream_when_two_chunks_differ_then_latents_differ(small_stream: WanStream) -> None:
    """The random encoder does not map everything to the same bits, so equality says something."""
    hand = HandRolledDreamZeroState("robot")
    frames = moving_frames(64, 64)
    small_stream.seed(hand, next(frames))
    for _ in range(8):
        small_stream.append(hand, next(frames))
    latents = small_stream.latents(hand, 2)
    assert (latents[:, :, 0] != latents[:, :, 1]).float().mean() > 0.9


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("base_dim", "height", "width"), [(8, 64, 64), (8, 40, 72), (16, 32, 48)])
def test_bytes_when_streaming_then_formula_tensors_and_manager_agree(
    base_dim: int, height: int, width: int
) -> None:
    """The feature map has the bytes of the closed formula; the manager reports every byte once."""
    stream = WanStream(build_vae(base_dim=base_dim))
    manager = SessionStateManager()
    adapter = DreamZeroStateAdapter("robot", manager)
    frames = moving_frames(height, width)
    latent_nbytes = 32 * (height // 8) * (width // 8) * BFLOAT16_NBYTES
    frame_nbytes = 3 * height * width * BFLOAT16_NBYTES
    elements = functools.partial(
        feature_map_elements, base_dim=base_dim, height=height, width=width
    )

    stream.seed(adapter, next(frames))
    first = elements(first=True) * BFLOAT16_NBYTES
    assert feature_map_nbytes(adapter.vae_enc_feat_map) == first
    assert manager.nbytes_by_device() == {"cpu": first + latent_nbytes}

    steady = elements() * BFLOAT16_NBYTES
    for step in range(1, 21):
        stream.append(adapter, next(frames))
        feat_map_nbytes = feature_map_nbytes(adapter.vae_enc_feat_map)
        assert feat_map_nbytes == (steady if step >= 4 else first)
        ring_nbytes = min(1 + step // 4, 2) * latent_nbytes
        expected = feat_map_nbytes + ring_nbytes + step % 4 * frame_nbytes
        assert manager.nbytes_by_device() == {"cpu": expected}
        parts = (
            adapter.vae_enc_feat_map,
            adapter.vae_encoder_out_object.view(),
            adapter.vae_pending_body_frames,
        )
        assert held_bytes(parts) == {"cpu": expected}


def test_latents_when_more_than_window_asked_then_raises(small_stream: WanStream) -> None:
    """A ring of two frames never answers for three, not even before it is full."""
    adapter = DreamZeroStateAdapter("robot", SessionStateManager(), vae_encoder_window=2)
    small_stream.seed(adapter, next(moving_frames(64, 64)))
    with pytest.raises(ValueError, match="vae_encoder_window"):
        small_stream.latents(adapter, 3)


def test_latents_when_stream_not_seeded_then_raises(small_stream: WanStream) -> None:
    """There are no latents before the first frame, on either side."""
    adapter = DreamZeroStateAdapter("robot", SessionStateManager())
    for state in (adapter, HandRolledDreamZeroState("robot")):
        with pytest.raises(ValueError, match="seed it first"):
            small_stream.latents(state, 1)


def test_stream_when_reset_and_seeded_again_then_equals_a_fresh_one(
    small_stream: WanStream,
) -> None:
    """Nothing of an old stream survives into a new one of the same session."""
    manager = SessionStateManager()
    used, fresh = (DreamZeroStateAdapter(name, manager) for name in ("used", "fresh"))
    frames = moving_frames(64, 64, seed=1)
    small_stream.seed(used, next(frames))
    for _ in range(6):
        small_stream.append(used, next(frames))
    for state in (used, fresh):
        frames = moving_frames(64, 64, seed=2)
        small_stream.seed(state, next(frames))
        for _ in range(4):
            small_stream.append(state, next(frames))
    assert_same_bits(used.vae_enc_feat_map, fresh.vae_enc_feat_map)
    assert_same_bits(small_stream.latents(used, 2), small_stream.latents(fresh, 2))


@pytest.mark.fullsize
@pytest.mark.slow
def test_bytes_when_production_size_then_published_figures() -> None:
    """At 352x640 with 96 channels, equal bits, and the bytes that the schema records."""
    height, width = 352, 640
    stream = WanStream(build_vae(base_dim=96))
    hand = HandRolledDreamZeroState("robot")
    manager = SessionStateManager()
    adapter = DreamZeroStateAdapter("robot", manager)
    frames = moving_frames(height, width)

    frame = next(frames)
    stream.seed(hand, frame)
    stream.seed(adapter, frame)
    assert_same_stream(adapter, hand)
    assert feature_map_nbytes(adapter.vae_enc_feat_map) == 320_348_160
    assert manager.nbytes_by_device() == {"cpu": 320_348_160 + 225_280}

    for _ in range(3):
        frame = next(frames)
        stream.append(hand, frame)
        stream.append(adapter, frame)
    assert manager.nbytes_by_device() == {"cpu": 320_348_160 + 225_280 + 3 * 1_351_680}

    frame = next(frames)
    assert stream.append(hand, frame)
    assert stream.append(adapter, frame)
    assert_same_stream(adapter, hand)
    assert feature_map_nbytes(adapter.vae_enc_feat_map) == 632_586_240
    assert manager.nbytes_by_device() == {"cpu": 632_586_240 + 2 * 225_280}
    assert_same_bits(stream.latents(adapter, 2), stream.latents(hand, 2))
