"""Record: the books of a session are what a full count of it finds, whatever was done to it."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit.accounting import SeenStorages, merge_bytes
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from statekit.pressure.facts import _collect, session_facts

SHARED = torch.zeros(1, 8, 16)


@attrs.define
class Conditioning:
    embeds: torch.Tensor


def counted(manager: SessionStateManager, *ids: str) -> dict[str, int]:
    """Bytes by device of all sessions, walked anew."""
    seen, total = SeenStorages(), dict[str, int]()
    for session_id in ids:
        merge_bytes(total, manager.get_or_create_session(session_id).nbytes_by_device(seen))
    return total


def feature_map(size: int) -> list[torch.Tensor | None]:
    return [torch.zeros(size), torch.zeros(3), None]


def replace_entry(state: DreamZeroStateAdapter, size: int) -> None:
    """What the Wan encoder does: it replaces entries of the list that it was given."""
    held = state.vae_enc_feat_map
    if held is not None:
        held[size % len(held)] = torch.zeros(size)


def drop_entry(state: DreamZeroStateAdapter, size: int) -> None:
    held = state.vae_enc_feat_map
    if held is not None:
        held[size % len(held)] = None


def swap_in(state: DreamZeroStateAdapter, size: int) -> None:
    """An instance of a user's class among the carried values, changed inside."""
    state.session.attrs.setdefault("extra", Conditioning(SHARED)).embeds = torch.zeros(size)


CHANGES: dict[str, Callable[[DreamZeroStateAdapter, int], object]] = {
    "new map": lambda state, n: setattr(state, "vae_enc_feat_map", feature_map(n)),
    "shared map": lambda state, n: setattr(state, "vae_enc_feat_map", [SHARED, None]),
    "no map": lambda state, n: setattr(state, "vae_enc_feat_map", None),
    "entry": replace_entry,
    "entry to None": drop_entry,
    "entry of a copy": lambda state, n: (state.vae_enc_feat_map or []).copy().append(None),
    "tensor": lambda state, n: setattr(state, "clip_feas", torch.zeros(n)),
    "shared tensor": lambda state, n: setattr(state, "ys", SHARED),
    "view of it": lambda state, n: setattr(state, "prompt_embeds", SHARED[:, :1]),
    "counter": lambda state, n: setattr(state, "call_count", n),
    "array": lambda state, n: state.session.attrs.update(raw=np.zeros(n)),
    "views of the array": lambda state, n: state.session.attrs.update(
        view=torch.from_numpy(state.session.attrs.get("raw", np.zeros(4))[1:])
    ),
    "attrs": swap_in,
    "frames": lambda state, n: state.accumulate_frames(np.zeros((n % 6 + 1, 2, 2, 3), np.uint8)),
    "latents": lambda state, n: state.append_video_latents(torch.zeros(1, 1, 2, 2, n)),
    "staged": lambda state, n: state.video_latents_across_time_object.stage(torch.zeros(n)),
    "evicted": lambda state, n: state.vae_encoder_out_object.evict(),
    "window": lambda state, n: state.reset_window(),
    "session": lambda state, n: state.reset(),
}
STEPS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(sorted(CHANGES)), st.integers(1, 40)),
    max_size=25,
)


@given(STEPS)
def test_stats_when_sessions_change_in_any_way_then_exact_in_bytes(
    steps: list[tuple[str, str, int]],
) -> None:
    """After every change `stats()` and a full count of all sessions agree to the byte."""
    manager = SessionStateManager()
    for session_id, change, size in steps:
        CHANGES[change](DreamZeroStateAdapter(session_id, manager), size)
        stats = manager.stats()
        want = counted(manager, "a", "b")
        assert {d: n for d in ("cpu",) if (n := stats.get(f"nbytes:{d}", 0))} == want
        assert stats["total_nbytes"] == sum(want.values())


@given(STEPS, st.booleans())
def test_facts_when_remembered_then_those_of_a_new_look(
    steps: list[tuple[str, str, int]], may_be_lost: bool
) -> None:
    """What the planner is told from memory is what it would be told otherwise."""
    manager = SessionStateManager(budgets={"cpu": 10**12})
    spec = attrs.evolve(DreamZeroStateAdapter.SPEC, may_be_lost=may_be_lost)
    for session_id in "ab":
        with manager.lease(session_id, begin=spec):
            pass
    states = {session_id: DreamZeroStateAdapter(session_id, manager) for session_id in "ab"}
    for session_id, change, size in steps:
        # No lease, so that nothing but the change itself says that something changed.
        CHANGES[change](states[session_id], size)
        for record in manager._refreshed():
            ledger = manager._relief._ledger
            told = session_facts(record, ledger, ("disk",))
            assert told == _collect(record, ledger, ("disk",))
            assert session_facts(record, ledger, ("disk",)) == told


def test_facts_when_nothing_changed_then_the_very_same() -> None:
    """Facts of an idle session are not collected twice."""
    manager = SessionStateManager(budgets={"cpu": 10**12})
    with manager.lease("a", begin=DreamZeroStateAdapter.SPEC):
        DreamZeroStateAdapter("a", manager).vae_enc_feat_map = feature_map(8)
    record, ledger = manager._refreshed()[0], manager._relief._ledger
    first = session_facts(record, ledger, ("disk",))
    manager.stats()
    assert session_facts(record, ledger, ("disk",)) is first
