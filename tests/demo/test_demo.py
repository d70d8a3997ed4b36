"""The demo's rollouts at a small size: what they find, and that they would find a fault."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from rich.console import Console

from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.demo.camera import stitched_frames
from tests.demo.comparison import Comparison
from tests.demo.cosmos3 import Cosmos3Rollout
from tests.demo.dreamzero import DreamZeroRollout
from tests.demo.show import print_summary, track

pytestmark = pytest.mark.usefixtures("one_thread")

Frames = npt.NDArray[np.uint8]


def dreamzero() -> DreamZeroRollout:
    return DreamZeroRollout(steps=6, height=32, width=32, base_dim=4)


def cosmos3() -> Cosmos3Rollout:
    return Cosmos3Rollout(steps=2, layers=2, padded_tokens=64)


def run(rollout: DreamZeroRollout | Cosmos3Rollout) -> tuple[Comparison, str]:
    """The findings, and what the demo prints in a pipe."""
    out = io.StringIO()
    console = Console(file=out, width=80, highlight=False)
    track(console, rollout)
    print_summary(console, [rollout.comparison])
    return rollout.comparison, out.getvalue()


@pytest.mark.parametrize("make", [dreamzero, cosmos3])
def test_rollout_when_both_sides_agree_then_says_so(
    make: Callable[[], DreamZeroRollout | Cosmos3Rollout],
) -> None:
    """Bits and bytes agree at every step, and nothing is left after the session."""
    comparison, text = run(make())
    assert comparison.equal
    assert comparison.tensors > 50
    assert comparison.reported == comparison.held != {}
    assert comparison.after == 0
    assert f"yes, {comparison.tensors:,} tensors compared" in text
    assert "\x1b" not in text
    assert all(len(line) <= 80 and line == line.rstrip() for line in text.splitlines())


def test_dreamzero_when_one_pixel_differs_then_names_the_step_and_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fault in the generated side is found, with the place where it shows first."""
    accumulate = DreamZeroStateAdapter.accumulate_frames

    def off_by_one(self: DreamZeroStateAdapter, stitched: Frames) -> Frames:
        chunk = accumulate(self, stitched)
        if self.call_count == 3:
            chunk[-1, 0, 0, 0] ^= 255
        return chunk

    monkeypatch.setattr(DreamZeroStateAdapter, "accumulate_frames", off_by_one)
    comparison, text = run(dreamzero())
    assert comparison.first_difference is not None
    assert comparison.first_difference.startswith("step 3: vae_pending_body_frames")
    assert "NO, first at" in text


def test_dreamzero_when_a_byte_is_not_reported_then_it_is_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The comparison also fails on bytes alone."""
    stats = SessionStateManager.stats

    def one_less(self: SessionStateManager) -> dict[str, int]:
        return {key: n - 1 if key == "nbytes:cpu" else n for key, n in stats(self).items()}

    monkeypatch.setattr(SessionStateManager, "stats", one_less)
    comparison, _ = run(dreamzero())
    assert comparison.first_difference is not None
    assert comparison.first_difference.startswith("step 1: ")
    assert "bytes reported" in comparison.first_difference


def test_cosmos3_when_branches_are_swapped_then_it_is_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A state that hands out the other branch's values changes the outcome."""
    get_branch_kv = Cosmos3StateAdapter.get_branch_kv
    monkeypatch.setattr(
        Cosmos3StateAdapter,
        "get_branch_kv",
        lambda self, is_negative: get_branch_kv(self, not is_negative),
    )
    comparison, _ = run(cosmos3())
    assert not comparison.equal


def test_frames_when_panned_then_smooth_and_of_the_size_asked() -> None:
    """Two frames in a row differ, by a small pan and not by a cut."""
    frames = list(itertools.islice(stitched_frames(176, 320), 3))
    assert {frame.shape for frame in frames} == {(176, 320, 3)}
    assert not np.array_equal(frames[0], frames[1])
    assert np.abs(frames[0].astype(int) - frames[1]).mean() < 30
