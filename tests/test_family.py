"""ObjectFamily: stored together or not at all; partly missing is an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from statekit.errors import PartialFamilyError, PayloadError
from statekit.family import ObjectFamily
from statekit.objects import (
    EncodeOnce,
    FixedState,
    HeldValue,
    LatentBuffer,
    RetrievalStore,
    WindowedKV,
)
from statekit.session import SessionState
from tests.equivalence.bits import assert_same_bits


def family(session: SessionState, prefix: str = "kv/") -> ObjectFamily[str]:
    return ObjectFamily(session, prefix, lambda: EncodeOnce[str]().allocate())


def test_family_when_empty_then_not_initialized_and_none() -> None:
    """Before anything is stored there is nothing to view, and looking makes no members."""
    session = SessionState("s")
    kv = family(session)
    assert not kv.initialized
    assert kv.view() is None
    assert len(kv) == 0
    assert bool(kv)
    assert session.names == ()


def test_replace_when_called_then_all_values_in_order() -> None:
    """Members are numbered from 0, beyond 9 in numeric order; another view agrees."""
    session = SessionState("s")
    values = [f"layer {i}" for i in range(12)]
    family(session).replace(values)
    assert family(session).view() == values
    assert session.names == tuple(f"kv/{i}" for i in range(12))


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_replace_when_another_count_was_stored_then_no_leftovers(count: int) -> None:
    """What was stored before is gone, whether there are more or fewer values now."""
    session = SessionState("s")
    kv = family(session)
    kv.replace(["old"] * 3)
    values = [f"new {i}" for i in range(count)]
    kv.replace(values)
    assert kv.view() == (values or None)
    assert len(kv) == count


def test_replace_when_one_value_is_refused_then_family_is_as_before() -> None:
    """All or nothing, also when the values' iterable breaks off."""

    def breaks_off() -> Iterator[str]:
        yield "new"
        raise KeyError("source")

    kv = family(SessionState("s"))
    kv.replace(["a", "b"])
    with pytest.raises(PayloadError, match="None"):
        kv.replace(["new", None])  # type: ignore[list-item]
    with pytest.raises(KeyError):
        kv.replace(breaks_off())
    assert kv.view() == ["a", "b"]


@pytest.mark.parametrize("how", ["evict", "reset"])
def test_view_when_later_members_are_missing_then_error_names_them(how: str) -> None:
    """A first member without all others is a RuntimeError with their keys, the last one too."""
    session = SessionState("s")
    kv = family(session)
    kv.replace("abcd")
    for index in (1, 3):
        member = session.get(f"kv/{index}")
        assert member is not None
        getattr(member, how)()
    assert kv.initialized
    with pytest.raises(
        PartialFamilyError, match=r"kv is partially initialized: 2 missing \(kv/1, kv/3\)"
    ) as caught:
        kv.view()
    assert isinstance(caught.value, RuntimeError)


def test_view_when_first_member_is_missing_then_none() -> None:
    """A family counts as initialized by its first member, so it is encoded anew without it."""
    session = SessionState("s")
    kv = family(session)
    kv.replace("ab")
    first = session.get("kv/0")
    assert first is not None
    first.evict()
    assert not kv.initialized
    assert kv.view() is None
    kv.replace("cd")
    assert kv.view() == ["c", "d"]


def test_family_when_other_names_look_alike_then_they_are_let_be() -> None:
    """Only the prefix followed by a number is a member."""
    session = SessionState("s")
    others = ("kv/", "kv/x", "kv/1x", "kv_neg/0", "xkv/0")
    for name in others:
        session.put(name, LatentBuffer[str]().allocate())
    kv = family(session)
    kv.replace(["a"])
    kv.replace([])
    assert len(kv) == 0
    assert session.names == others


def test_families_when_in_one_session_then_they_do_not_see_each_other() -> None:
    """Two branches of one session, and one branch of two sessions, are apart."""
    session, other = SessionState("s"), SessionState("t")
    family(session).replace(["positive"])
    family(session, "kv_neg/").replace(["negative"])
    family(other).replace(["elsewhere"])
    assert family(session).view() == ["positive"]
    assert family(session, "kv_neg/").view() == ["negative"]
    assert family(other).view() == ["elsewhere"]


def test_family_when_its_members_are_held_values_then_it_is_replaced_whole_again() -> None:
    """What may be stored more than once is a family too: the newest values are the ones read."""
    session = SessionState("s")
    tails: ObjectFamily[list[int]] = ObjectFamily(
        session, "tails/", lambda: HeldValue[list[int]]().allocate(update="entries")
    )
    tails.replace([[1], [2], [3]])
    tails.replace([[4], [5]])
    assert tails.view() == [[4], [5]]
    assert session.names == ("tails/0", "tails/1")


# -- FixedStates: the members stay, and their buffers where they are -------------------------------


def states(session: SessionState) -> ObjectFamily[Any]:
    return ObjectFamily(session, "gdn/", lambda: FixedState[Any]().allocate())


def layer(number: float) -> dict[str, torch.Tensor]:
    return {
        "kv": torch.full((2, 3), float(number)),
        "z": torch.full((2,), number, dtype=torch.half),
    }


def addresses(family: ObjectFamily[Any]) -> list[int]:
    return [part.data_ptr() for member in family.view() or [] for part in member.values()]


def test_replace_when_members_are_fixed_states_then_written_where_they_are() -> None:
    """Each commit is read at the addresses of the first one, by whoever holds the buffers."""
    session = SessionState()
    gdn = states(session)
    gdn.replace([layer(0), layer(1)])
    held, before, members = gdn.view(), addresses(gdn), session.objects
    for step in range(2, 5):
        gdn.replace([layer(step), layer(10 * step)])
        assert_same_bits(held, [layer(step), layer(10 * step)])
        assert addresses(gdn) == before
    assert session.objects == members


@pytest.mark.parametrize(
    "wrong", [{"kv": torch.zeros(2, 3)}, {**layer(0), "z": torch.zeros(2)}, torch.zeros(2), None]
)
def test_replace_when_one_fixed_state_does_not_fit_then_none_is_written(wrong: Any) -> None:
    """All or none: buffers, what was staged, and the number of members are as before."""
    session = SessionState()
    gdn = states(session)
    gdn.replace([layer(0), layer(1), layer(2)])
    before = addresses(gdn)
    gdn.object(1).stage(layer(5))
    with pytest.raises(PayloadError):
        gdn.replace([layer(7), layer(8), wrong])
    with pytest.raises(PayloadError):
        gdn.replace([layer(7), wrong, layer(8), layer(9)])
    assert_same_bits(gdn.view(), [layer(0), layer(5), layer(2)])
    gdn.object(1).discard()
    assert_same_bits(gdn.view(), [layer(0), layer(1), layer(2)])
    assert addresses(gdn) == before


def test_replace_when_payloads_are_the_members_own_buffers_then_read_before_written() -> None:
    """Layers that change places each get what the other one held."""
    gdn = states(SessionState())
    gdn.replace([layer(0), layer(1), layer(2)])
    before = addresses(gdn)
    gdn.replace(reversed(gdn.view() or []))
    assert_same_bits(gdn.view(), [layer(2), layer(1), layer(0)])
    assert addresses(gdn) == before


def test_replace_when_count_of_fixed_states_changes_then_those_that_stay_stay() -> None:
    """New members are made, surplus ones go; a reset member gets buffers of its own again."""
    session = SessionState()
    gdn = states(session)
    gdn.replace([layer(0), layer(1)])
    first = addresses(gdn)[:2]
    gdn.replace([layer(2), layer(3), layer(4)])
    gdn.replace([layer(5)])
    assert_same_bits(gdn.view(), [layer(5)])
    assert (addresses(gdn), session.names) == (first, ("gdn/0",))
    gdn.object(0).reset()
    gdn.replace([torch.zeros(3)])
    assert_same_bits(gdn.view(), [torch.zeros(3)])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_replace_when_the_step_fails_then_buffers_as_before_at_their_addresses(count: int) -> None:
    """Members that came are gone, those that went are back, and the bits are those of before."""
    session = SessionState()
    gdn = states(session)
    gdn.replace([layer(0), layer(1)])
    held, before = gdn.view(), addresses(gdn)
    with pytest.raises(KeyError), session.step():
        gdn.replace([layer(7 + number) for number in range(count)])
        gdn.object(0).stage(layer(9))
        raise KeyError("forward")
    assert_same_bits(held, [layer(0), layer(1)])
    assert_same_bits(gdn.view(), [layer(0), layer(1)])
    assert addresses(gdn) == before


# -- one member ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [EncodeOnce, FixedState, HeldValue, RetrievalStore, WindowedKV])
def test_object_when_asked_for_then_the_member_made_where_absent(kind: type[Any]) -> None:
    """A member is made once, under its key; after a reset it is made anew."""
    session = SessionState()
    family: ObjectFamily[Any] = ObjectFamily(session, "kv/", lambda: kind().allocate())
    member = family.object(2)
    assert (type(member), session.names) == (kind, ("kv/2",))
    assert family.object(2) is member is session.get("kv/2")
    member.reset()
    assert family.object(2).resident
    with pytest.raises(IndexError, match="numbered from 0"):
        family.object(-1)


def test_family_when_of_windows_then_each_layer_has_its_own_and_replace_begins_anew() -> None:
    """Layers are appended to one by one; replace holds one block in each, from the start."""
    session = SessionState()
    kv: ObjectFamily[torch.Tensor] = ObjectFamily(
        session, "kv/", lambda: WindowedKV[torch.Tensor]().allocate(bound=3, axis=0)
    )
    for step in range(4):
        for index in range(2):
            kv.object(index).append(torch.tensor([10 * index + step]))
    assert_same_bits(kv.view(), [torch.tensor([1, 2, 3]), torch.tensor([11, 12, 13])])
    assert kv.object(1).global_end == 4
    kv.replace([torch.tensor([7]), torch.tensor([8])])
    assert_same_bits(kv.view(), [torch.tensor([7]), torch.tensor([8])])
    assert kv.object(1).global_end == 1


def test_family_when_of_stores_then_replace_holds_the_entries() -> None:
    """A member's value is its list of entries."""
    session = SessionState()
    pools: ObjectFamily[Any] = ObjectFamily(
        session, "pool/", lambda: RetrievalStore[Any]().allocate(bound=2)
    )
    entries = [(torch.tensor([float(number)]), number) for number in range(3)]
    pools.replace([entries, entries[:1], []])
    assert_same_bits(pools.view(), [entries[1:], entries[:1], []])
