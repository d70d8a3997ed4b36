"""Faults come where they are asked for, once; and what a failure must not change is noticed."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit.errors import ParkError, SnapshotError
from statekit.manager import SessionStateManager
from statekit.objects import LatentBuffer
from statekit.session import SessionState
from statekit.state_object import StateObject
from statekit.testing import FaultError, Faults, assert_unchanged, holding, park_now, unchanged
from tests.testing.toys import Toy, toy, values


def filled(state: Any) -> Any:
    state.push(values(1, 4, 8))
    state.remember(values(2, 2, 4, dtype=torch.bfloat16))
    state.cache = [values(3, 4), None]
    return state


def test_everywhere_when_a_step_is_whole_then_fails_at_each_access() -> None:
    """Every access of a forward fails in turn; the session is as before, and then it passes."""
    state = filled(toy())

    def forward() -> None:
        with state.step():
            state.push(values(4, 4, 8))
            state.cache[1] = values(5, 4)
            state.remember(values(6, 2, 4, dtype=torch.bfloat16))
            state.count += 1

    assert Faults().everywhere(forward, state) > 12
    assert (state.count, len(state.frames), len(state.history)) == (1, 2, 2)
    assert Faults().everywhere(forward, state, "commit") >= 2
    assert state.count == 2


def test_everywhere_when_there_is_no_step_then_says_after_which_access_what_changed() -> None:
    """Without a step a failure in the middle leaves half of it: that is what the kit is to find."""
    state = filled(toy())

    def forward() -> None:
        state.count += 1
        state.push(values(4, 4, 8))

    with pytest.raises(AssertionError, match=r"after access \d+ failed: the session has changed: "):
        Faults().everywhere(forward, state)


def test_everywhere_when_a_fault_is_swallowed_then_said_so() -> None:
    """A forward that hides a failed access goes on with half a state."""
    state = toy()

    def forward() -> None:
        with contextlib.suppress(FaultError):
            state.count += 1

    with pytest.raises(AssertionError, match="access 0 failed, and nobody was told"):
        Faults().everywhere(forward, state)


def test_failing_when_counted_only_then_nothing_fails() -> None:
    """With None the point is counted, in own methods too."""
    state = toy()
    with Faults().failing("access", None) as seen:
        state.push(values(4, 4, 8))
        state.count += 1
    assert not seen.happened
    assert seen.count > 4


def test_failing_when_a_park_or_restore_fails_then_the_value_is_where_it_was(
    tmp_path: Path,
) -> None:
    """A failed park leaves the original; a failed restore leaves the parked copy."""
    manager = SessionStateManager(park_folder=tmp_path)
    with manager.lease("s", begin=Toy.SPEC):
        state = filled(Toy("s", manager))
    with Faults().failing("park") as fault, unchanged(state):
        assert park_now(manager) == 0
    assert fault.happened
    assert park_now(manager) == 1
    with Faults().failing("restore"), pytest.raises(ParkError, match="a fault was asked for"):
        _ = state.cache
    assert state.cache[0].equal(values(3, 4))


def test_failing_when_a_disk_is_full_then_no_file_and_no_change(tmp_path: Path) -> None:
    """Every write of a snapshot fails in turn; files of other programs are written as ever."""
    manager = SessionStateManager()
    state = filled(Toy("s", manager))
    path = tmp_path / "s.snap"
    want = state.count
    failed = 0
    while True:
        with Faults().failing("write", failed) as fault:
            (tmp_path / "other").write_bytes(b"1")
            try:
                manager.save("s", path)
            except SnapshotError:
                assert fault.happened
        if not fault.happened:
            break
        failed += 1
    assert failed >= 3
    assert sorted(one.name for one in tmp_path.iterdir()) == ["other", "s.snap"]
    assert state.count == want


def test_failing_when_the_block_ends_then_everything_is_as_it_was() -> None:
    """Methods and functions are the very ones they were, also after an error."""
    before = [vars(one).copy() for one in (os, Toy.__mro__[1], SessionState, StateObject)]
    before.append(vars(LatentBuffer).copy())
    for point in ("access", "commit", "park", "restore", "write"):
        with pytest.raises(KeyError), Faults().failing(point):  # type: ignore[arg-type]
            raise KeyError
    after = [vars(one).copy() for one in (os, Toy.__mro__[1], SessionState, StateObject)]
    assert [*after, vars(LatentBuffer).copy()] == before


def test_failing_when_asked_for_an_error_or_a_point_that_is_none_then_as_told() -> None:
    """Any error can be had; a point that there is not is refused."""
    state = toy()
    full = OSError(errno.EIO, "no disk")
    with Faults().failing("access", 0, full), pytest.raises(OSError, match="no disk"):
        _ = state.count
    with (
        pytest.raises(ValueError, match="no point 'read'; use one of access, commit"),
        Faults().failing("read"),  # type: ignore[arg-type]
    ):
        pass


CHANGES = {
    "attrs": lambda state: setattr(state, "count", 5),
    "new": lambda state: setattr(state, "prompt", values(1, 4)),
    "bit": lambda state: state.latent.view(torch.int16)[0].__ixor__(1),
    "staged": lambda state: state.frames_object.stage(values(1, 4, 8)),
    "entry": lambda state: state.cache.__setitem__(1, values(1, 4)),
    "object": lambda state: state.session.put("frames", LatentBuffer().allocate()),
    "equal": lambda state: setattr(state, "latent", state.latent.clone()),
    "gone": lambda state: state.session.remove("cache"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_holding_when_anything_changes_then_noticed(change: str) -> None:
    """A bit, a staged item, an equal tensor in the place of the same one: each is a change."""
    state = filled(toy())
    before = holding(state)
    assert_unchanged(state, before)
    CHANGES[change](state)
    with pytest.raises(AssertionError, match="the session has changed"):
        assert_unchanged(state, before)
