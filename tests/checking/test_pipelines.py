"""Both models' pipelines, checked all along: what their schemas say is true of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from statekit import checking
from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.errors import DeclarationError
from statekit.manager import SessionStateManager
from tests.demo.cosmos3_pipeline import CHANNELS, Cosmos3Pipeline, TinyCosmos3Transformer
from tests.equivalence.bits import assert_same_bits
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline
from tests.equivalence.hand_rolled_dreamzero import HandRolledDreamZeroState
from tests.equivalence.wan_stream import WanStream, build_vae

PROMPTS = (torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5, 6, 7, 8]]))


class SizedPipeline(DreamZeroPipeline):
    """The pipeline with embeddings of the widths that DreamZero's schema states."""

    def __init__(self, stream: WanStream, **settings: Any) -> None:
        super().__init__(stream, **settings)
        generator = torch.Generator().manual_seed(8)
        self._text = torch.randn(256, 4096, generator=generator).bfloat16()

    def _encode_image(self, frame: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        small = functional.avg_pool2d(frame[:, :, 0], 8)
        ys = torch.einsum("bchw,cd->bdhw", small, self._image)[:, :, None]
        return ys.mean((2, 3, 4))[:, None, :1].expand(1, 257, 1280).contiguous(), ys


@pytest.fixture(scope="module")
def stream() -> Iterator[WanStream]:
    """The real encoder, small; one thread, since threads would mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield WanStream(build_vae(base_dim=8))
    torch.set_num_threads(threads)


def requests() -> Iterator[tuple[np.ndarray, torch.Tensor]]:
    """Frames and prompts of a rollout: a first frame, chunks, a window that ends, a new prompt."""
    noise = np.random.default_rng(3)
    for step in range(22):
        first = step in (0, 15)
        shape = (64, 48, 3) if first else (4, 64, 48, 3)
        yield noise.integers(0, 256, shape, dtype=np.uint8), PROMPTS[step >= 15]


@pytest.mark.parametrize("window", [2, 3])
def test_dreamzero_when_checked_all_along_then_no_finding_and_equal_bits(
    stream: WanStream, window: int
) -> None:
    """Seed, 1 to 3 pending frames, chunks, both resets, a new prompt: nothing is reported."""
    pipeline = SizedPipeline(stream, local_attn_size=12)
    manager, hand = SessionStateManager(), HandRolledDreamZeroState("robot")
    resets = []
    with checking.enabled():
        for frames, tokens in requests():
            state = DreamZeroStateAdapter("robot", manager, vae_encoder_window=window)
            with checking.watch(state.session):
                got = pipeline.forward(state, frames, tokens)
            checking.look(state.session)
            want = pipeline.forward(hand, frames, tokens)
            assert_same_bits((got.latents, got.video), (want.latents, want.video))
            resets.append(got.reset)
    assert {"session", "inference", None} <= set(resets)


def test_dreamzero_when_two_sessions_park_each_other_then_no_finding_and_equal_bits(
    stream: WanStream, tmp_path: Path
) -> None:
    """Leases, steps that fail at first, and a budget that holds one feature map alone."""
    pipeline = SizedPipeline(stream, local_attn_size=12)
    manager = SessionStateManager(
        budgets={"cpu": "1MiB", "disk": "64MiB"}, model_device="cpu", park_folder=tmp_path
    )
    hands = {name: HandRolledDreamZeroState(name) for name in ("left", "right")}
    for name in hands:
        manager.get_or_create_session(name)
    parked = 0
    with checking.enabled():
        for frames, tokens in islice(requests(), 10):
            for name, hand in hands.items():
                with manager.lease(name) as session:
                    state = DreamZeroStateAdapter(name, manager)
                    with suppress(ZeroDivisionError), state.step(), checking.watch(session):
                        pipeline.forward(state, frames, tokens)
                        raise ZeroDivisionError
                    with state.step(), checking.watch(session):
                        got = pipeline.forward(state, frames, tokens)
                    checking.look(session)
                want = pipeline.forward(hand, frames, tokens)
                assert_same_bits((got.latents, got.video), (want.latents, want.video))
                parked += manager.stats().get("parked_nbytes:disk", 0) > 0
    assert parked > 5


def test_dreamzero_when_the_encoder_writes_in_place_then_caught_in_the_act(
    stream: WanStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder that reuses a cached tensor's memory is stopped at its line."""
    pipeline, manager = SizedPipeline(stream), SessionStateManager()
    encode = WanStream._encode

    def reuses_memory(self: WanStream, frames: torch.Tensor, feat_map: Any) -> torch.Tensor:
        if feat_map[0] is not None:
            feat_map[0].zero_()
        return encode(self, frames, feat_map)

    monkeypatch.setattr(WanStream, "_encode", reuses_memory)
    found = None
    with checking.enabled():
        for frames, tokens in requests():
            state = DreamZeroStateAdapter("robot", manager)
            try:
                with checking.watch(state.session):
                    pipeline.forward(state, frames, tokens)
            except DeclarationError as error:
                found = error
                break
    assert found is not None
    assert found.value == "vae_enc_feat_map"
    assert "aten.zero_.default writes into [0], declared `update: entries`" in found.found
    assert found.site.startswith(f"{__file__}:")
    line = DreamZeroStateAdapter.SPEC["vae_enc_feat_map"].line
    assert found.declared_at == f"schemas/dreamzero.yaml:{line}"


def test_cosmos3_when_checked_all_along_then_no_finding_and_equal_bits() -> None:
    """Two branches of other lengths, encoded once and reread at every step."""
    start = torch.randn(1, 48, CHANNELS, generator=torch.Generator().manual_seed(5))
    results = []
    for on in (False, True):
        pipeline = Cosmos3Pipeline(TinyCosmos3Transformer(layers=3, padded_tokens=16))
        manager, media = SessionStateManager(), start
        with checking.enabled(on):
            for _ in range(4):
                state = Cosmos3StateAdapter("request", manager)
                if on:
                    with checking.watch(state.session):
                        media = pipeline.step(state, media, PROMPTS[0], PROMPTS[1])
                    checking.look(state.session)
                else:
                    media = pipeline.step(state, media, PROMPTS[0], PROMPTS[1])
        results.append(media)
    assert_same_bits(*results)


def test_cosmos3_when_text_is_scaled_in_place_then_caught_in_the_act() -> None:
    """A generator that scales the keys it rereads would ruin every later step."""
    pipeline = Cosmos3Pipeline(TinyCosmos3Transformer(layers=2, padded_tokens=16))
    manager = SessionStateManager()
    media = torch.zeros(1, 16, CHANNELS)
    with checking.enabled():
        state = Cosmos3StateAdapter("request", manager)
        pipeline.step(state, media, PROMPTS[0], PROMPTS[1])
        state.load_into_transformer(pipeline.transformer, True)
        assert pipeline.transformer.cached_kv is not None
        with checking.watch(state.session), pytest.raises(DeclarationError) as caught:
            pipeline.transformer.cached_kv[1][0].mul_(0.5)
    assert caught.value.value == "und_kv"
    assert "under 'und_kv_neg/1', aten.mul_.Tensor writes into [0]" in caught.value.found
