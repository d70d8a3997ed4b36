"""Matrix-Game 3.0's memory: what a run recalls is what lists of everything would give, bit for bit.

The hand-rolled side is written after the published pipeline: latents in a list that is joined for
each clip, conditions and poses that are joined with each.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from statekit.adapters.matrix_game_3 import MatrixGame3StateAdapter, latent_of
from statekit.errors import PayloadError
from statekit.manager import SessionStateManager
from tests.equivalence.bits import assert_same_bits

CHANNELS, HIGH, WIDE = 48, 2, 3
CLIPS = [(57, 15), (40, 10), (40, 10), (40, 10)]
SMALL = {"H": 16 * HIGH, "W": 16 * WIDE}


class HandRolledMemory:
    """What the published pipeline keeps in local variables."""

    def __init__(self) -> None:
        self.all_latents_list: list[torch.Tensor] = []
        self.extrinsics_all = torch.empty(0, 4, 4)
        self.keyboard_condition_all = torch.empty(1, 0, 6, dtype=torch.bfloat16)
        self.mouse_condition_all = torch.empty(1, 0, 2, dtype=torch.bfloat16)
        self.img_cond = torch.empty(0)

    def append(
        self, latents: torch.Tensor, keys: torch.Tensor, mouse: torch.Tensor, poses: torch.Tensor
    ) -> None:
        self.all_latents_list.append(latents)
        self.extrinsics_all = torch.cat([self.extrinsics_all, poses], dim=0)
        self.keyboard_condition_all = torch.cat([self.keyboard_condition_all, keys], dim=1)
        self.mouse_condition_all = torch.cat([self.mouse_condition_all, mouse], dim=1)
        self.img_cond = latents[:, :, -4:]

    def recall(self, frames: list[int]) -> torch.Tensor:
        numbers = [(frame - 1) // 4 + 1 for frame in frames]
        return torch.cat(self.all_latents_list, dim=2)[:, :, numbers]


def clip(frames: int, latents: int) -> tuple[torch.Tensor, ...]:
    """Latents, keys, mouse and poses of one clip."""
    return (
        torch.randn(1, CHANNELS, latents, HIGH, WIDE).to(torch.bfloat16),
        torch.randn(1, frames, 6).to(torch.bfloat16),
        torch.randn(1, frames, 2).to(torch.bfloat16),
        torch.randn(frames, 4, 4),
    )


def most_alike(poses: torch.Tensor, query: torch.Tensor, before: int) -> int:
    """Stands in for the overlap of fields of view: the nearest pose among older frames."""
    return 1 + int((poses[1:before] - query).flatten(1).square().sum(1).argmin())


def choice(poses: torch.Tensor, end: int) -> list[int]:
    """Five frames for the next clip, the last of which is always the same."""
    return [most_alike(poses, poses[end - back], end - 56) for back in (1, 9, 17, 25)] + [4]


def test_run_when_clips_are_recalled_then_bits_are_those_of_the_lists(tmp_path: Path) -> None:
    """Four clips, parked on disk after each: recalled frames, conditions, poses and the start of
    the next clip equal the hand-rolled ones."""
    torch.manual_seed(3)
    spec = MatrixGame3StateAdapter.SPEC
    manager = SessionStateManager(park_folder=tmp_path)
    hand = HandRolledMemory()
    end = 0
    for number, (frames, count) in enumerate(CLIPS):
        made = clip(frames, count)
        end += frames
        hand.append(*made)
        begin = None if number else spec
        with manager.lease("game", begin=begin, overrides=SMALL):
            state = MatrixGame3StateAdapter("game", manager)
            latents, keys, mouse, poses = made
            state.append_actions(keys, mouse, poses)
            state.append_clip(latents)
            assert state.extrinsics is not None
            assert_same_bits(state.extrinsics, hand.extrinsics_all, "poses")
            assert_same_bits(state.keyboard_condition, hand.keyboard_condition_all, "keys")
            assert_same_bits(state.mouse_condition, hand.mouse_condition_all, "mouse")
            assert_same_bits(state.img_cond, hand.img_cond, "start of the next clip")
            if number:
                chosen = choice(state.extrinsics, end)
                assert_same_bits(state.recall(chosen), hand.recall(chosen), "recalled")
        assert len(MatrixGame3StateAdapter("game", manager).latents_object) == (end - 1) // 4 + 1
    manager.close()


def test_memory_when_the_nearest_pose_is_asked_for_then_it_is_that_of_a_search_by_hand() -> None:
    """The store's own search finds the frame that was seen from the nearest pose."""
    torch.manual_seed(4)
    state = MatrixGame3StateAdapter("game", SessionStateManager())
    for frames, count in CLIPS[:2]:
        latents, keys, mouse, poses = clip(frames, count)
        state.append_actions(keys, mouse, poses)
        state.append_clip(latents)
    assert state.extrinsics is not None
    seen_from = state.extrinsics[::4]
    query = torch.randn(4, 4)
    distances = (seen_from - query).flatten(1).norm(dim=1)
    hits = state.latents_object.nearest(query, 5)
    assert [hit.position for hit in hits] == distances.argsort()[:5].tolist()
    for hit in hits:
        assert_same_bits(hit.value, state.recall([4 * hit.position]), "value")


def test_clip_when_poses_are_missing_then_nothing_is_remembered() -> None:
    """Latents without poses, actions of other lengths, frames that were never made."""
    state = MatrixGame3StateAdapter("game", SessionStateManager())
    latents, keys, mouse, poses = clip(57, 15)
    with pytest.raises(PayloadError, match="0 poses for 15 latents"):
        state.append_clip(latents)
    with pytest.raises(PayloadError, match="57 keys, 57 moves, 56 poses"):
        state.append_actions(keys, mouse, poses[1:])
    assert state.session.nbytes == 0
    state.append_actions(keys, mouse, poses)
    state.append_clip(latents)
    with pytest.raises(PayloadError, match=r"latent frames \[15\] of 15"):
        state.recall([3, 57])
    with pytest.raises(PayloadError, match="no frame"):
        state.recall([])
    state.reset()
    assert (state.session.nbytes, len(state.latents_object)) == (0, 0)


def test_frame_when_its_latent_is_asked_for_then_four_frames_share_one() -> None:
    """Frame 0 has a latent frame of its own, each later one stands for four."""
    assert [latent_of(frame) for frame in range(10)] == [0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
