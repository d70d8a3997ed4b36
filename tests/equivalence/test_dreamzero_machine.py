"""DreamZero: hand-rolled state and adapter driven side by side through every public call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.equivalence.bits import assert_same_bits
from tests.equivalence.drive import assert_same_outcome, outcome
from tests.equivalence.hand_rolled_dreamzero import (
    HandRolledDreamZeroState,
    HandRolledDreamZeroStates,
    append_encoder_chunk,
    newest_latent_frames,
)

Pair = tuple[HandRolledDreamZeroState, DreamZeroStateAdapter]

CARRIED = ("clip_feas", "ys", "language", "prompt_embeds", "vae_pending_body_frames")
IDS = st.sampled_from(["a", "b", "c", "", None])
SEEDS = st.integers(0, 2**16)
COUNTS = st.integers(0, 30)


def tensor(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """A tensor of these bits, the same for the same arguments."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def frames(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """uint8 frames, the same for the same arguments."""
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def key_of(session_id: str | None) -> str:
    return session_id or "default"


class DreamZeroMachine(RuleBasedStateMachine):
    """One table of hand-rolled states, one manager; every rule does the same to both.

    `held` are pairs that somebody keeps over calls, by session; `orphans` are kept pairs whose
    session was dropped. Two differences are wanted, and mirrored here on the hand-rolled side: a
    session that is still held is found again by its id instead of being shadowed by a new one,
    and `drop_session` clears the state for whoever still holds it.
    """

    @initialize(window=st.integers(1, 4), max_sessions=st.integers(1, 3))
    def start(self, window: int, max_sessions: int) -> None:
        self.window = window
        self.states = HandRolledDreamZeroStates(max_sessions)
        self.manager = SessionStateManager(max_sessions)
        self.held: dict[str, Pair] = {}
        self.orphans: list[Pair] = []

    def pair(self, session_id: str | None, kept: bool = False) -> Pair:
        """Both sides of a session, as one forward gets them; or the pair that is kept."""
        key = key_of(session_id)
        if kept and key in self.held:
            return self.held[key]
        if key in self.held:
            self.states.states.setdefault(key, self.held[key][0])
        hand = self.states.get(session_id)
        adapter = DreamZeroStateAdapter(session_id, self.manager, vae_encoder_window=self.window)
        assert adapter.session_id == session_id
        return hand, adapter

    def check(self, pair: Pair) -> None:
        """Every attribute that can be read, on both sides."""
        hand, adapter = pair
        for name in CARRIED:
            assert getattr(adapter, name) is getattr(hand, name), name
        for name in ("call_count", "current_start_frame", "vae_stream_initialized"):
            assert_same_bits(getattr(adapter, name), getattr(hand, name), name)
        self.check_feat_map(adapter.vae_enc_feat_map, hand.vae_enc_feat_map)
        assert_same_bits(adapter.stitched_buffer, hand.stitched_buffer, "stitched_buffer")
        blocks, want = adapter.video_latents_across_time, hand.video_latents_across_time
        assert_same_bits(blocks, want, "video_latents_across_time", strides=True)
        assert not any(block.requires_grad for block in blocks)
        joined, want_joined = (side.get_concatenated_video_latents() for side in (adapter, hand))
        assert_same_bits(joined, want_joined, "concatenated", strides=True)
        if len(blocks) == 1:
            assert joined is blocks[0]
        for count in range(1, self.window + 1):
            history = newest_latent_frames(hand.vae_encoder_out, count)
            assert_same_bits(newest_latent_frames(adapter.vae_encoder_out, count), history)
            assert_same_bits(adapter.newest_vae_encoder_frames(count), history)

    @staticmethod
    def check_feat_map(got: Any, want: Any) -> None:
        assert (got is None) == (want is None)
        if want is not None:
            assert len(got) == len(want)
            assert all(one is other for one, other in zip(got, want, strict=True))

    # -- who looks at a session -----------------------------------------------------------------

    @rule(session_id=IDS)
    def look(self, session_id: str | None) -> None:
        self.check(self.pair(session_id))

    @rule(session_id=IDS)
    def hold(self, session_id: str | None) -> None:
        self.held[key_of(session_id)] = self.pair(session_id)

    @rule(session_id=IDS)
    def let_go(self, session_id: str | None) -> None:
        self.held.pop(key_of(session_id), None)

    @rule(session_id=IDS)
    def drop(self, session_id: str | None) -> None:
        key = key_of(session_id)
        held = self.held.pop(key, None)
        dropped = self.states.drop(session_id)
        assert self.manager.drop_session(session_id) == (dropped or held is not None)
        if held is not None:
            held[0].reset()
            self.orphans.append(held)

    @rule(session_id=IDS, window=st.sampled_from([0, -1, True, 2.0, "2", None]))
    def bad_window(self, session_id: str | None, window: Any) -> None:
        with pytest.raises(ValueError, match="vae_encoder_window"):
            DreamZeroStateAdapter(session_id, self.manager, vae_encoder_window=window)

    # -- writes ---------------------------------------------------------------------------------

    @rule(session_id=IDS, kept=st.booleans(), name=st.sampled_from(CARRIED), seed=SEEDS)
    def assign(self, session_id: str | None, kept: bool, name: str, seed: int) -> None:
        pair = self.pair(session_id, kept)
        value = tensor((1, 3), seed) if seed % 4 else None
        for side in pair:
            setattr(side, name, value)
        self.check(pair)

    @rule(session_id=IDS, kept=st.booleans(), count=COUNTS, flag=st.booleans())
    def assign_counters(self, session_id: str | None, kept: bool, count: int, flag: bool) -> None:
        pair = self.pair(session_id, kept)
        for side in pair:
            side.call_count = count // 8
            side.current_start_frame += count
            side.vae_stream_initialized = flag
        self.check(pair)

    @rule(session_id=IDS, kept=st.booleans(), seed=SEEDS)
    def assign_feat_map(self, session_id: str | None, kept: bool, seed: int) -> None:
        pair = self.pair(session_id, kept)
        entries = [None, tensor((2,), seed), None, tensor((2,), seed + 1)]
        for side in pair:
            own = list(entries)
            side.vae_enc_feat_map = own
            assert side.vae_enc_feat_map is own
        self.check(pair)

    @rule(session_id=IDS, kept=st.booleans(), seed=SEEDS)
    def encode_in_place(self, session_id: str | None, kept: bool, seed: int) -> None:
        pair = self.pair(session_id, kept)
        entry = tensor((2,), seed)
        for side in pair:
            if side.vae_enc_feat_map is not None:
                side.vae_enc_feat_map[seed % 4] = entry
        self.check(pair)

    @rule(session_id=IDS, kept=st.booleans(), length=st.integers(0, 4), seed=SEEDS)
    def assign_encoder_out(
        self, session_id: str | None, kept: bool, length: int, seed: int
    ) -> None:
        pair = self.pair(session_id, kept)
        value = tensor((1, 4, length, 2, 2), seed) if length else None
        for side in pair:
            side.vae_encoder_out = value
        if value is not None and length <= self.window:
            assert pair[1].vae_encoder_out is value
        self.check(pair)

    @rule(session_id=IDS, kept=st.booleans(), lengths=st.lists(st.integers(1, 3), max_size=3))
    def assign_lists(self, session_id: str | None, kept: bool, lengths: list[int]) -> None:
        pair = self.pair(session_id, kept)
        blocks = [tensor((1, 3, length, 2, 2), length) for length in lengths]
        images = [frames((2, 3, 3), length) for length in lengths]
        for side in pair:
            side.video_latents_across_time = list(blocks)
            side.stitched_buffer = list(images)
        self.check(pair)

    # -- methods --------------------------------------------------------------------------------

    @rule(
        session_id=IDS,
        kept=st.booleans(),
        shape=st.sampled_from(
            [(2, 3, 3), (1, 3, 3), (2, 3), (3,), (1, 1, 2, 3, 3)]
            + [(count, 2, 3, 3) for count in (0, 1, 2, 4, 7)]
        ),
        seed=SEEDS,
    )
    def accumulate(
        self, session_id: str | None, kept: bool, shape: tuple[int, ...], seed: int
    ) -> None:
        pair = hand, adapter = self.pair(session_id, kept)
        new = frames(shape, seed)
        want = outcome(hand.accumulate_frames, new)
        assert_same_outcome(outcome(adapter.accumulate_frames, new), want)
        if len(shape) not in (3, 4):
            assert want.error is ValueError
        self.check(pair)

    @rule(
        session_id=IDS,
        kept=st.booleans(),
        shape=st.sampled_from([(1, 2, 3, 2, 2), (1, 1, 3, 2, 2), (2, 3, 2, 2), (1, 1, 2, 3, 2, 2)]),
        dtype=st.sampled_from([torch.bfloat16, torch.float32]),
        grad=st.booleans(),
        seed=SEEDS,
    )
    def append_latents(
        self,
        session_id: str | None,
        kept: bool,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        grad: bool,
        seed: int,
    ) -> None:
        pair = hand, adapter = self.pair(session_id, kept)
        block = tensor(shape, seed, dtype).requires_grad_(grad)
        want = outcome(hand.append_video_latents, block)
        assert_same_outcome(outcome(adapter.append_video_latents, block), want)
        assert (want.error is None) == (len(shape) == 5)
        self.check(pair)

    @rule(session_id=IDS, kept=st.booleans(), length=st.integers(1, 4), seed=SEEDS)
    def append_chunk(self, session_id: str | None, kept: bool, length: int, seed: int) -> None:
        pair = hand, adapter = self.pair(session_id, kept)
        chunk = tensor((1, 4, length, 2, 2), seed)
        append_encoder_chunk(hand, chunk)
        adapter.append_vae_encoder_chunk(chunk)
        self.check(pair)

    @rule(
        session_id=IDS,
        kept=st.booleans(),
        shape=st.sampled_from([(1, 4, 1, 3, 2), (1, 3, 1, 2, 2), (4, 1, 2, 2), (2,)]),
    )
    def append_misfit(self, session_id: str | None, kept: bool, shape: tuple[int, ...]) -> None:
        pair = hand, adapter = self.pair(session_id, kept)
        if hand.vae_encoder_out is None:
            return
        chunk = tensor(shape, 0)
        assert outcome(append_encoder_chunk, hand, chunk).error is not None
        assert outcome(adapter.append_vae_encoder_chunk, chunk).error is not None
        self.check(pair)

    @rule(session_id=IDS, kept=st.booleans(), beyond=st.integers(1, 3))
    def read_too_much(self, session_id: str | None, kept: bool, beyond: int) -> None:
        adapter = self.pair(session_id, kept)[1]
        for count in (self.window + beyond, 1 - beyond):
            with pytest.raises(ValueError, match=f"vae_encoder_window={self.window}"):
                adapter.newest_vae_encoder_frames(count)

    @rule(
        session_id=IDS,
        kept=st.booleans(),
        name=st.sampled_from(
            ["reset", "reset_inference_state", "reset_vae_encoder_stream", "clear_video_latents"]
        ),
    )
    def reset(self, session_id: str | None, kept: bool, name: str) -> None:
        pair = self.pair(session_id, kept)
        for side in pair:
            assert getattr(side, name)() is None
        self.check(pair)

    @rule(session_id=IDS, kept=st.booleans(), clear=st.booleans())
    def reset_with_choice(self, session_id: str | None, kept: bool, clear: bool) -> None:
        pair = self.pair(session_id, kept)
        for side in pair:
            side.reset(clear_video_latents=clear)
            assert outcome(side.reset, clear).error is TypeError
        self.check(pair)

    @rule(
        session_id=IDS,
        kept=st.booleans(),
        tokens=st.sampled_from(["none", "same", "equal", "other", "longer", "float"]),
        num_frames=st.sampled_from([1, 4]),
        attention=st.sampled_from([-1, 0, 4, 21]),
        write=st.booleans(),
    )
    def ask_for_reason(
        self,
        session_id: str | None,
        kept: bool,
        tokens: str,
        num_frames: int,
        attention: int,
        write: bool,
    ) -> None:
        pair = hand, adapter = self.pair(session_id, kept)
        language = torch.tensor([[1, 2, 3]]) if hand.language is None else hand.language
        given = {
            "none": None,
            "same": language,
            "equal": language.clone(),
            "other": language + 1,
            "longer": torch.cat([language, language], dim=1),
            "float": language.double(),
        }[tokens]
        for name in ("reset_reason", "should_reset"):
            want = outcome(getattr(hand, name), given, num_frames, attention)
            got = outcome(getattr(adapter, name), given, num_frames, attention)
            assert_same_outcome(got, want)
        if write:
            for side in pair:
                side.language = given
        self.check(pair)

    # -- always ---------------------------------------------------------------------------------

    @invariant()
    def tables_agree(self) -> None:
        assert list(self.manager._table) == list(self.states.states)

    @invariant()
    def held_pairs_agree(self) -> None:
        for pair in (*self.held.values(), *self.orphans):
            self.check(pair)


DreamZeroMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None
)
TestDreamZeroMachine = DreamZeroMachine.TestCase


def test_constants_when_read_from_the_class_then_as_hand_rolled() -> None:
    """FRAMES_PER_CHUNK is readable without an instance."""
    assert DreamZeroStateAdapter.FRAMES_PER_CHUNK == HandRolledDreamZeroState.FRAMES_PER_CHUNK == 4


@pytest.mark.parametrize(
    "reset",
    [
        lambda state: state.reset(),
        lambda state: state.reset(clear_video_latents=True),
        lambda state: state.reset(clear_video_latents=False),
        lambda state: state.reset_inference_state(),
        lambda state: state.reset_vae_encoder_stream(),
        lambda state: state.clear_video_latents(),
    ],
    ids=["all", "with_latents", "without_latents", "inference", "encoder_stream", "latents"],
)
def test_reset_when_everything_is_set_then_clears_and_keeps_as_hand_rolled(reset: Any) -> None:
    """Each reset, on a state in which no value has its default, leaves the same on both sides."""
    machine = DreamZeroMachine()
    machine.start(window=2, max_sessions=1)
    hand, adapter = pair = machine.pair("s")
    for side in pair:
        for seed, name in enumerate(CARRIED, start=1):
            setattr(side, name, tensor((2, 2), seed))
        side.vae_stream_initialized = True
        side.vae_enc_feat_map = [None, tensor((2,), 7)]
        side.vae_encoder_out = tensor((1, 4, 2, 2, 2), 8)
        side.accumulate_frames(frames((4, 2, 3, 3), 9))
        side.append_video_latents(tensor((1, 2, 3, 2, 2), 10))
        side.current_start_frame = 5
        reset(side)
    for name in CARRIED:
        assert_same_bits(getattr(adapter, name), getattr(hand, name), name)
        setattr(hand, name, getattr(adapter, name))  # each side had tensors of its own
    assert_same_bits(adapter.vae_enc_feat_map, hand.vae_enc_feat_map, "vae_enc_feat_map")
    hand.vae_enc_feat_map = adapter.vae_enc_feat_map
    machine.check(pair)


def test_interface_when_compared_then_adapter_offers_all_of_it() -> None:
    """Every public name of the hand-rolled class, attributes included, exists on the adapter."""
    hand = HandRolledDreamZeroState("s")
    adapter = DreamZeroStateAdapter("s", SessionStateManager())
    for name in (name for name in dir(hand) if not name.startswith("_")):
        assert hasattr(adapter, name), name
