"""Measuring objects that are written in place, that keep a window, or that are searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch

from statekit import measure
from statekit.adapter import StateAdapter
from statekit.manager import SessionStateManager
from statekit.objects import Cast, FixedState, HeldValue, RetrievalStore, WindowedKV
from statekit.spec import Codec, Growth, Index, ModelSpec, Ring, Size, ValueSpec
from tests.measure.toy import rules

PAIR = "tuple[torch.Tensor, torch.Tensor]"


class Kinds(StateAdapter):
    """What the generator would write, less its documentation."""

    __slots__ = ()

    SPEC: ClassVar[ModelSpec] = ModelSpec(
        model="kinds",
        schema="schemas/kinds.yaml",
        symbols={"W": 64},
        values=(
            ValueSpec("state", "StateObject", "torch.Tensor", "cpu", object="FixedState",
                      dtype="float32", size=Size(shape=("2", "W")), line=10),
            ValueSpec("kv", "StateObject", PAIR, "cpu", object="WindowedKV", dtype="float32",
                      size=Size(shape=("1", "2", "W")), ring=Ring(bound="6", axis=1, sink="1"),
                      line=11),
            ValueSpec("pool", "StateObject", "torch.Tensor", "cpu", object="RetrievalStore",
                      dtype="bfloat16", size=Size(shape=("W",)), ring=Ring(nbytes="4 * (8 + 64)"),
                      index=Index(("2",), "float32"), codec=Codec("float32"), line=12),
            ValueSpec("all", "StateObject", "torch.Tensor", "cpu", object="RetrievalStore",
                      dtype="float32", size=Size(shape=("W",)),
                      ring=Ring(unbounded="for good", growth=Growth("1", 1)),
                      index=Index(("2",), "float32"), line=13),
            ValueSpec("mask", "StateObject", "torch.Tensor", "cpu", object="HeldValue",
                      dtype="float32", size=Size(shape=("W",)), lifetime="request", line=14),
        ),
    )  # fmt: skip

    def holder(self, name: str) -> Any:
        kinds: dict[str, Callable[[], Any]] = {
            "state": lambda: FixedState().allocate(),
            "kv": lambda: WindowedKV().allocate(bound=6, axis=1, sink=1),
            "pool": lambda: RetrievalStore().allocate(nbytes=4 * 72, codec=Cast(torch.float32)),
            "all": lambda: RetrievalStore().allocate(),
            "mask": lambda: HeldValue().allocate(),
        }
        build = kinds[name]
        return self._object(name, build, type(build()))


def good(state: Any, step: int) -> None:
    """A forward in which every value is as declared, with a smaller W."""
    state.holder("state").append(torch.zeros(2, 16))
    state.holder("kv").append((torch.zeros(1, 2, 16), torch.zeros(1, 2, 16)))
    state.holder("pool").append((torch.zeros(2), torch.zeros(16).bfloat16()))
    state.holder("all").append((torch.zeros(2), torch.zeros(16)))
    state.holder("mask").append(torch.zeros(16))


def measured(forward: Callable[[Any, int], None]) -> measure.Measurement:
    """What is measured of 12 requests of one session."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        for step in range(12):
            begin = Kinds.SPEC if not step else None
            with manager.lease("robot", begin=begin) as session, session.step():
                forward(Kinds("robot", manager), step)
    return record


def test_run_when_all_is_as_declared_then_nothing_is_found() -> None:
    """Entries of K and V count once, keys of a store are no misfit, a request's value is seen."""
    assert measured(good).findings() == []


def longer_window(state: Any, step: int) -> None:
    if not step:
        state.session.put("kv", WindowedKV().allocate(bound=8, axis=1, sink=1))


def more_bytes(state: Any, step: int) -> None:
    if not step:
        state.session.put("pool", RetrievalStore().allocate(codec=Cast(torch.float32), bound=5))


def twice_as_fast(state: Any, step: int) -> None:
    state.holder("all").append((torch.zeros(2), torch.zeros(16)))


def without_a_codec(state: Any, step: int) -> None:
    if not step:
        state.session.put("pool", RetrievalStore().allocate(nbytes=4 * 72))


def other_shape(state: Any, step: int) -> None:
    state.holder("pool").append((torch.zeros(2), torch.zeros(2, 16).bfloat16()))


def larger_mask(state: Any, step: int) -> None:
    state.holder("mask").append(torch.zeros(33))


CASES = [
    (longer_window, "MEASURED_BOUND", "kv", "it held 8 frames along axis 1, declared at most 6"),
    (more_bytes, "MEASURED_BOUND", "pool", "it held 360 bytes, declared at most 4 * (8 + 64)"),
    (twice_as_fast, "MEASURED_GROWTH", "all", "it grew by 144 B a step, declared 72 B"),
    (without_a_codec, "MEASURED_DTYPE", "pool", "it was bfloat16, declared float32"),
    (other_shape, "MEASURED_SHAPE", "pool", "its shape was (2, 16), declared [W]"),
    (larger_mask, "MEASURED_BELOW", "mask", "it held 132 B, declared 64 B"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "rule", "value", "words"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_run_when_one_thing_is_wrong_then_it_alone_is_found(
    change: Callable[[Any, int], None], rule: str, value: str, words: str
) -> None:
    """Each finding has both figures in words."""

    def forward(state: Any, step: int) -> None:
        change(state, step) if not step else None
        good(state, step)
        change(state, step) if step else None

    found = measured(forward).findings()
    assert (rule, value) in rules(found), found
    assert {one.value for one in found} == {value}
    assert words in next(one for one in found if one.rule == rule).found
