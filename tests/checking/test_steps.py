"""Steps and leases of a checked session look for themselves, and go back where they find fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from statekit.errors import DeclarationError
from statekit.manager import SessionStateManager
from tests.checking.toy import toy

pytestmark = pytest.mark.usefixtures("checked")


def latent(value: float) -> torch.Tensor:
    return torch.full((1, 4, 2, 8, 8), value)


def test_step_when_the_body_writes_into_a_value_then_raises_there_and_is_undone() -> None:
    """The operation raises before it writes; the step goes back as after any other error."""
    state = toy()
    state.latent = latent(1.0)
    with (
        pytest.raises(DeclarationError, match="writes into it, declared `update: replaced`"),
        state.step(),
    ):
        state.ring_object.append(torch.rand(2, 1, 8))
        state.latent.add_(1)
    assert torch.equal(state.latent, latent(1.0))
    assert len(state.ring_object) == 0
    with state.step():
        state.latent = latent(2.0)


def test_step_when_a_write_went_unseen_then_found_at_its_end_and_nothing_is_committed() -> None:
    """What numpy writes is found by a look before the commit."""
    state = toy()
    state.latent = latent(1.0)
    with pytest.raises(DeclarationError, match="written into"), state.step():
        state.ring_object.stage(torch.rand(2, 1, 8))
        shared: Any = state.latent.numpy()
        np.add(shared, 1, out=shared)
    assert state.ring_object.staged() is None
    assert len(state.ring_object) == 0
    with state.step():  # said once
        pass


def test_steps_when_undone_then_what_comes_back_is_no_finding() -> None:
    """Old values under old names are what the session holds, not a change behind its back."""
    state = toy()
    state.latent = latent(1.0)
    state.held_object.commit([torch.rand(3)])
    for value in range(4):
        with pytest.raises(KeyError), state.step():
            state.latent = latent(float(value))
            state.held_object.commit([torch.rand(5)])
            raise KeyError
        assert torch.equal(state.latent, latent(1.0))
        with state.step():
            state.latent = latent(1.0)


def test_lease_when_the_body_fails_then_its_error_is_the_one_that_is_seen() -> None:
    """A look after an error would hide it; the lease ends either way."""
    manager = SessionStateManager()
    manager.get_or_create_session("s")
    with pytest.raises(KeyError), manager.lease("s"):
        state = toy("s", manager)
        state.latent = latent(1.0)
        shared: Any = state.latent.numpy()
        shared += 1
        raise KeyError
    with pytest.raises(DeclarationError, match="written into"), manager.lease("s"):
        pytest.fail("the body ran")
    with pytest.raises(DeclarationError, match="written into"), manager.lease("s"):
        state.latent = latent(2.0)
        shared = state.latent.numpy()
        shared += 1
    assert manager.stats()["leases"] == 0
    with manager.lease("s"):
        pass


def test_fork_when_checked_then_its_own_and_nothing_is_said_of_what_they_share() -> None:
    """Each branch is looked at; a write into what is shared is found in both."""
    state = toy()
    state.latent = latent(1.0)
    fork = state.fork()
    with fork.step():
        fork.latent = latent(2.0)
    other = state.fork()
    with pytest.raises(DeclarationError, match="writes into"), other.step():
        other.latent.add_(1)
    fork.session.promote()
    with state.step():
        assert torch.equal(state.latent, latent(2.0))
