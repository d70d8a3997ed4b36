"""Cosmos3: hand-rolled state and adapter driven side by side through every public call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.manager import SessionStateManager
from tests.equivalence.bits import assert_same_bits, to_bytes
from tests.equivalence.drive import assert_same_outcome, outcome
from tests.equivalence.hand_rolled_cosmos3 import HandRolledCosmos3State, HandRolledCosmos3States

Pair = tuple[HandRolledCosmos3State, Cosmos3StateAdapter]

IDS = st.sampled_from(["r1", "r2", "r3", "", None])
CONTRACT = (
    "partially initialized",
    "did not produce UND K/V",
    "did not produce GEN RoPE frequencies",
)
KEPT_WHOLE = 16  # tokens that K and V are padded to
KEY = {False: "und_kv/", True: "und_kv_neg/"}


def text_kv(layers: int, real_len: int, seed: int, batch: int = 1) -> list[Any]:
    """(K, V) of every layer as the model hands them over: slices of padded tensors."""
    generator = torch.Generator().manual_seed(seed)

    def half() -> torch.Tensor:
        padded = torch.randn((batch, KEPT_WHOLE, 2, 4), generator=generator).bfloat16()
        return padded[:, :real_len]

    return [(half(), half()) for _ in range(layers)]


def rotary(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A (cos, sin) pair."""
    angle = torch.rand((1, 5, 1, 4), generator=torch.Generator().manual_seed(seed))
    return angle.cos().bfloat16(), angle.sin().bfloat16()


def key_of(session_id: str | None) -> str:
    return session_id or "default"


class Cosmos3Machine(RuleBasedStateMachine):
    """One table of hand-rolled states, one manager; every rule does the same to both.

    `held` and `orphans`, and the two wanted differences, as in the machine of DreamZero.
    """

    @initialize(max_sessions=st.integers(1, 3))
    def start(self, max_sessions: int) -> None:
        self.states = HandRolledCosmos3States(max_sessions)
        self.manager = SessionStateManager(max_sessions)
        self.held: dict[str, Pair] = {}
        self.orphans: list[Pair] = []

    def pair(self, session_id: str | None, kept: bool = False) -> Pair:
        """Both sides of a session, as one step gets them; or the pair that is kept."""
        key = key_of(session_id)
        if kept and key in self.held:
            return self.held[key]
        if key in self.held:
            self.states.states.setdefault(key, self.held[key][0])
        adapter = Cosmos3StateAdapter(session_id, self.manager)
        assert adapter.session_id == session_id
        return self.states.get(session_id), adapter

    def check(self, pair: Pair) -> None:
        """All that can be read of both branches, on both sides."""
        for is_negative in (False, True):
            loaded = []
            for side in pair:
                transformer = SimpleNamespace()
                result = outcome(side.load_into_transformer, transformer, is_negative)
                assert result.error is None or not vars(transformer)
                kv = outcome(side.get_branch_kv, is_negative)
                whether = outcome(side.is_branch_initialized, is_negative)
                loaded.append((result, kv, whether, vars(transformer)))
            hand, adapter = loaded
            for got, want in zip(adapter[:3], hand[:3], strict=True):
                assert_same_outcome(got, want, *CONTRACT)
            assert_same_bits(adapter[3], hand[3], "transformer")
            freqs = hand[3].get("cached_freqs_gen")
            if freqs is not None:
                assert adapter[3]["cached_freqs_gen"] is freqs

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
        held = self.held.pop(key_of(session_id), None)
        dropped = self.states.drop(session_id)
        assert self.manager.drop_session(session_id) == (dropped or held is not None)
        if held is not None:
            held[0].reset()
            self.orphans.append(held)

    # -- calls ----------------------------------------------------------------------------------

    @rule(
        session_id=IDS,
        kept=st.booleans(),
        is_negative=st.booleans(),
        layers=st.integers(0, 3),
        real_len=st.integers(1, KEPT_WHOLE),
        seed=st.integers(0, 2**16),
        batch=st.integers(1, 2),
        kv=st.sampled_from(["given", "given", "given", "none", "absent"]),
        freqs=st.sampled_from(["given", "given", "given", "none", "absent"]),
    )
    def capture(
        self,
        session_id: str | None,
        kept: bool,
        is_negative: bool,
        layers: int,
        real_len: int,
        seed: int,
        batch: int,
        kv: str,
        freqs: str,
    ) -> None:
        pair = hand, adapter = self.pair(session_id, kept)
        transformer = SimpleNamespace()
        if kv != "absent":
            given = text_kv(layers, real_len, seed, batch)
            transformer.cached_kv = given if kv == "given" else None
        if freqs != "absent":
            transformer.cached_freqs_gen = rotary(seed) if freqs == "given" else None
        before = dict(vars(transformer))
        want = outcome(hand.capture_from_transformer, transformer, is_negative)
        got = outcome(adapter.capture_from_transformer, transformer, is_negative)
        assert_same_outcome(got, want, *CONTRACT)
        assert vars(transformer) == before
        self.check(pair)

    @rule(
        session_id=IDS,
        kept=st.booleans(),
        is_negative=st.booleans(),
        layers=st.integers(0, 3),
        real_len=st.integers(1, KEPT_WHOLE),
        seed=st.integers(0, 2**16),
    )
    def set_kv(
        self,
        session_id: str | None,
        kept: bool,
        is_negative: bool,
        layers: int,
        real_len: int,
        seed: int,
    ) -> None:
        pair = self.pair(session_id, kept)
        cached_kv = text_kv(layers, real_len, seed)
        for side in pair:
            side.set_branch_kv(is_negative, cached_kv)
        self.check(pair)

    @rule(
        session_id=IDS,
        kept=st.booleans(),
        is_negative=st.booleans(),
        bad=st.sampled_from([None, 7, [None], [rotary(1), None]]),
    )
    def set_bad_kv(self, session_id: str | None, kept: bool, is_negative: bool, bad: Any) -> None:
        pair = hand, adapter = self.pair(session_id, kept)
        want = outcome(hand.set_branch_kv, is_negative, bad)
        assert want.error is not None
        assert_same_outcome(outcome(adapter.set_branch_kv, is_negative, bad), want)
        self.check(pair)

    @rule(session_id=IDS, kept=st.booleans(), is_negative=st.booleans(), layer=st.integers(0, 2))
    def lose_layer(self, session_id: str | None, kept: bool, is_negative: bool, layer: int) -> None:
        """One layer is released: the branch is partial, or not initialized without its first."""
        pair = hand, adapter = self.pair(session_id, kept)
        layers = hand.cached_kv.get(is_negative, [])
        if layer < len(layers) and layers[layer] is not None:
            member = adapter.session.get(f"{KEY[is_negative]}{layer}")
            assert member is not None
            assert member.evict() == sum(map(len, map(to_bytes, layers[layer] or ())))
            layers[layer] = None
        self.check(pair)

    @rule(session_id=IDS, kept=st.booleans())
    def reset(self, session_id: str | None, kept: bool) -> None:
        pair = self.pair(session_id, kept)
        for side in pair:
            assert side.reset() is None
        self.check(pair)

    # -- always ---------------------------------------------------------------------------------

    @invariant()
    def tables_agree(self) -> None:
        assert list(self.manager._table) == list(self.states.states)

    @invariant()
    def held_pairs_agree(self) -> None:
        for pair in (*self.held.values(), *self.orphans):
            self.check(pair)

    @invariant()
    def bytes_are_exact(self) -> None:
        """What is held is what the values need: no padding, no leftovers, held ones included."""
        held = [pair[0] for pair in (*self.held.values(), *self.orphans)]
        states = {id(state): state for state in (*self.states.states.values(), *held)}
        need = sum(
            len(to_bytes(part))
            for state in states.values()
            for pairs in (*state.cached_kv.values(), state.cached_freqs_gen.values())
            for pair in pairs
            if pair is not None
            for part in pair
        )
        assert self.manager.nbytes_by_device() == ({"cpu": need} if need else {})


Cosmos3Machine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestCosmos3Machine = Cosmos3Machine.TestCase


def test_set_branch_kv_when_padded_then_compaction_frees_exactly_the_padding() -> None:
    """A 40-token prompt padded to 512 holds 40 tokens' bytes: 12.8 times less, and equal bits."""
    padded = [tuple(torch.randn(1, 512, 8, 128).bfloat16() for _ in range(2)) for _ in range(3)]
    cached_kv = [(k[:, :40], v[:, :40]) for k, v in padded]
    manager = SessionStateManager()
    adapter = Cosmos3StateAdapter("request", manager)
    adapter.set_branch_kv(False, cached_kv)
    assert manager.nbytes_by_device() == {"cpu": 3 * 2 * 40 * 8 * 128 * 2}
    assert 3 * 2 * 512 * 8 * 128 * 2 / manager.stats()["total_nbytes"] == 12.8
    assert_same_bits(adapter.get_branch_kv(False), cached_kv)


def test_set_branch_kv_when_not_padded_then_the_very_pairs_are_kept() -> None:
    """Nothing is copied that holds no padding."""
    cached_kv = text_kv(2, KEPT_WHOLE, seed=1)
    adapter = Cosmos3StateAdapter("request", SessionStateManager())
    adapter.set_branch_kv(True, cached_kv)
    kept = adapter.get_branch_kv(True)
    assert kept is not None
    assert [id(pair) for pair in kept] == [id(pair) for pair in cached_kv]


def test_set_branch_kv_when_copy_fails_then_branch_is_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Out of memory at a later layer leaves every layer, and the frequencies, as they were."""
    adapter = Cosmos3StateAdapter("request", SessionStateManager())
    first, freqs = text_kv(3, 5, seed=1), rotary(1)
    transformer = SimpleNamespace(cached_kv=first, cached_freqs_gen=freqs)
    adapter.capture_from_transformer(transformer, False)
    second = text_kv(3, 5, seed=2)
    real_clone, left = torch.Tensor.clone, [4]

    def clone(self: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        left[0] -= 1
        if left[0] < 0:
            raise MemoryError("no room for the copy")
        return real_clone(self, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "clone", clone)
        with pytest.raises(MemoryError):
            adapter.set_branch_kv(False, second)
    assert_same_bits(adapter.get_branch_kv(False), first)
    loaded = SimpleNamespace()
    adapter.load_into_transformer(loaded, False)
    assert loaded.cached_freqs_gen is freqs


def test_capture_when_kv_copy_fails_then_neither_half_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both halves or nothing, also when the first one runs out of memory."""

    def clone(self: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        raise MemoryError("no room for the copy")

    adapter = Cosmos3StateAdapter("request", SessionStateManager())
    transformer = SimpleNamespace(cached_kv=text_kv(2, 5, seed=1), cached_freqs_gen=rotary(1))
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "clone", clone)
        with pytest.raises(MemoryError):
            adapter.capture_from_transformer(transformer, False)
    loaded = SimpleNamespace()
    adapter.load_into_transformer(loaded, False)
    assert vars(loaded) == {"cached_kv": None, "cached_freqs_gen": None}


def test_capture_when_first_layer_was_released_then_both_halves_are_stored_anew() -> None:
    """A branch that is not initialized any more takes new K/V and new frequencies."""
    adapter = Cosmos3StateAdapter("request", SessionStateManager())
    for seed in (1, 2):
        transformer = SimpleNamespace(cached_kv=text_kv(2, 5, seed), cached_freqs_gen=rotary(seed))
        adapter.capture_from_transformer(transformer, False)
        loaded = SimpleNamespace()
        adapter.load_into_transformer(loaded, False)
        assert_same_bits(vars(loaded), vars(transformer))
        first = adapter.session.get("und_kv/0")
        assert first is not None
        first.evict()


def test_generations_when_interleaved_on_one_transformer_then_each_sees_its_own() -> None:
    """Load, forward and capture per branch: two requests, both branches, bits as hand-rolled."""

    def forward(transformer: SimpleNamespace, seed: int) -> Any:
        if transformer.cached_kv is None:
            transformer.cached_kv = text_kv(3, 3 + seed % 5, seed)
            transformer.cached_freqs_gen = rotary(seed)
        total = sum(k.float().sum() * v.float().sum() for k, v in transformer.cached_kv)
        cos, sin = transformer.cached_freqs_gen
        return total + (cos * sin).float().sum()

    def run(state_of: Any) -> list[Any]:
        transformer = SimpleNamespace(cached_kv=None, cached_freqs_gen=None)
        out = []
        for _step in range(4):
            for seed, request in enumerate(("one", "two")):
                for is_negative in (False, True):
                    state = state_of(request)
                    state.load_into_transformer(transformer, is_negative)
                    out.append(forward(transformer, 2 * seed + is_negative))
                    state.capture_from_transformer(transformer, is_negative)
        return out

    manager = SessionStateManager()
    got = run(lambda request: Cosmos3StateAdapter(request, manager))
    assert_same_bits(got, run(HandRolledCosmos3States().get))
    assert len({to_bytes(total) for total in got}) == 4
