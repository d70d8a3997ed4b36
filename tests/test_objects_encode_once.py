"""EncodeOnce: written once, reread until the end."""

from __future__ import annotations

import pytest
import torch

from statekit.errors import AlreadyEncodedError, PayloadError
from statekit.objects import EncodeOnce
from statekit.on_commit import OnCommit


def test_view_when_committed_then_the_very_object() -> None:
    """A reader gets the object that was stored, every time."""
    payload = (torch.ones(1), torch.ones(2))
    once = EncodeOnce[tuple[torch.Tensor, torch.Tensor]]().allocate()
    assert (once.view(), once.encoded) == (None, False)
    once.append(payload)
    assert once.encoded
    assert once.view() is once.view() is payload


@pytest.mark.parametrize("write", ["stage", "append", "commit"])
def test_write_when_encoded_already_then_refused(write: str) -> None:
    """What has been read must not change: a second value is an error and the first one stays."""
    once = EncodeOnce[str]().allocate()
    once.append("first")
    with pytest.raises(AlreadyEncodedError, match=r"reset\(\)") as caught:
        getattr(once, write)("second")
    assert isinstance(caught.value, RuntimeError)
    assert once.view() == "first"


def test_stage_when_staged_already_then_newer_takes_its_place() -> None:
    """Before the commit a staged value may be replaced; a refused one replaces nothing."""
    once = EncodeOnce[str]().allocate()
    once.stage("draft")
    once.stage("better")
    with pytest.raises(PayloadError):
        once.stage(None)  # type: ignore[arg-type]
    assert (once.view(), once.encoded) == ("better", False)
    once.commit()
    assert (once.view(), once.encoded) == ("better", True)


def test_encode_anew_when_reset_and_allocated_then_allowed() -> None:
    """After reset() and allocate() another value may be encoded."""
    once = EncodeOnce[str]().allocate()
    once.append("first")
    once.reset()
    once.allocate()
    once.append("second")
    assert once.view() == "second"


def test_append_when_compacted_then_padding_is_free() -> None:
    """With compact, a slice of a padded tensor holds its own bytes alone."""
    padded = torch.arange(512.0).reshape(1, 512)
    once = EncodeOnce[torch.Tensor]().allocate(on_commit=OnCommit(compact=True))
    once.append(padded[:, :40])
    kept = once.view()
    assert kept is not None
    assert torch.equal(kept, padded[:, :40])
    assert once.nbytes_by_device() == {"cpu": 40 * 4}
