"""StateAdapter: a view of one session, through the generated DreamZero class and a toy."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any, ClassVar

import pytest
import torch

from statekit.adapter import StateAdapter
from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.attr import SessionAttr
from statekit.errors import ParameterConflictError, ParameterError
from statekit.manager import SessionStateManager
from statekit.spec import ModelSpec, Parameter, ValueSpec


def chunk(frames: int) -> torch.Tensor:
    return torch.ones(1, 32, frames, 2, 2)


def test_new_adapter_when_session_exists_then_sees_what_the_last_one_wrote() -> None:
    """An adapter made per forward is a view: carried values and objects are the session's."""
    manager = SessionStateManager()
    first = DreamZeroStateAdapter("s", manager)
    first.call_count = 3
    first.ys = ys = torch.ones(1)
    first.append_vae_encoder_chunk(chunk(1))
    second = DreamZeroStateAdapter("s", manager)
    assert (second.call_count, second.ys) == (3, ys)
    assert second.vae_encoder_out_object is first.vae_encoder_out_object
    second.call_count = 4
    assert first.call_count == 4


def test_adapter_when_kept_then_session_outlives_its_eviction() -> None:
    """An adapter keeps its session alive after the table has let it go, and only that long."""
    manager = SessionStateManager(max_sessions=1)
    adapter = DreamZeroStateAdapter("s", manager)
    adapter.language = torch.ones(4)
    session = weakref.ref(adapter.session)
    manager.get_or_create_session("other")
    assert "s" not in manager
    assert adapter.language is not None
    assert DreamZeroStateAdapter("s", manager).session is adapter.session
    manager.get_or_create_session("other")
    del adapter
    gc.collect()
    assert session() is None


@pytest.mark.parametrize(
    ("session_id", "key"), [("s", "s"), (None, "default"), ("", "default"), ("ü/✓", "ü/✓")]
)
def test_session_id_when_read_then_what_was_passed_in(session_id: str | None, key: str) -> None:
    """session_id is the caller's own; the session's is the key in the table."""
    adapter = Cosmos3StateAdapter(session_id, SessionStateManager())
    assert adapter.session_id == session_id
    assert adapter.session.session_id == key


def test_session_id_when_assigned_then_refused() -> None:
    """The two links to the session are read-only."""
    adapter: Any = Cosmos3StateAdapter("s", SessionStateManager())
    for name in ("session_id", "session"):
        with pytest.raises(AttributeError):
            setattr(adapter, name, "other")


@pytest.mark.parametrize("window", [0, -3, True, 1.5, "2", None])
def test_parameter_when_out_of_bounds_then_named_and_no_session_made(window: Any) -> None:
    """A bad vae_encoder_window is a ValueError that names it, and leaves the table as it was."""
    manager = SessionStateManager()
    with pytest.raises(ParameterError, match="vae_encoder_window") as caught:
        DreamZeroStateAdapter("s", manager, vae_encoder_window=window)
    assert isinstance(caught.value, ValueError)
    assert len(manager) == 0


class Bounded(StateAdapter):
    """An adapter whose parameter has a maximum."""

    SPEC: ClassVar[ModelSpec] = ModelSpec(
        model="bounded", parameters={"size": Parameter(default=1, minimum=1, maximum=4)}
    )


def test_parameter_when_at_its_bounds_then_accepted_and_beyond_refused() -> None:
    """Both bounds belong to the range."""
    manager = SessionStateManager()
    Bounded("low", manager, size=1)
    Bounded("high", manager, size=4)
    with pytest.raises(ParameterError, match="size: got 5; pass at most 4"):
        Bounded("beyond", manager, size=5)


def test_parameter_when_two_adapters_disagree_then_second_is_refused() -> None:
    """One session has one ring: another window is an error until the session is reset."""
    manager = SessionStateManager()
    first = DreamZeroStateAdapter("s", manager, vae_encoder_window=2)
    with pytest.raises(ParameterConflictError, match="vae_encoder_window=2, now 3"):
        DreamZeroStateAdapter("s", manager, vae_encoder_window=3)
    DreamZeroStateAdapter("other", manager, vae_encoder_window=3)
    first.reset()
    wider = DreamZeroStateAdapter("s", manager, vae_encoder_window=3)
    wider.append_vae_encoder_chunk(chunk(5))
    assert wider.newest_vae_encoder_frames(3) is not None


@pytest.mark.parametrize("writes_first", ["old", "new"])
def test_parameter_when_session_was_reset_then_adapters_still_cannot_disagree(
    writes_first: str,
) -> None:
    """An adapter kept over a reset does not build its ring beneath one with another window."""
    manager = SessionStateManager()
    old = DreamZeroStateAdapter("s", manager, vae_encoder_window=2)
    old.reset()
    if writes_first == "old":
        old.append_vae_encoder_chunk(chunk(1))
        with pytest.raises(ParameterConflictError):
            DreamZeroStateAdapter("s", manager, vae_encoder_window=3)
    else:
        DreamZeroStateAdapter("s", manager, vae_encoder_window=3)
        with pytest.raises(ParameterConflictError):
            old.append_vae_encoder_chunk(chunk(1))


def test_adapter_when_copied_or_pickled_then_refused() -> None:
    """A copy would share some values and not others, so it is refused, with the cure."""
    adapter = DreamZeroStateAdapter("s", SessionStateManager())
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="over the same manager"):
            copier(adapter)


def test_reset_when_adapter_is_kept_then_it_still_shares_the_mapping() -> None:
    """After a reset an old adapter and a new one go on seeing each other's writes."""
    manager = SessionStateManager()
    old = DreamZeroStateAdapter("s", manager)
    old.call_count = 9
    old.reset()
    new = DreamZeroStateAdapter("s", manager)
    new.call_count = 2
    new.clip_feas = torch.ones(1)
    assert (old.call_count, old.clip_feas) == (2, new.clip_feas)


class Branched(StateAdapter):
    """A value per branch, carried, beside others that must not be cleared with it."""

    SPEC: ClassVar[ModelSpec] = ModelSpec(
        model="branched",
        values=(
            ValueSpec(name="seen", bucket="attrs", type="int", device="none"),
            ValueSpec(name="seen_neg", bucket="attrs", type="int", device="none"),
        ),
    )
    seen = SessionAttr[int](default=0)
    seen_neg = SessionAttr[int](default=0, coerce=int)


def test_clear_when_names_share_a_prefix_then_only_the_named_one_goes() -> None:
    """Clearing a carried value leaves the ones whose names begin with its own."""
    adapter = Branched("s", SessionStateManager())
    adapter.seen, adapter.seen_neg = 1, 2
    adapter._clear("seen")
    assert (adapter.seen, adapter.seen_neg) == (0, 2)


def test_reset_when_one_branch_is_evicted_then_both_are_cleared() -> None:
    """Cosmos3's reset clears every member of both families and leaves no bytes."""
    manager = SessionStateManager()
    adapter = Cosmos3StateAdapter("s", manager)
    for is_negative in (False, True):
        adapter.set_branch_kv(is_negative, [(torch.ones(2), torch.ones(2))] * 3)
    adapter.reset()
    assert not adapter.is_branch_initialized(False)
    assert not adapter.is_branch_initialized(True)
    assert manager.nbytes_by_device() == {}


def test_unknown_value_when_read_then_attribute_error() -> None:
    """A name that the schema does not have is an ordinary AttributeError."""
    with pytest.raises(AttributeError, match="call_cuont"):
        _ = DreamZeroStateAdapter("s", SessionStateManager()).call_cuont  # type: ignore[attr-defined]
