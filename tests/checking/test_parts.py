"""The parts of checking mode by themselves: types, symbols, sums of bytes, overlaps, places."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.checking.arrays import arrays_of, parts_of
from statekit.checking.checksum import _sum_on_device, bytes_checksum
from statekit.checking.declaration import declarations_of
from statekit.checking.overlap import bounds_of, share_an_element
from statekit.checking.symbols import Extent, Symbols
from statekit.checking.type_text import TypeText
from statekit.expressions import Expression
from statekit_codegen.type_grammar import TypeExpr

# -- types -----------------------------------------------------------------------------------------

LEAVES: list[tuple[str, Any]] = [
    ("None", None), ("bool", True), ("int", 3), ("float", 0.5), ("str", "x"), ("bytes", b"x"),
    ("torch.Tensor", torch.zeros(1)), ("np.ndarray", np.zeros(1)),
    ("torch.Generator", torch.Generator()),
]  # fmt: skip


def in_containers(inner: st.SearchStrategy[tuple[str, Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    """A type and a value of it, one level deeper."""
    return st.one_of(
        inner.map(lambda one: (f"list[{one[0]}]", [one[1]] * 2)),
        inner.map(lambda one: (f"deque[{one[0]}]", deque([one[1]]))),
        inner.map(lambda one: (f"dict[str, {one[0]}]", {"a": one[1]})),
        inner.map(lambda one: (f"tuple[{one[0]}, ...]", (one[1],) * 3)),
        st.tuples(inner, inner).map(
            lambda two: (f"tuple[{two[0][0]}, {two[1][0]}]", (two[0][1], two[1][1]))
        ),
        st.tuples(inner, inner).map(lambda two: (f"{two[0][0]} | {two[1][0]}", two[1][1])),
    )


@given(st.recursive(st.sampled_from(LEAVES), in_containers, max_leaves=6))
def test_type_when_the_generator_wrote_it_then_its_values_fit(typed: tuple[str, Any]) -> None:
    """Every type that the grammar can say is read, and takes the values that it means."""
    text, value = typed
    canonical = TypeExpr.parse(text).text
    assert TypeText.parse(canonical).misfit(value) is None
    assert TypeText.parse(f"set[{canonical}]").misfit(value) is not None


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("int", True, "it is a bool"),
        ("int", np.int64(3), "it is an int64"),
        ("float", "1", "it is a str"),
        ("list[int] | list[str]", [1, "a"], "[1] is a str"),
        ("list[int] | None", [1, None], "[1] is None"),
        ("set[int]", {"a"}, " member 'a' is a str"),
        ("tuple[int, int]", (1, 2, 3), "it has 3 entries"),
        ("tuple[int, ...]", (1, "a"), "[1] is a str"),
        ("dict[str, list[torch.Tensor]]", {"k": [None]}, "['k'][0] is None"),
    ],
)
def test_type_when_a_value_is_of_another_then_says_where(text: str, value: Any, found: str) -> None:
    """The first part that does not fit, with its path."""
    assert TypeText.parse(text).misfit(value) == found


def test_type_when_its_name_is_unknown_then_takes_anything() -> None:
    """A class of somebody's own is not looked up."""
    assert TypeText.parse("list[mine.Thing]").misfit([object()]) is None
    assert TypeText.parse("Optional[int]").misfit(None) is None
    assert TypeText.parse("Optional[int]").misfit("a") == "it is a str"


# -- symbols ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found", "number"),
    [
        ("H", 7, 7), ("H / 8", 7, 56), ("2 * H", 14, 7), ("H * 2 + 1", 15, 7), ("H - 3", 4, 7),
        ("20 - H", 13, 7), ("(H + F) / F", 3, 8), ("H // 8", 7, None), ("max(H, 2)", 7, None),
        ("2 * H", 15, None), ("H * W", 12, None),
    ],
)  # fmt: skip
def test_symbol_when_an_extent_determines_it_then_learned(
    text: str, found: int, number: int | None
) -> None:
    """Sums, differences, products, exact quotients are solved; not what has many solutions."""
    symbols = Symbols({"F": 4})
    symbols.learn([Extent(0, Expression.parse(text), found)], "value")
    assert symbols.numbers.get("H") == number


@given(height=st.integers(1, 99), width=st.integers(1, 99), wrong=st.integers(-3, 3))
def test_symbols_when_extents_contradict_then_found_whatever_their_order(
    height: int, width: int, wrong: int
) -> None:
    """H, W and what follows from them agree, or one of them is found."""
    texts = {"H * W": height * width, "H / 8": height, "W": width, "H": height * 8 + wrong}
    texts["H * W"] *= 8
    for order in (list(texts), list(reversed(texts))):
        symbols = Symbols({})
        extents = [Extent(dim, Expression.parse(text), texts[text])
                   for dim, text in enumerate(order)]  # fmt: skip
        symbols.learn(extents, "value")
        found = [one for one in map(symbols.contradiction, extents) if one is not None]
        assert bool(found) == bool(wrong)


# -- sums of bytes ---------------------------------------------------------------------------------


@given(
    size=st.integers(1, 40_000),
    dtype=st.sampled_from([torch.uint8, torch.bfloat16, torch.float32, torch.complex128]),
    data=st.data(),
)
def test_checksum_when_any_element_changes_then_another(
    size: int, dtype: torch.dtype, data: st.DataObject
) -> None:
    """One element, wherever it is; and two that change places."""
    tensor = (torch.arange(size) % 251).to(dtype)
    before = bytes_checksum(tensor)
    assert bytes_checksum(tensor.clone()) == before
    index = data.draw(st.integers(0, size - 1))
    tensor[index] = 252
    assert bytes_checksum(tensor) != before
    tensor[index] = index % 251
    assert bytes_checksum(tensor) == before
    other = data.draw(st.integers(0, size - 1))
    tensor[[index, other]] = tensor[[other, index]]
    assert (bytes_checksum(tensor) == before) == (index % 251 == other % 251)


def test_checksum_when_the_same_elements_lie_elsewhere_then_the_same() -> None:
    """Strides, offsets and alignment do not count; arrays and tensors agree."""
    tensor = torch.randn(6, 5, 4)
    want = bytes_checksum(tensor)
    assert bytes_checksum(tensor.transpose(0, 2).contiguous().transpose(0, 2)) == want
    assert bytes_checksum(torch.cat([torch.zeros(1), tensor.flatten()])[1:].view(6, 5, 4)) == want
    assert bytes_checksum(tensor.numpy()) == want
    assert bytes_checksum(tensor.requires_grad_()) == want
    assert bytes_checksum(torch.zeros(1).expand(10**9)) is not None  # without making them all


@given(size=st.integers(8, 100_000), offset=st.integers(0, 9), data=st.data())
def test_checksum_when_taken_on_a_device_then_tells_the_same(
    size: int, offset: int, data: st.DataObject
) -> None:
    """The sum for accelerators, taken of host memory: the same bytes the same, others not."""
    flat = (torch.arange(size + offset) % 251).to(torch.uint8)[offset:]
    before = _sum_on_device(flat)
    assert _sum_on_device(flat.clone()) == before
    flat[data.draw(st.integers(0, size - 1))] = 255
    assert _sum_on_device(flat) != before


def test_checksum_when_there_are_no_bytes_then_none() -> None:
    """Sparse and meta tensors and arrays of objects have nothing to sum."""
    assert bytes_checksum(torch.eye(3).to_sparse()) is None
    assert bytes_checksum(torch.zeros(3, device="meta")) is None
    assert bytes_checksum(np.array([object()])) is None
    assert bytes_checksum(torch.zeros(0)) == bytes_checksum(np.zeros(0)) == 0


# -- overlaps --------------------------------------------------------------------------------------

SLICES = st.tuples(st.integers(0, 11), st.integers(0, 12), st.sampled_from([1, 2, 3]))


@given(first=st.tuples(SLICES, SLICES), second=st.tuples(SLICES, SLICES), flip=st.booleans())
def test_overlap_when_two_views_share_an_element_then_exactly_then(
    first: Any, second: Any, flip: bool
) -> None:
    """The same answer as writing into one and looking at the other."""
    base = torch.zeros(12, 12)
    one, other = (base[slice(*rows), slice(*columns)] for rows, columns in (first, second))
    other = other.t() if flip else other
    array = other.numpy()[::-1]
    if bounds_of(one) is None or bounds_of(other) is None:
        assert not one.numel() or not other.numel()
        return
    one.fill_(1)
    assert share_an_element(one, other) == share_an_element(one, array) == bool(other.any())
    assert bounds_of(array) == bounds_of(other)


def test_bounds_when_there_is_no_one_storage_then_none() -> None:
    """Sparse, meta and empty tensors have no bounds."""
    for value in (torch.eye(3).to_sparse(), torch.zeros(3, device="meta"), torch.zeros(0, 3)):
        assert bounds_of(value) is None


# -- places and parts ------------------------------------------------------------------------------


def test_place_when_a_key_is_of_a_family_then_with_its_members() -> None:
    """A key tells its value and its members; members of other branches do not meet."""
    declarations = declarations_of(Cosmos3StateAdapter.SPEC)
    place = declarations.place("und_kv_neg/12", "StateObject")
    assert place is not None
    assert (place.declaration.name, place.members) == (
        "und_kv",
        {"branch": "negative", "layer": "12"},
    )
    other, freqs = (
        declarations.place(key, "StateObject") for key in ("und_kv/12", "freqs_gen_neg")
    )
    assert other is not None
    assert freqs is not None
    assert (place.meets(other), place.meets(freqs), other.meets(freqs)) == (False, True, False)
    for key in ("und_kv", "und_kv/x", "und_kv_neg/", "freqs_gen_neg2"):
        assert declarations.place(key, "StateObject") is None
    assert declarations.place("freqs_gen", "attrs") is None


def test_parts_when_a_container_holds_itself_then_ends() -> None:
    """Each container is looked into once, and a tensor that is there twice is listed twice."""
    tensor = torch.zeros(1)
    value: list[Any] = [tensor, {"k": (tensor, deque([np.zeros(2)]))}]
    value.append(value)
    assert [path for path, _ in arrays_of(value)] == ["[0]", "[1]['k'][0]", "[1]['k'][1][0]"]
    assert len(list(parts_of(value))) == 8
