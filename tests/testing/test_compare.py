"""What counts as a difference: each single one is found, at its place, with both bit patterns."""

from __future__ import annotations

import math
import struct
from collections import OrderedDict, deque
from types import SimpleNamespace
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
import torch

from statekit.spec import Tolerance
from statekit.testing import assert_same_bits, compare, to_bytes
from statekit.testing.copies import Copies

BF16 = torch.arange(12).reshape(3, 4).bfloat16()


class Pair(NamedTuple):
    """A tuple with names."""

    k: Any
    v: Any


@attrs.define
class Slotted:
    """An instance without a dict."""

    bits: Any


def flipped(tensor: torch.Tensor, index: tuple[int, ...]) -> torch.Tensor:
    """The tensor with the lowest bit of one element the other way."""
    other = tensor.clone()
    other.view(torch.int16)[index] ^= 1
    return other


def bits_of_nan(payload: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", 0x7FF8 << 48 | payload))[0]


PAIRS: dict[str, tuple[Any, Any, str]] = {
    "one bit": (
        [1, flipped(BF16, (2, 3))],
        [1, BF16],
        "[1]: element [2, 3] of torch.bfloat16 (3, 4) on cpu is 11.0625 (0x4131), "
        "want 11.0 (0x4130); 1 of 12 differ",
    ),
    "negative zero": (
        {"a": torch.tensor([0.0])},
        {"a": torch.tensor([-0.0])},
        "['a']: element [0] of torch.float32 (1,) on cpu is 0.0 (0x00000000), "
        "want -0.0 (0x80000000); 1 of 1 differ",
    ),
    "NaN payload": (
        np.array([1, bits_of_nan(1)]),
        np.array([1, bits_of_nan(2)]),
        "element [1] of numpy float64 (2,) is nan (0x7ff8000000000001), "
        "want nan (0x7ff8000000000002); 1 of 2 differ",
    ),
    "dtype": (BF16.float(), BF16, "dtype torch.float32, want torch.bfloat16"),
    "array dtype": (np.zeros(2, ">f4"), np.zeros(2, "<f4"), "dtype >f4, want float32"),
    "shape": (BF16.T, BF16, "shape (4, 3), want (3, 4)"),
    "device": (
        torch.empty(2, device="meta"),
        torch.empty(2),
        "device meta, want cpu",
    ),
    "array for tensor": (
        (np.zeros(2),),
        (torch.zeros(2),),
        "[0]: type a numpy.ndarray, want a torch.Tensor",
    ),
    "parameter for tensor": (
        torch.nn.Parameter(torch.zeros(1)),
        torch.zeros(1),
        "type a torch.Parameter, want a torch.Tensor",
    ),
    "tuple for list": ([(1,)], [[1]], "[0]: type a tuple, want a list"),
    "length": ([[1, 2]], [[1]], "[0]: length 2 entries, want 1 entries"),
    "keys": ({"a": 1}, {"b": 1}, "keys ['a'], want ['b']"),
    "order of keys": (
        OrderedDict(a=1, b=2),
        OrderedDict(b=2, a=1),
        "keys ['a', 'b'], want ['b', 'a']",
    ),
    "bound": (deque([1], 2), deque([1], 3), "maxlen 2, want 3"),
    "named tuple": (Pair(1, 2), Pair(1, 3), "[1]: value 2, want 3"),
    "bool for int": (True, 1, "type a bool, want an int"),
    "float": (
        [0.0],
        [-0.0],
        "[0]: element [] of float is 0.0 (0x0000000000000000), want -0.0 (0x8000000000000000); "
        "1 of 1 differ",
    ),
    "complex": (0j, complex(0, -0.0), "value 0j, want -0j"),
    "numpy scalar": (
        np.float32(1),
        np.float32(-1),
        "element [] of numpy float32 () is 1.0 (0x3f800000), want -1.0 (0xbf800000); 1 of 1 differ",
    ),
    "text": ("a", "b", "value 'a', want 'b'"),
    "attribute": (
        SimpleNamespace(kv=[torch.zeros(1)]),
        SimpleNamespace(kv=None),
        ".kv: type a list, want None",
    ),
    "attribute of slots": (Slotted(1), Slotted(2), ".bits: value 1, want 2"),
    "members": ({1, 2}, {1, 3}, "members {1, 2}, want {1, 3}"),
    "objects in an array": (
        np.array([None, "a"], object),
        np.array([None, "b"], object),
        "[1]: value 'a', want 'b'",
    ),
    "generator": (
        torch.Generator().manual_seed(1),
        torch.Generator().manual_seed(2),
        "state another, want that of the generator",
    ),
    "sparse": (
        torch.tensor([1.0, 0]).to_sparse(),
        torch.tensor([2.0, 0]).to_sparse(),
        "element [0] of torch.float32 (2,) on cpu is 1.0 (0x3f800000), want 2.0 (0x40000000); "
        "1 of 2 differ",
    ),
}


@pytest.mark.parametrize(("got", "want", "told"), PAIRS.values(), ids=PAIRS)
def test_values_when_one_thing_differs_then_told_with_its_place(
    got: Any, want: Any, told: str
) -> None:
    """One difference of any kind, deep in a value, is found; in both directions."""
    assert str(compare(got, want).difference) == told
    assert compare(want, got).difference is not None
    with pytest.raises(AssertionError) as caught:
        assert_same_bits(got, want, "latent")
    assert str(caught.value).startswith("latent")


@pytest.mark.parametrize("value", [pair[1] for pair in PAIRS.values()], ids=PAIRS)
def test_values_when_copied_then_no_difference(value: Any) -> None:
    """A value equals its copy, whatever its kind."""
    assert_same_bits(Copies().of(value), value)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex64", "float8_e4m3fn"],
)
def test_tensor_when_of_any_dtype_then_its_bits_are_compared(dtype: str) -> None:
    """One other byte is found in tensors of each width, views and empty ones included."""
    memory = torch.zeros(3, 2).to(getattr(torch, dtype))
    got, want = memory.clone().T, memory.T
    assert compare(got, want).difference is None
    got.T.view(torch.uint8)[2, -1] = 1
    found = compare(got, want).difference
    assert found is not None
    assert found.elements is not None
    assert (found.elements.index, found.elements.count) == ((1, 2), 1)
    assert compare(got[:0], want[:0]).difference is None


def test_strides_when_asked_for_then_compared() -> None:
    """How a value lies is no difference, unless it is asked for."""
    for value, other in ((BF16, BF16.T.contiguous().T), (np.eye(2), np.asfortranarray(np.eye(2)))):
        assert compare(other, value).difference is None
        assert_same_bits(other, value)
        found = compare(other, value, strides=True).difference
        assert found is not None
        assert found.aspect == "strides"


def test_conjugate_view_when_compared_then_by_what_it_reads_as() -> None:
    """A lazy conjugate is the numbers that a reader gets."""
    lazy = torch.tensor([1 + 2j]).conj()
    assert to_bytes(lazy) == to_bytes(lazy.resolve_conj().clone())


def test_tolerance_when_given_then_lets_pass_and_counts_what_is_within_it() -> None:
    """Within atol + rtol * abs(want) passes and is counted; an element beyond is a difference."""
    want = torch.tensor([1.0, 100.0, -0.0])
    got = torch.tensor([1.0, 100.0009, 0.0])
    passed = compare(got, want, tolerance=Tolerance(rtol=1e-5))
    assert passed.difference is None
    assert passed.within is not None
    assert passed.within.count == 2
    assert passed.within.max_abs == pytest.approx(0.0009, rel=0.01)

    found = compare(got, want, tolerance=Tolerance(atol=1e-5)).difference
    assert found is not None
    assert found.elements is not None
    assert (found.elements.index, found.elements.count, found.elements.beyond) == ((1,), 2, 1)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (math.nan, 1.0),
        (1.0, math.nan),
        (math.inf, 1.0),
        (-math.inf, math.inf),
        (math.nan, math.inf),
    ],
)
def test_tolerance_when_one_is_no_finite_number_then_a_difference(got: float, want: float) -> None:
    """No tolerance makes a NaN or an infinity equal to anything else."""
    loose = Tolerance(atol=1e9, rtol=0.0)
    assert (
        compare(torch.tensor([got]), torch.tensor([want]), tolerance=loose).difference is not None
    )
    assert compare(got, want, tolerance=loose).difference is not None


def test_tolerance_when_values_are_whole_numbers_then_unused() -> None:
    """A counter that is off by one is wrong, however loose the tolerance."""
    loose = Tolerance(atol=10)
    assert compare(torch.tensor([1]), torch.tensor([2]), tolerance=loose).difference is not None
    assert compare(1, 2, tolerance=loose).difference is not None


def test_cycle_when_compared_then_ends() -> None:
    """A list that holds itself is compared once."""
    one: list[Any] = [1]
    one.append(one)
    other: list[Any] = [1]
    other.append(other)
    assert compare(one, other).difference is None
    other[0] = 2
    assert compare(one, other).difference is not None
