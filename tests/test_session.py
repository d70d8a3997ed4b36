"""SessionState: two buckets, one mapping for life, one object per name."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
import torch

from statekit.accounting import SeenStorages
from statekit.errors import ParameterConflictError
from statekit.objects import EncodeOnce, LatentBuffer
from statekit.session import SessionState


def buffer() -> LatentBuffer[torch.Tensor]:
    return LatentBuffer[torch.Tensor]().allocate()


def test_get_or_create_when_absent_then_built_once() -> None:
    """The factory runs for an absent name, and not again while its object is resident."""
    session = SessionState("s")
    assert session.get("x") is None
    built = session.get_or_create("x", buffer, LatentBuffer)
    assert session.get_or_create("x", buffer, LatentBuffer) is built
    assert session.get("x") is built
    assert session.names == ("x",)


@pytest.mark.parametrize("why", ["evicted", "reset", "other type"])
def test_get_or_create_when_unusable_then_built_anew(why: str) -> None:
    """An object that is not resident, or of another type, is replaced."""
    session = SessionState("s")
    first: Any = EncodeOnce[int]().allocate() if why == "other type" else buffer()
    session.put("x", first)
    if why == "evicted":
        first.evict()
    elif why == "reset":
        first.reset()
    second = session.get_or_create("x", buffer, LatentBuffer)
    assert second is not first
    assert session.get("x") is second
    assert second.resident


@pytest.mark.parametrize("before", ["absent", "evicted", "other type"])
def test_get_or_create_when_two_threads_build_at_once_then_one_object(before: str) -> None:
    """N3: both callers get the same object, whatever was under the name before."""
    session = SessionState("s")
    if before == "evicted":
        session.put("x", LatentBuffer[torch.Tensor]())
    elif before == "other type":
        session.put("x", EncodeOnce[int]().allocate())
    barrier = threading.Barrier(2, timeout=10)
    found: list[object] = []

    def factory() -> LatentBuffer[torch.Tensor]:
        barrier.wait()  # both are past the look-up and build at the same time
        return buffer()

    def ask() -> None:
        found.append(session.get_or_create("x", factory, LatentBuffer))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is session.get("x")


def test_get_or_create_when_factory_raises_then_what_was_there_stays() -> None:
    """A factory that fails changes nothing."""
    session = SessionState("s")
    old = buffer()
    old.evict()
    session.put("x", old)
    with pytest.raises(ZeroDivisionError):
        session.get_or_create("x", lambda: 1 / 0, LatentBuffer)  # type: ignore[arg-type,return-value]
    assert session.get("x") is old


def test_put_when_no_state_object_then_type_error_with_cure() -> None:
    """A bare value belongs into attrs, and the message says so."""
    session = SessionState("s")
    with pytest.raises(TypeError, match=r"'x' must be a StateObject, got int; .* attrs"):
        session.put("x", 3)  # type: ignore[arg-type]
    assert session.names == ()


def test_remove_when_called_then_says_whether_there_was_one() -> None:
    """remove takes the entry out."""
    session = SessionState("s")
    session.put("x", buffer())
    assert session.remove("x")
    assert not session.remove("x")
    assert session.names == ()


def test_reset_when_filled_then_nothing_stale_survives() -> None:
    """N1, N2: attrs is the same dict, empty; no object is resident; claims are gone."""
    session = SessionState("s")
    attrs = session.attrs
    attrs["value"] = torch.ones(4)
    obj = session.get_or_create("x", buffer, LatentBuffer)
    obj.append(torch.ones(4))
    session.claim_parameters("m", {"window": 2})
    session.reset()
    assert session.attrs is attrs
    assert attrs == {}
    assert not obj.resident
    assert session.nbytes == 0
    session.claim_parameters("m", {"window": 3})


def test_attrs_when_assigned_then_refused() -> None:
    """N2: the mapping itself cannot be exchanged under the adapters that share it."""
    session = SessionState("s")
    with pytest.raises(AttributeError):
        session.attrs = {}  # type: ignore[misc]


def test_reset_objects_when_pattern_matches_then_only_whole_names() -> None:
    """A pattern must match the whole name."""
    session = SessionState("s")
    for name in ("kv/0", "kv/1", "kv/10x", "kv_neg/0"):
        session.put(name, buffer())
    session.reset_objects(re.compile("kv/[0-9]+"))
    resident = [name for name in session.names if session.get(name).resident]  # type: ignore[union-attr]
    assert resident == ["kv/10x", "kv_neg/0"]


def test_claim_parameters_when_one_conflicts_then_none_is_recorded() -> None:
    """A refused claim leaves all as it was; models do not share names."""
    session = SessionState("s")
    session.claim_parameters("m", {"b": 1})
    with pytest.raises(ParameterConflictError, match="session 's' was built with b=1, now 2"):
        session.claim_parameters("m", {"a": 1, "b": 2})
    session.claim_parameters("m", {"a": 5, "b": 1})
    session.claim_parameters("other", {"a": 6})


def test_bytes_when_buckets_share_a_storage_then_counted_once() -> None:
    """Both buckets are counted, each storage once; staged bytes are told apart."""
    session = SessionState("s")
    shared, own, staged = torch.ones(10), torch.ones(3), torch.ones(2)
    session.attrs["shared"] = shared
    session.attrs["view"] = shared[:2]
    obj = session.get_or_create("x", buffer, LatentBuffer)
    obj.append(shared[2:])
    obj.append(own)
    obj.stage(staged)
    obj.stage(own)
    assert session.nbytes_by_device() == {"cpu": 13 * 4}
    assert session.nbytes == 13 * 4
    seen = SeenStorages()
    session.nbytes_by_device(seen)
    assert session.nbytes_by_device(seen) == {}
    assert session.staged_nbytes_by_device(seen) == {"cpu": 2 * 4}
    assert session.staged_nbytes_by_device() == {"cpu": 5 * 4}


def test_repr_when_printed_then_says_what_is_held() -> None:
    """The repr names the session and both buckets' sizes, never the values."""
    session = SessionState("s")
    session.attrs["x"] = torch.ones(1000)
    assert repr(session) == "<SessionState 's': 1 attrs, 0 objects>"
