"""Values with `lifetime: request`: there while somebody uses the session, gone after that."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit import restore_session, session_bytes
from statekit.events import AboveDeclared
from statekit.manager import SessionStateManager
from statekit.objects import HeldValue, WindowedKV
from statekit.session import SessionState
from statekit.spec import Family, ModelSpec, Park, Size, ValueSpec
from tests.equivalence.bits import assert_same_bits

KIB = 1024


def value(name: str, **more: Any) -> ValueSpec:
    """A value of 1 KiB."""
    held: dict[str, Any] = {"bucket": "StateObject", "object": "HeldValue", "lifetime": "request"}
    size: dict[str, Any] = {"dtype": "uint8", "size": Size(elements="1024")}
    return ValueSpec(name=name, type="torch.Tensor", device="cpu", **{**held, **size, **more})


SPEC = ModelSpec(
    model="toy",
    families={"branch": Family(members={"positive": "", "negative": "_neg"})},
    values=(
        value("mask", bucket="attrs", object=None, default="None", families=("branch",),
              key="mask{branch}"),
        value("queries"),
        value("cache", object="WindowedKV"),
        value("kept", lifetime="session", park=Park(tiers=("disk",))),
        value("steps", bucket="attrs", object=None, default="None", lifetime="session"),
    ),
)  # fmt: skip


def fill(session: SessionState) -> None:
    """Give a session all of its values, 1 KiB each."""
    for name in ("mask", "mask_neg", "steps"):
        session.attrs[name] = torch.zeros(KIB, dtype=torch.uint8)
    for name, kind in (("queries", HeldValue), ("cache", WindowedKV), ("kept", HeldValue)):
        made = session.get_or_create(name, lambda kind=kind: kind().allocate(), kind)
        made.append(torch.zeros(KIB, dtype=torch.uint8))


def held(session: SessionState) -> set[str]:
    """The values that hold anything."""
    resident = {name for name, obj in session.objects.items() if obj.resident}
    return {*session.attrs, *resident}


ALL = {"mask", "mask_neg", "steps", "queries", "cache", "kept"}
LONG = {"steps", "kept"}


def test_lease_when_it_ends_then_values_of_the_request_are_gone() -> None:
    """While it runs all values count; after it those of the session alone."""
    manager = SessionStateManager()
    with manager.lease("a", begin=SPEC) as session:
        fill(session)
        assert manager.nbytes_by_device() == {"cpu": 6 * KIB}
    assert held(session) == LONG
    assert manager.nbytes_by_device() == {"cpu": 2 * KIB}
    with manager.lease("a") as session:
        assert held(session) == LONG
        fill(session)
    assert session.record is not None
    assert session.record.measured() == {"cpu": 2 * KIB}


def test_lease_when_its_step_fails_then_values_of_the_request_are_gone_too() -> None:
    """A failed request leaves no more than one that succeeded."""
    manager = SessionStateManager()
    with pytest.raises(KeyError), manager.lease("a", begin=SPEC) as session:
        fill(session)
        with session.step():
            fill(session)
            raise KeyError("forward")
    assert held(session) == LONG
    lease = manager.lease("a")
    with pytest.raises(KeyError), lease.step():
        fill(session)
        raise KeyError("forward")
    assert (held(session), lease.active) == (LONG, False)


def test_lease_when_others_use_the_session_then_values_stay_until_the_last_ends() -> None:
    """Two requests on one session share them; the last one to end takes them along."""
    manager = SessionStateManager()
    first, second = manager.lease("a", begin=SPEC), manager.lease("a")
    session = first.begin()
    second.begin()
    fill(session)
    first.end()
    assert held(session) == ALL
    second.end()
    assert held(session) == LONG


def test_lease_when_abandoned_then_values_go_with_the_next_call() -> None:
    """A client that went away without a word leaves nothing of its request."""
    manager = SessionStateManager()
    lease = manager.lease("a", begin=SPEC)
    session = lease.begin()
    fill(session)
    del lease
    manager.stats()
    with manager.lease("b", begin=SPEC):
        assert held(session) == LONG


def test_lease_when_it_ends_within_a_step_then_values_go_when_that_ends() -> None:
    """A step that outlives its lease finds its values until it is over."""
    manager = SessionStateManager()
    lease = manager.lease("a", begin=SPEC)
    session = lease.begin()
    with session.step():
        fill(session)
        lease.end()
        assert held(session) == ALL
    assert held(session) == LONG


def test_lease_when_a_value_of_the_request_is_above_declared_then_said() -> None:
    """Bytes of a value that ends with the request are compared before it ends."""
    manager = SessionStateManager()
    told: list[AboveDeclared] = []
    manager.subscribe(lambda event: told.append(event) if type(event) is AboveDeclared else None)
    with manager.lease("a", begin=SPEC) as session:
        fill(session)
        session.get("queries").append(torch.zeros(2 * KIB, dtype=torch.uint8))  # type: ignore[union-attr]
    assert [(one.value, one.nbytes) for one in told] == [("queries", 2 * KIB)]


def test_session_when_used_without_a_lease_then_nothing_is_cleared() -> None:
    """Nobody says there when a request ends, so the model clears what it wants cleared."""
    manager = SessionStateManager()
    session = manager.get_or_create_session("a")
    session.adopt(SPEC)
    fill(session)
    with session.step():
        pass
    assert held(session) == ALL


def test_lease_when_others_begin_as_it_ends_then_none_loses_what_it_wrote() -> None:
    """A request that begins while another one ends keeps its values to its own end."""
    manager = SessionStateManager()
    with manager.lease("a", begin=SPEC):
        pass
    lost: list[str] = []

    def requests() -> None:
        for _ in range(60):
            with manager.lease("a") as session:
                session.attrs["mask"] = mine = torch.zeros(1)
                if session.attrs.get("mask") is None:
                    lost.append("mask")
                del mine

    threads = [threading.Thread(target=requests) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert lost == []


def test_snapshot_when_taken_during_a_request_then_without_its_values(tmp_path: Path) -> None:
    """What comes back belongs to no request that runs."""
    manager = SessionStateManager()
    with manager.lease("a", begin=SPEC) as session:
        fill(session)
        data = session_bytes(session)
    assert held(restore_session(data)) == LONG


def test_lease_when_values_of_the_session_are_parked_then_they_come_back(tmp_path: Path) -> None:
    """Clearing what belongs to a request touches nothing else, parked or not."""
    manager = SessionStateManager(budgets={"cpu": 7 * KIB}, park_folder=tmp_path)
    with manager.lease("a", begin=SPEC) as session:
        fill(session)
        before = session.get("kept").view().clone()  # type: ignore[union-attr]
    with manager.lease("b", begin=SPEC) as other:
        fill(other)
    with manager.lease("a") as session:
        assert_same_bits(session.get("kept").view(), before)  # type: ignore[union-attr]
        assert held(session) == LONG
