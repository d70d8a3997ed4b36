"""LingBot-World-Fast's rings: one denoise step's history for all, and K/V as the dense rings have.

The hand-rolled side is written after the published class: tensors that are made once, with cursors,
in which old frames are shifted left after the sink.
"""

from __future__ import annotations

import pytest
import torch

from statekit.adapters.lingbot_world_fast import LingbotWorldFastStateAdapter
from statekit.errors import ParameterError
from statekit.manager import SessionStateManager
from tests.equivalence.bits import assert_same_bits

LAYERS, SLOTS, TOKENS, HEADS, SIZE = 2, 3, 4, 2, 8
WINDOW, SINK = 10, 3


class DenseRing:
    """One layer's K/V in one denoise step: a tensor of fixed size, and two cursors."""

    def __init__(self) -> None:
        self.kv = torch.zeros(2, 1, WINDOW, TOKENS, HEADS, SIZE, dtype=torch.bfloat16)
        self.local_end = self.global_end = 0

    def append(self, block: torch.Tensor) -> None:
        frames = block.shape[2]
        over = max(0, self.local_end + frames - WINDOW)
        if over:
            kept = self.kv[:, :, SINK + over : self.local_end].clone()
            self.kv[:, :, SINK : self.local_end - over] = kept
        start = self.local_end - over
        self.kv[:, :, start : start + frames] = block
        self.local_end, self.global_end = start + frames, self.global_end + frames

    def seen(self) -> torch.Tensor:
        return self.kv[:, :, : self.local_end]


def block(frames: int) -> torch.Tensor:
    return torch.randn(2, 1, frames, TOKENS, HEADS, SIZE).to(torch.bfloat16)


def adapter() -> LingbotWorldFastStateAdapter:
    return LingbotWorldFastStateAdapter("one", SessionStateManager(), window=WINDOW, sink=SINK)


def test_rings_when_calls_follow_then_attention_sees_what_dense_rings_show() -> None:
    """Twelve calls over all denoise steps and layers: the same frames and the same cursors."""
    torch.manual_seed(1)
    state = adapter()
    hand = {(slot, layer): DenseRing() for slot in range(SLOTS) for layer in range(LAYERS)}
    for call in range(12):
        for (slot, layer), dense in hand.items():
            made = block(1 + (call % 2))
            dense.append(made)
            state.ring(slot, layer, layers=LAYERS).append(made)
        state.advance(1 + (call % 2))
        for (slot, layer), dense in hand.items():
            ring = state.ring(slot, layer, layers=LAYERS)
            assert (ring.local_end, ring.global_end) == (dense.local_end, dense.global_end)
            assert_same_bits(ring.view(), dense.seen(), f"slot {slot}, layer {layer}")
    assert state.current_lat_f == hand[0, 0].global_end
    assert len(state.kv()) == SLOTS * LAYERS


def test_slots_when_seeded_from_one_then_they_share_it_and_go_on_alone() -> None:
    """No byte is added, cursors come along, and no ring sees what another one gets later."""
    torch.manual_seed(2)
    state = adapter()
    for layer in range(LAYERS):
        for _ in range(4):
            state.ring(1, layer, layers=LAYERS).append(block(3))
        state.ring(0, layer, layers=LAYERS).append(block(1))
    one_slot = sum(state.ring(1, layer, layers=LAYERS).nbytes for layer in range(LAYERS))
    state.seed_all_slots_from(1, layers=LAYERS, slots=SLOTS)
    assert state.session.nbytes == one_slot
    for layer in range(LAYERS):
        source = state.ring(1, layer, layers=LAYERS)
        before = source.view()
        assert before is not None
        for slot in (0, 2):
            ring = state.ring(slot, layer, layers=LAYERS)
            assert (ring.local_end, ring.global_end) == (WINDOW, 12)
            assert_same_bits(ring.view(), before, f"slot {slot}, layer {layer}")
            ring.append(block(1))
        assert_same_bits(source.view(), before, "the source")
        assert (source.local_end, source.global_end) == (WINDOW, 12)


def test_ring_when_there_is_no_such_one_then_the_number_is_named() -> None:
    """Layers and denoise steps are checked, so that no ring stands for two."""
    state = adapter()
    with pytest.raises(ParameterError, match="layer"):
        state.ring(0, LAYERS, layers=LAYERS)
    with pytest.raises(ParameterError, match="slot"):
        state.ring(-1, 0, layers=LAYERS)
    state.current_start_frame = 3
    state.reset()
    assert (state.current_start_frame, state.session.nbytes) == (0, 0)
