"""Objects that are written in place, that keep a window, or that are searched, in checking mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch

from statekit.adapter import StateAdapter
from statekit.errors import DeclarationError
from statekit.family import ObjectFamily
from statekit.manager import SessionStateManager
from statekit.objects import Cast, FixedState, RetrievalStore, WindowedKV
from statekit.spec import Codec, Family, Index, ModelSpec, Ring, Size, ValueSpec
from tests.equivalence.bits import assert_same_bits

pytestmark = pytest.mark.usefixtures("checked")

PAIR = "tuple[torch.Tensor, torch.Tensor]"
PARTS = "dict[str, torch.Tensor]"


class Kinds(StateAdapter):
    """What the generator would write, less its documentation."""

    __slots__ = ()

    SPEC: ClassVar[ModelSpec] = ModelSpec(
        model="kinds",
        schema="schemas/kinds.yaml",
        symbols={"HEADS": 2, "WIDE": 3},
        families={"layer": Family({}, "2")},
        values=(
            ValueSpec("state", "StateObject", "torch.Tensor", "model", object="FixedState",
                      dtype="float32", size=Size(shape=("2", "3")), line=10),
            ValueSpec("parts", "StateObject", PARTS, "model", object="FixedState",
                      dtype="float32", size=Size(elements="8"), line=11),
            ValueSpec("gdn", "StateObject", PARTS, "model", key="gdn/{layer}",
                      object="FixedState", dtype="float32", families=("layer",), line=12),
            ValueSpec("kv", "StateObject", PAIR, "model", key="kv/{layer}",
                      object="WindowedKV", dtype="float32", families=("layer",),
                      size=Size(shape=("1", "4", "HEADS", "3")),
                      ring=Ring(bound="6", axis=1, sink="2"), line=13),
            ValueSpec("flat", "StateObject", PAIR, "model", object="WindowedKV",
                      dtype="float32", size=Size(elements="2 * 3"),
                      ring=Ring(bound="6", axis=0), line=14),
            ValueSpec("pool", "StateObject", "torch.Tensor", "cpu", object="RetrievalStore",
                      dtype="float32", size=Size(shape=("WIDE",)), ring=Ring(nbytes="100"),
                      index=Index(("2", "WIDE"), "float32"), line=15),
            ValueSpec("half", "StateObject", "torch.Tensor", "cpu", object="RetrievalStore",
                      dtype="float32", size=Size(shape=("3",)), ring=Ring(bound="2"),
                      index=Index(("4",), "float64"), codec=Codec("float16"), line=16),
        ),
    )  # fmt: skip

    def holder(self, name: str, make: Callable[[], Any] | None = None) -> Any:
        kinds = {
            "state": lambda: FixedState().allocate(),
            "parts": lambda: FixedState().allocate(),
            "flat": lambda: WindowedKV().allocate(bound=6, axis=0),
            "pool": lambda: RetrievalStore().allocate(nbytes=100),
            "half": lambda: RetrievalStore().allocate(bound=2, codec=Cast(torch.float16)),
        }
        build = make or kinds[name]
        return self._object(name, build, type(build()))

    def gdn(self) -> ObjectFamily[Any]:
        return ObjectFamily(self._session, "gdn/", lambda: FixedState[Any]().allocate())

    def kv(self) -> ObjectFamily[Any]:
        return ObjectFamily(
            self._session, "kv/", lambda: WindowedKV[Any]().allocate(bound=6, axis=1, sink=2)
        )


def kinds() -> Any:
    return Kinds("robot", SessionStateManager())


def kv_block(entries: int, heads: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(1, entries, heads, 3), torch.ones(1, entries, heads, 3)


def entry(number: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((2, 3), float(number)), torch.full((3,), float(number))


def test_run_when_all_is_as_declared_then_nothing_is_said() -> None:
    """Commits in place, windows that lose blocks, and stores that drop entries are no changes."""
    state = kinds()
    for step in range(6):
        with state.step():
            state.holder("state").commit(torch.full((2, 3), float(step)))
            state.holder("parts").append({"a": torch.zeros(4), "b": torch.full((4,), float(step))})
            state.gdn().replace([{"kv": torch.full((2,), float(step))} for _ in range(2)])
            held = state.holder("state").view()
            for layer in range(2):
                member = state.kv().object(layer)
                member.stage(kv_block(4))
                member.stage(kv_block(3))  # the next denoising step
                member.commit()
            state.holder("flat").append((torch.zeros(2, 3), torch.zeros(2, 3)))
            state.holder("pool").append(entry(step))
            state.holder("half").append((torch.zeros(4).double(), torch.full((3,), float(step))))
            state.holder("pool").nearest(torch.zeros(2, 3), 2)
        held.zero_()  # a kernel
        assert_same_bits(state.holder("state").view(), torch.zeros(2, 3))
    assert state.kv().object(1).local_end == 6
    assert len(state.holder("pool")) == 2
    with pytest.raises(KeyError), state.step():
        state.holder("state").append(torch.ones(2, 3))
        state.kv().object(0).append(kv_block(1))
        state.holder("pool").append(entry(9))
        raise KeyError("forward")
    with state.step():
        assert_same_bits(state.holder("state").view(), torch.zeros(2, 3))


WRONG: dict[str, Callable[[Any], Any]] = {
    "it has 3 dimensions": lambda s: s.holder("state").append(torch.zeros(2, 3, 1)),
    "extent 1 is 4, not 3": lambda s: s.holder("state").stage(torch.zeros(2, 4)),
    "it is float64": lambda s: s.holder("state").append(torch.zeros(2, 3).double()),
    "it is a dict, declared torch.Tensor": lambda s: s.holder("state").append(
        {"a": torch.zeros(2, 3)}
    ),
    "it is a torch.Tensor, declared dict": lambda s: s.holder("parts").append(torch.zeros(4)),
    "it has 9 elements, declared at most 8": lambda s: s.holder("parts").append(
        {"a": torch.zeros(4), "b": torch.zeros(5)}
    ),
    "['kv'] is float16, declared float32": lambda s: s.gdn().replace(
        [{"kv": torch.zeros(2)}, {"kv": torch.zeros(2).half()}]
    ),
    "it is a torch.Tensor, declared tuple": lambda s: s.kv().object(0).append(kv_block(2)[0]),
    "it has 3 entries": lambda s: s.kv().object(0).append((*kv_block(2), kv_block(2)[0])),
    "[1] is bfloat16, declared float32": lambda s: (
        s.kv().object(0).append((kv_block(1)[0], kv_block(1)[1].bfloat16()))
    ),
    "[1]: its shape is (1, 2, 2, 4)": lambda s: (
        s.kv().object(0).append((kv_block(2)[0], torch.zeros(1, 2, 2, 4)))
    ),
    "it has 8 elements an entry, declared at most 2 * 3 = 6": lambda s: s.holder("flat").append(
        (torch.zeros(2, 3), torch.zeros(2, 5))
    ),
    "it has 2 dimensions": lambda s: s.holder("pool").append(
        (torch.zeros(2, 3), torch.zeros(3, 1))
    ),
    "it is an int": lambda s: s.holder("pool").append((torch.zeros(2, 3), 3)),
    "extent 0 is 4, not 3": lambda s: s.holder("half").append((torch.zeros(4), torch.zeros(4))),
}


@pytest.mark.parametrize(("found", "write"), [*WRONG.items()], ids=WRONG)
def test_write_when_not_as_declared_then_refused_and_nothing_is_stored(
    found: str, write: Callable[[Any], Any]
) -> None:
    """The error names the part; the object holds what it held."""
    state = kinds()
    with pytest.raises(DeclarationError) as caught:
        write(state)
    assert found in caught.value.found
    assert state.session.nbytes == 0


HELD_WRONG: dict[str, Callable[[Any], Any]] = {
    "it holds 7 entries along axis 0, declared at most 6": lambda s: s.holder(
        "flat", lambda: WindowedKV().allocate(bound=9)
    ).append((torch.zeros(7, 3), torch.zeros(7, 3))),
    "it holds 3 entries, declared at most 2": lambda s: [
        s.holder("half", lambda: RetrievalStore().allocate(codec=Cast(torch.float16))).append(
            (torch.zeros(4).double(), torch.zeros(3))
        )
        for _ in range(3)
    ],
    "it holds 108 bytes, declared at most 100": lambda s: [
        s.holder("pool", lambda: RetrievalStore().allocate()).append(entry(number))
        for number in range(3)
    ],
    "a key is float32, declared float64": lambda s: s.holder("half").append(
        (torch.zeros(4), torch.zeros(3))
    ),
    "a key has the shape (5,), declared (4,)": lambda s: s.holder("half").append(
        (torch.zeros(5).double(), torch.zeros(3))
    ),
    "a key has the shape (1, 3), declared (2, WIDE)": lambda s: s.holder("pool").append(
        (torch.zeros(1, 3), torch.zeros(3))
    ),
}


@pytest.mark.parametrize(("found", "write"), [*HELD_WRONG.items()], ids=HELD_WRONG)
def test_object_when_it_holds_what_is_not_declared_then_the_next_look_says_so(
    found: str, write: Callable[[Any], Any]
) -> None:
    """A bound of another size, and keys of another form, are found at the end of a step."""
    state = kinds()
    with pytest.raises(DeclarationError) as caught, state.step():
        write(state)
    assert found in caught.value.found
    assert state.session.nbytes == 0


def test_block_when_changed_in_place_then_said() -> None:
    """Blocks of a window and values of a store are nobody's to write into."""
    state = kinds()
    block, one = kv_block(2), entry(1)
    state.kv().object(0).append(block)
    state.holder("pool").append(one)
    with pytest.raises(DeclarationError, match="writes into"), state.step():
        block[1].zero_()
    one[1].numpy()[:] = 7
    with pytest.raises(DeclarationError, match="was written into since"):
        state.holder("pool").view()
