"""Shares: they add up to the manager's own bytes, whoever holds what, and each byte is one's."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from statekit.accounting import merge_bytes
from statekit.manager import SessionStateManager
from statekit.objects import HeldValue
from statekit.session import SessionState
from statekit.spec import ModelSpec, ValueSpec
from statekit.watch.inside import looked_at
from statekit.watch.shares import Share, Shares

ONE = ModelSpec(
    model="one",
    values=(
        ValueSpec(name="seen", bucket="attrs", type="torch.Tensor", device="cpu"),
        ValueSpec(
            name="kept",
            bucket="StateObject",
            type="torch.Tensor",
            device="cpu",
            object="HeldValue",
        ),
    ),
)
TWO = attrs.evolve(ONE, model="two")
OTHER_KEYS = attrs.evolve(
    ONE, model="three", values=tuple(attrs.evolve(v, name=f"{v.name}3") for v in ONE.values)
)


def keep(session: SessionState, name: str, value: Any) -> None:
    session.get_or_create(name, lambda: HeldValue().allocate(), HeldValue).append(value)


def by_device(shares: dict[Share, int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for share, nbytes in shares.items():
        merge_bytes(total, {share.device: nbytes})
    return total


def test_shares_when_sessions_of_two_models_hold_the_same_memory_then_the_first_has_it() -> None:
    """Objects before carried values, models in the order of the alphabet; the sum is exact."""
    manager = SessionStateManager()
    shared = torch.zeros(100, dtype=torch.uint8)
    second = manager.get_or_create_session("b")
    second.adopt(TWO)
    keep(second, "kept", [shared, torch.zeros(5, dtype=torch.uint8)])
    second.attrs["seen"] = shared
    shares = Shares(str)
    two = Share("cpu", "live", "two", "StateObject")
    assert shares.of(looked_at(manager)) == {two: 105}

    first = manager.get_or_create_session("a")
    first.adopt(ONE)
    first.attrs["seen"] = shared
    found = shares.of(looked_at(manager))
    assert found == {Share("cpu", "live", "one", "attrs"): 100, two: 5}
    assert by_device(found) == manager.nbytes_by_device()
    manager.drop_session("a")
    del first
    assert shares.of(looked_at(manager)) == {two: 105}


def test_shares_when_a_schema_comes_after_the_values_then_they_are_its_models() -> None:
    """An adapter that is made late changes no value, but whose it is."""
    manager, shares = SessionStateManager(), Shares(str)
    session = manager.get_or_create_session("a")
    session.attrs["seen"] = torch.zeros(9, dtype=torch.uint8)
    assert shares.of(looked_at(manager)) == {Share("cpu", "live", "other", "attrs"): 9}
    session.adopt(ONE)
    assert shares.of(looked_at(manager)) == {Share("cpu", "live", "one", "attrs"): 9}


def test_shares_when_a_session_has_two_models_then_values_go_by_their_keys() -> None:
    """What no schema knows is nobody's."""
    manager = SessionStateManager()
    session = manager.get_or_create_session("a")
    session.adopt(OTHER_KEYS)
    session.adopt(TWO)
    for number, name in enumerate(("seen", "seen3", "stray"), 1):
        session.attrs[name] = torch.zeros(number, dtype=torch.uint8)
    found = Shares(str).of(looked_at(manager))
    assert {(share.model, share.bucket): nbytes for share, nbytes in found.items()} == {
        ("two", "attrs"): 1,
        ("three", "attrs"): 2,
        ("other", "attrs"): 3,
    }


def test_shares_when_sessions_are_gone_then_nothing_is_remembered_of_them() -> None:
    """Thousands of sessions that come and go leave no memory behind."""
    manager, shares = SessionStateManager(1), Shares(str)
    for number in range(50):
        session = manager.get_or_create_session(str(number))
        session.attrs["x"] = torch.zeros(10, dtype=torch.uint8)
        del session
        assert sum(shares.of(looked_at(manager)).values()) == 10
    assert len(shares._known) == 1
    manager.drop_session("49")
    assert shares.of(looked_at(manager)) == {}
    assert len(shares._known) == 0


VALUES = st.tuples(
    st.integers(0, 3),  # storage
    st.integers(0, 60),  # from
    st.integers(1, 64),  # bytes
)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([None, ONE, TWO, OTHER_KEYS]),
        st.sampled_from(["seen", "kept", "seen3", "kept3", "drop"]),
        st.lists(VALUES, max_size=3),
    ),
    max_size=12,
)


@settings(max_examples=60)
@given(changes=CHANGES, often=st.booleans())
def test_shares_when_values_overlap_anyhow_then_they_add_up(
    changes: list[Any], often: bool
) -> None:
    """Views, aliases, several models, sessions that end: the sum is the manager's on each device,
    and does not depend on how often it was asked for."""
    manager = SessionStateManager()
    shares = Shares(str)
    pools = [bytearray(200) for _ in range(4)]
    for key, spec, name, views in changes:
        if name == "drop":
            manager.drop_session(key)
            continue
        session = manager.get_or_create_session(key)
        if spec is not None:
            session.adopt(spec)
        # Memory of a foreign library: each view counts the range that it spans.
        value = [
            torch.frombuffer(memoryview(pools[pool])[start : start + size], dtype=torch.uint8)
            for pool, start, size in views
        ]
        if name.startswith("seen"):
            session.attrs[name] = value
        else:
            keep(session, name, value)
        del session
        if often:
            shares.of(looked_at(manager))
    found = shares.of(looked_at(manager))
    assert by_device(found) == manager.nbytes_by_device()
    assert found == Shares(str).of(looked_at(manager))
