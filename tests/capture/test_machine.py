"""Any sequence of steps, failures, forks and promotions, against plain copies of what was there."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis.strategies as st
import torch
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.capture.sessions import frame, latents
from tests.equivalence.bits import assert_same_bits

VALUES = st.integers(0, 9)
CARRIED = st.sampled_from(["call_count", "clip_feas", "ys", "language", "vae_pending_body_frames"])


def read_all(state: DreamZeroStateAdapter) -> dict[str, Any]:
    """What a reader gets of every value, and what is committed of the buffers."""
    found = {one.name: getattr(state, one.name) for one in state.SPEC.values}
    for name in ("stitched_buffer", "video_latents_across_time", "vae_encoder_out"):
        buffer = getattr(state, f"{name}_object")
        found[f"{name} committed"] = buffer.view(include_staged=False)
    return copy.deepcopy(found)


class Branches(RuleBasedStateMachine):
    """One session with its forks; `models` are what each should read."""

    @initialize()
    def begin(self) -> None:
        self.manager = SessionStateManager()
        self.branches: list[DreamZeroStateAdapter] = [DreamZeroStateAdapter("s", self.manager)]
        self.steps: list[tuple[int, Any, dict[str, Any]]] = []
        self.models = [read_all(self.branches[0])]
        self.past = [0]  # of each branch: which promotion it comes after
        self.promotions = 0

    def branch(self, index: int) -> int:
        return index % len(self.branches)

    def wrote(self, index: int) -> None:
        self.models[index] = read_all(self.branches[index])

    def write(self, index: int, change: Any) -> None:
        """Change one branch, and check that it alone has changed."""
        index = self.branch(index)
        change(self.branches[index])
        self.wrote(index)

    @rule(index=VALUES, name=CARRIED, value=VALUES)
    def assign(self, index: int, name: str, value: int) -> None:
        given = value if name == "call_count" else torch.full((2,), float(value))
        self.write(index, lambda state: setattr(state, name, given))

    @rule(index=VALUES, value=VALUES)
    def append(self, index: int, value: int) -> None:
        self.write(index, lambda state: state.append_video_latents(latents(float(value))))

    @rule(index=VALUES, value=VALUES)
    def stage(self, index: int, value: int) -> None:
        block = torch.full((1, 16, 2, 1, 1), float(value))
        self.write(index, lambda state: state.video_latents_across_time_object.stage(block))

    @rule(index=VALUES)
    def discard(self, index: int) -> None:
        self.write(index, lambda state: state.video_latents_across_time_object.discard())

    @rule(index=VALUES, value=VALUES)
    def frames(self, index: int, value: int) -> None:
        self.write(index, lambda state: state.accumulate_frames(frame(value)))

    @rule(index=VALUES, value=VALUES, count=st.integers(1, 3))
    def encode(self, index: int, value: int, count: int) -> None:
        def change(state: DreamZeroStateAdapter) -> None:
            state.append_vae_encoder_chunk(torch.full((1, 32, count, 1, 1), float(value)))
            feat_map = state.vae_enc_feat_map
            if feat_map is None:
                feat_map = [None] * 3
            feat_map[value % 3] = torch.full((2,), float(value))
            state.vae_enc_feat_map = feat_map

        self.write(index, change)

    @rule(index=VALUES, name=st.sampled_from(["reset", "reset_window", "reset_vae_encoder_stream"]))
    def reset(self, index: int, name: str) -> None:
        index = self.branch(index)
        if index == 0 and name == "reset":
            self.promotions += 1  # an origin that began anew takes no fork any more
        self.write(index, lambda state: getattr(state, name)())

    @precondition(lambda self: len(self.steps) < 3)
    @rule(index=VALUES)
    def begin_step(self, index: int) -> None:
        index = self.branch(index)
        step = self.branches[index].step()
        step.__enter__()
        self.steps.append((index, step, {**self.models[index], "promotions": self.promotions}))

    @precondition(lambda self: self.steps)
    @rule(fails=st.booleans())
    def end_step(self, fails: bool) -> None:
        index, step, before = self.steps.pop()
        promotions = before.pop("promotions")
        if fails:
            step.__exit__(KeyError, KeyError(), None)
            self.models[index] = before
            if index == 0:
                self.promotions = promotions
        else:
            step.__exit__(None, None, None)
            committed = read_all(self.branches[index])
            for name in ("stitched_buffer", "video_latents_across_time"):
                assert_same_bits(committed[f"{name} committed"], self.models[index][name])
            self.wrote(index)

    @precondition(lambda self: len(self.branches) < 4)
    @rule()
    def fork(self) -> None:
        self.branches.append(self.branches[0].fork())
        self.models.append(copy.deepcopy(self.models[0]))
        self.past.append(self.promotions)

    @precondition(lambda self: len(self.branches) > 1 and not self.steps)
    @rule(index=st.integers(1, 3), keep=st.booleans())
    def end_fork(self, index: int, keep: bool) -> None:
        index = 1 + index % (len(self.branches) - 1)
        fork = self.branches.pop(index)
        model, past = self.models.pop(index), self.past.pop(index)
        if keep and past == self.promotions:
            fork.session.promote()
            self.models[0] = model
            self.promotions += 1
        else:
            fork.session.discard()

    @invariant()
    def reads_are_those_of_the_models(self) -> None:
        for index, (state, model) in enumerate(zip(self.branches, self.models, strict=True)):
            assert_same_bits(read_all(state), model, f"branch {index}")

    @invariant()
    def bytes_are_counted_once(self) -> None:
        total = self.manager.nbytes_by_device()
        apart = sum(state.session.nbytes for state in self.branches)
        assert total.get("cpu", 0) <= apart
        assert total.get("cpu", 0) >= self.branches[0].session.nbytes


TestBranches = Branches.TestCase
TestBranches.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
