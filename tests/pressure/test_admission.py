"""What a session is admitted with: values of every lifetime, and buffers with a bound in bytes."""

from __future__ import annotations

from pathlib import Path

import torch

from statekit.manager import SessionStateManager
from statekit.objects import HeldValue
from statekit.pressure.admission import missing, returning
from statekit.pressure.promise import promise
from statekit.spec import Index, ModelSpec, Park, Pending, Ring, Size, ValueSpec
from statekit.testing import park_now


def held(name: str, elements: str, **fields: object) -> ValueSpec:
    """A value of so many bytes on the model's device."""
    given = {"object": "HeldValue", "size": Size(elements=elements), **fields}
    return ValueSpec(name, "StateObject", "torch.Tensor", "model", dtype="uint8", **given)  # type: ignore[arg-type]


SPEC = ModelSpec(
    model="toy",
    values=(
        held("kept", "1"),
        held("copied", "10", pending=Pending("20")),
        held("brief", "400", lifetime="request"),
        held("parked", "8000", park=Park(("host",)), operations=("park",)),
    ),
)


def test_promise_when_a_value_lives_for_a_request_then_it_counts_in_use_and_not_in_between() -> (
    None
):
    """All of it is promised to a session in use; to one that waits, none of it."""
    found = promise(SPEC, "cuda:0", tiers=("host",))
    assert found.by_device == {"cuda:0": 8431}
    assert found.staying == {"cuda:0": 31}
    limits = {limit.name: limit.nbytes for limit in found.limits}
    assert limits == {"kept": 1, "copied": 30, "brief": 400, "parked": 8000}


def test_promise_when_a_store_is_bounded_in_bytes_then_it_has_a_limit() -> None:
    """What has an end is held to it, in whatever unit; what has none is not."""
    index = Index(("4",), "uint8")
    store = held("store", "12", object="RetrievalStore", index=index, ring=Ring(nbytes="100"))
    endless = held("log", "12", object="RetrievalStore", index=index, ring=Ring(unbounded="why"))
    found = promise(ModelSpec(model="toy", values=(store, endless)), "cpu")
    assert found.by_device == {"cpu": 96 + 16}
    assert [(limit.name, limit.nbytes) for limit in found.limits] == [("store", 96)]


def test_returning_when_values_are_parked_then_their_bytes_come_back_to_where_they_were(
    tmp_path: Path,
) -> None:
    """What a session takes when it is used again: what is parked, beside what stays of it."""
    disk = Park(("disk",))
    spec = ModelSpec(
        model="toy",
        values=(held("kept", "3"), held("parked", "8000", park=disk, operations=("park",))),
    )
    manager = SessionStateManager(park_folder=tmp_path)
    with manager.lease("s", begin=spec) as session:
        one = HeldValue[torch.Tensor]().allocate()
        one.append(torch.zeros(8000, dtype=torch.uint8))
        session.put("parked", one)
    record = session.record
    assert record is not None
    assert returning(record) == missing(record)
    assert park_now(manager) == 1
    assert returning(record) == {"cpu": 8000}
    manager.close()
