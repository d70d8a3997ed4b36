"""Steps around the real Wan encoder: a forward that fails costs that forward, and no bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from statekit.objects import HeldValue, LatentBuffer
from statekit.session import SessionState
from tests.capture.sessions import assert_same_session, everything_of
from tests.equivalence.bits import assert_same_bits
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline
from tests.equivalence.hand_rolled_dreamzero import HandRolledDreamZeroState
from tests.equivalence.wan_stream import WanStream, build_vae

TOKENS = torch.arange(8)[None]


class FaultError(Exception):
    """What is injected."""


@pytest.fixture
def pipeline() -> Iterator[DreamZeroPipeline]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield DreamZeroPipeline(WanStream(build_vae(base_dim=4)), local_attn_size=12)
    torch.set_num_threads(threads)


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


class Accesses:
    """Counts accesses to a session's state, and fails before one of them."""

    def __init__(self) -> None:
        self.count = 0
        self.fail_at: int | None = None

    def happen(self) -> None:
        if self.fail_at == self.count:
            self.fail_at = None
            raise FaultError
        self.count += 1


ACCESSES = Accesses()
CARRIED = frozenset(one.name for one in DreamZeroStateAdapter.SPEC.values)
OBJECT_CALLS = ("stage", "commit", "append", "extend", "replace", "view", "clear", "reset",
                "discard", "joined", "_promote", "_hold")  # fmt: skip


class CountedState(DreamZeroStateAdapter):
    """The adapter, with every access to a value counted, those of its own methods too."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in CARRIED or name.removesuffix("_object") in CARRIED:
            ACCESSES.happen()
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in CARRIED:
            ACCESSES.happen()
        super().__setattr__(name, value)


@pytest.fixture
def counted_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of an object counts, too, and every look into the session's table."""

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            ACCESSES.happen()
            return method(self, *args, **kwargs)

        return call

    for kind in (HeldValue, LatentBuffer):
        for name in OBJECT_CALLS:
            if name in vars(kind):
                monkeypatch.setattr(kind, name, counted(getattr(kind, name)))
    for name in ("get", "get_or_create", "claim_parameters", "reset", "reset_objects"):
        monkeypatch.setattr(SessionState, name, counted(getattr(SessionState, name)))


FORWARDS = {"seed": 0, "pending_frame": 1, "chunk": 4, "window_reset": 6, "new_prompt": 3}
"""How many forwards come before it."""


@pytest.mark.parametrize("forward", FORWARDS)
def test_forward_when_it_fails_before_any_one_access_then_as_if_it_had_not_been(
    pipeline: DreamZeroPipeline, counted_objects: None, forward: str
) -> None:
    """For each read and write: the session is as before it, and a retry gives the same bits.

    Each kind of forward: the first one, one that only collects a frame, one that completes a chunk,
    one that starts a new attention window, one that starts a new rollout.
    """
    single = frames(8)
    given = [single[0], *(np.stack([one, one]) for one in single[1:])]  # one alone starts anew
    count = FORWARDS[forward]
    tokens = TOKENS + 1 if forward == "new_prompt" else TOKENS
    state = CountedState("s", SessionStateManager())
    hand_rolled = HandRolledDreamZeroState()
    for one in given[:count]:
        pipeline.forward(state, one, TOKENS)
        pipeline.forward(hand_rolled, one, TOKENS)
    wanted = pipeline.forward(hand_rolled, given[count], tokens)
    assert wanted.reset == {"window_reset": "inference", "new_prompt": "session",
                            "seed": "session"}.get(forward)  # fmt: skip

    before = everything_of(state.session)
    access = 0
    while True:
        ACCESSES.count, ACCESSES.fail_at = 0, access
        try:
            with state.step():
                got = pipeline.forward(state, given[count], tokens)
        except FaultError:
            assert_same_session(state.session, before)
            access += 1
            continue
        break
    assert ACCESSES.fail_at == access, "the last run made as many accesses as were failed before"
    ACCESSES.fail_at = None
    assert access > 30
    assert_same_bits(got.latents, wanted.latents, "latents")
    assert_same_bits(got.video, wanted.video, "video")
    assert_same_bits(state.vae_enc_feat_map, hand_rolled.vae_enc_feat_map, "feature map")
    assert state.call_count == hand_rolled.call_count
