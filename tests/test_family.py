"""ObjectFamily: stored together or not at all; partly missing is an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from statekit.errors import PartialFamilyError, PayloadError
from statekit.family import ObjectFamily
from statekit.objects import EncodeOnce, HeldValue, LatentBuffer
from statekit.session import SessionState


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
