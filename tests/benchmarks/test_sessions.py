"""What it costs to find a session, to do one forward's state work, and to count all bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.equivalence.hand_rolled_dreamzero import (
    HandRolledDreamZeroState,
    HandRolledDreamZeroStates,
    append_encoder_chunk,
    newest_latent_frames,
)
from tests.equivalence.held import held_bytes

SESSIONS = 64
IDS = [f"robot-{index}" for index in range(SESSIONS)]

# Small on purpose: what is measured is the handling of values, not the copying of pixels.
TOKENS = torch.arange(8)[None]
EMBEDS = torch.zeros(1, 8, 16, dtype=torch.bfloat16)
FRAMES = np.zeros((4, 16, 16, 3), np.uint8)
PENDING = torch.zeros(1, 3, 1, 16, 16, dtype=torch.bfloat16)
ENCODED = torch.zeros(1, 32, 1, 2, 2, dtype=torch.bfloat16)
VIDEO = torch.zeros(1, 2, 16, 2, 2, dtype=torch.bfloat16)


def feature_map() -> list[torch.Tensor | None]:
    return [*(torch.zeros(1, 8, 2, 4, 4, dtype=torch.bfloat16) for _ in range(24)), None, None]


class LockedTable:
    """The least that a table of sessions needs: a lock, an order of use, a bound."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.table: OrderedDict[str, HandRolledDreamZeroState] = OrderedDict()

    def get(self, session_id: str) -> HandRolledDreamZeroState:
        with self.lock:
            state = self.table.get(session_id)
            if state is None:
                state = self.table[session_id] = HandRolledDreamZeroState(session_id)
                if len(self.table) > SESSIONS:
                    self.table.popitem(last=False)
            self.table.move_to_end(session_id)
            return state


def forward(state: Any) -> None:
    """The state's part of one forward that completes a chunk, in the pipeline's order."""
    if state.reset_reason(TOKENS, 4, -1) == "session":
        state.reset()
    state.language = TOKENS
    state.accumulate_frames(FRAMES)
    if state.prompt_embeds is None:
        state.prompt_embeds = EMBEDS
    if state.current_start_frame == 0:
        state.vae_enc_feat_map, state.vae_encoder_out = feature_map(), ENCODED
        state.vae_stream_initialized = True
        state.clip_feas = state.ys = EMBEDS
    if state.vae_pending_body_frames is None:
        state.vae_pending_body_frames = PENDING
    feat_map = state.vae_enc_feat_map
    if isinstance(state, HandRolledDreamZeroState):
        append_encoder_chunk(state, ENCODED)
        newest_latent_frames(state.vae_encoder_out, 2)
    else:
        state.append_vae_encoder_chunk(ENCODED)
        state.newest_vae_encoder_frames(2)
    state.vae_enc_feat_map = feat_map
    state.vae_pending_body_frames = None
    state.current_start_frame += 2
    state.append_video_latents(VIDEO)


def mark(benchmark: Any, group: str, subject: str, *, baseline: bool = False, n: int = 1) -> None:
    benchmark.group = group
    benchmark.extra_info.update(subject=subject, baseline=baseline, operations=n)


def locked_table() -> Callable[[str], object]:
    return LockedTable().get


def manager_alone() -> Callable[[str], object]:
    return SessionStateManager(SESSIONS).get_or_create_session


def manager_and_adapter() -> Callable[[str], object]:
    manager = SessionStateManager(SESSIONS)
    return lambda session_id: DreamZeroStateAdapter(session_id, manager)


@pytest.mark.parametrize(
    ("subject", "make", "baseline"),
    [
        ("ordered dict with a lock", locked_table, True),
        ("manager", manager_alone, False),
        ("manager, and an adapter for it", manager_and_adapter, False),
    ],
)
def test_session_when_known_then_found(
    benchmark: Any, subject: str, make: Callable[[], Callable[[str], object]], baseline: bool
) -> None:
    """A session that is in the table, each of 64 in turn."""
    find = make()
    mark(benchmark, "Find a session", subject, baseline=baseline, n=SESSIONS)

    def find_all() -> None:
        for session_id in IDS:
            find(session_id)

    find_all()
    benchmark(find_all)


@pytest.mark.parametrize(("subject", "baseline"), [("hand-rolled", True), ("adapter", False)])
def test_forward_when_a_chunk_completes(benchmark: Any, subject: str, baseline: bool) -> None:
    """All that one DreamZero forward does with its session's state, the look-up included."""
    hand, manager = HandRolledDreamZeroStates(), SessionStateManager()

    def find() -> Any:
        return hand.get("robot") if baseline else DreamZeroStateAdapter("robot", manager)

    def start() -> None:
        """A rollout of 100 forwards: then a hand-rolled history is 101 frames long."""
        find().reset()
        for _ in range(100):
            forward(find())

    mark(benchmark, "One forward's state work", subject, baseline=baseline, n=10)

    def ten_forwards() -> None:
        for _ in range(10):
            forward(find())

    benchmark.pedantic(ten_forwards, setup=start, rounds=60)


@pytest.mark.parametrize(("subject", "baseline"), [("plain walk", True), ("stats()", False)])
def test_bytes_when_64_sessions_are_live(benchmark: Any, subject: str, baseline: bool) -> None:
    """Count what 64 DreamZero sessions hold, each with 20 forwards behind it."""
    manager = SessionStateManager(SESSIONS)
    for session_id in IDS:
        for _ in range(20):
            forward(DreamZeroStateAdapter(session_id, manager))
    sessions = [manager.get_or_create_session(session_id) for session_id in IDS]
    roots = [
        [session.attrs, *(obj.view() for name in session.names if (obj := session.get(name)))]
        for session in sessions
    ]
    assert held_bytes(*roots) == manager.nbytes_by_device()  # both do the same work
    mark(benchmark, "Count the bytes of 64 sessions", subject, baseline=baseline)
    if baseline:
        benchmark(lambda: held_bytes(*roots))
    else:
        benchmark(manager.stats)
