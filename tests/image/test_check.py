"""Recipes from elsewhere: `statekit.image.check`. One line for each way in which one can be bad."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from statekit.image.check import BadRecipeError, check_recipe
from statekit.image.grammar import TENSOR_DTYPES, TORCH_DTYPES, array_itemsize
from statekit.image.plain import encode_array_dtype
from statekit.image.recipe import Recipe
from statekit.image.taking import take_image
from tests.parking.trees import ARRAY_DTYPES, trees

NBYTES = 64


def recipe(*nodes: Any, storages: Any = (("cpu", NBYTES),), **more: Any) -> dict[str, Any]:
    """A recipe over one storage of 64 bytes, whose root is the last node."""
    data = {"format": 1, "storages": [list(one) for one in storages], "nodes": list(nodes)}
    return {**data, "root": len(nodes) - 1, **more}


def tensor(place: Any = (0, 0, NBYTES), **view: Any) -> list[Any]:
    """A tensor of 16 floats over it, but for what is said."""
    whole: dict[str, Any] = {
        "dtype": "float32",
        "shape": [4, 4],
        "strides": [4, 1],
        "offset": 0,
        "device": "cpu",
        **dict.fromkeys(["requires_grad", "conj", "neg", "inference", "parameter"], False),
    }
    return ["tensor", {**whole, **view}, None if place is None else list(place)]


def array(place: Any = (0, 0, NBYTES), **view: Any) -> list[Any]:
    """An array of 16 floats over it, but for what is said."""
    whole = {"dtype": "<f4", "shape": [16], "strides": [4], "offset": 0, "writeable": True}
    return ["array", {**whole, **view}, None if place is None else list(place)]


def bits() -> list[Any]:
    """A recipe's nodes of a seed and of a bit generator made with it."""
    nodes: list[Any] = take_image(np.random.PCG64(1)).recipe.data["nodes"]
    return nodes


RECORD = ["record", ["a", "b"], ["<i2", "<f8"], [0, 2], [None, None], 10, False]
DEEP: Any = reduce(lambda code, _: ["subarray", code, [1]], range(40), "<f4")
WORDS = [0] * 624

BAD: dict[str, tuple[Any, str]] = {
    # the whole
    "no object": ([], "other fields"),
    "more": (recipe(["none"], more=1), "other fields"),
    "format": (recipe(["none"], format=2), "another format"),
    "format of another type": (recipe(["none"], format=True), "another format"),
    "no nodes": (recipe(), "no root"),
    "nodes that are none": (recipe(nodes={}), "no lists"),
    "root": (recipe(["none"], root=1), "no root"),
    "root of another type": (recipe(["none"], root=False), "no root"),
    "storage": (recipe(["none"], storages=[["cpu"]]), "no storage"),
    "storage of nothing": (recipe(["none"], storages=[["cpu", 0]]), "a storage of no size"),
    "storage of a negative size": (recipe(["none"], storages=[["cpu", -1]]), "of no size"),
    "storage that is too large": (recipe(["none"], storages=[["cpu", 65]]), "more bytes"),
    "storages that are too large": (recipe(["none"], storages=[["cpu", 33]] * 2), "more bytes"),
    "storage of no device": (recipe(["none"], storages=[["meta", 1]]), "no device"),
    "storage of a strange device": (recipe(["none"], storages=[["cpu;rm", 1]]), "no device"),
    "storage of a device that is none": (recipe(["none"], storages=[[0, 1]]), "no device"),
    # nodes
    "node": (recipe(3), "no node, in node 0"),
    "empty node": (recipe([]), "no node"),
    "node of no kind": (recipe([3]), "no node"),
    "unknown kind": (recipe(["none"], ["object"]), "a kind that is none, in node 1"),
    "kept": (recipe(["kept", 0]), "a kind that is none"),
    "child that is not there": (recipe(["list", [1]]), "a child that is not there"),
    "negative child": (recipe(["list", [-1]]), "a child that is not there"),
    "child of another type": (recipe(["list", [False]]), "a child that is not there"),
    "no children": (recipe(["list"]), "no children"),
    "children that are none": (recipe(["list", 3]), "no children"),
    "too many fields": (recipe(["list", [], None]), "no children"),
    "pair": (recipe(["none"], ["dict", [[0]]]), "no children|no pair"),
    "pair that is none": (recipe(["none"], ["dict", [0]]), "no pair"),
    "deque without bound": (recipe(["deque", []]), "no children"),
    "deque of a negative bound": (recipe(["deque", [], -1]), "a length that is none"),
    "deque over its bound": (recipe(["none"], ["deque", [0, 0], 1]), "a length that is none"),
    "tuple of a later one": (recipe(["tuple", [1]], ["tuple", []]), "a child built later"),
    "tuple of itself": (recipe(["tuple", [0]]), "a child built later"),
    # what is hashed
    "key that is no key": (recipe(["list", []], ["none"], ["dict", [[0, 1]]]), "cannot be one"),
    "member that is none": (recipe(["dict", []], ["set", [0]]), "cannot be one"),
    "member in a tuple": (
        recipe(["list", []], ["tuple", [0]], ["frozenset", [1]]), "cannot be one"
    ),
    "array as a key": (recipe(array(), ["none"], ["dict", [[0, 1]]]), "cannot be one"),
    "key without end": (
        recipe(["int", 1], *(["tuple", [i, i]] for i in range(60)), ["set", [60]]),
        "take too long to hash",
    ),
    "keys without end": (
        recipe(
            ["int", 1],
            *(["tuple", [i, i]] for i in range(20)),
            *(["frozenset", [20]] for _ in range(20)),
        ),
        "take too long to hash",
    ),
    "key too deep": (
        recipe(["int", 1], *(["tuple", [i]] for i in range(10_000)), ["set", [10_000]]),
        "nested too deep",
    ),
    "size as a key": (
        recipe(["size", [1] * 4096], *(["frozenset", [0]] for _ in range(5000))),
        "take too long to hash",
    ),
    "number as a key": (
        recipe(["int", "0x1" + "0" * 65536], *(["frozenset", [0]] for _ in range(5000))),
        "take too long to hash",
    ),
    "keys of one hash": (
        recipe(*(["int", hex(i * (2**61 - 1) + 2**64)] for i in range(300)),
               ["set", list(range(300))]),
        "too many keys or members of one hash",
    ),
    "tuples of one hash": (
        recipe(["int", -1], ["int", -2],
               *(["tuple", [i >> bit & 1 for bit in range(9)]] for i in range(512)),
               ["set", list(range(2, 514))]),
        "too many keys or members of one hash",
    ),
    # plain values
    "none with more": (recipe(["none", 1]), "too much"),
    "flag": (recipe(["bool", 1]), "no truth value"),
    "number": (recipe(["int", 1.0]), "no whole number"),
    "number that is a flag": (recipe(["int", True]), "no whole number"),
    "number in decimals": (recipe(["int", "10"]), "no whole number"),
    "number with a line": (recipe(["int", "0x1_0"]), "no whole number"),
    "real number": (recipe(["float", 1]), "no number"),
    "real number without end": (recipe(["float", float("inf")]), "no number"),
    "real number in digits": (recipe(["float", "00"]), "no number"),
    "complex number": (recipe(["complex", 1.0]), "no two numbers"),
    "text": (recipe(["str", "é"]), "no ASCII text"),
    "text of digits": (recipe(["text", "c3"]), "no text"),
    "text of half a digit": (recipe(["text", "c3a"]), "no digits"),
    "text with blanks": (recipe(["text", "c3 a9 "]), "no digits"),
    "size": (recipe(["size", [1.0]]), "no size"),
    "size beyond all": (recipe(["size", [2**64]]), "no size"),
    "dtype": (recipe(["dtype", "nn"]), "no dtype of torch"),
    "dtype that is none": (recipe(["dtype", ["float32"]]), "no dtype of torch"),
    "device": (recipe(["device", "cpu:1:2"]), "no device"),
    "scalar": (recipe(["scalar", "<f4", "00"]), "too few or too many digits"),
    "scalar of bytes": (recipe(["scalar", "|V4", "00000000"]), "no dtype and digits"),
    "scalar of objects": (recipe(["scalar", "|O", "0000000000000000"]), "no dtype and digits"),
    "scalar of a record": (recipe(["scalar", RECORD, ""]), "no dtype and digits"),
    # places
    "place": (recipe(tensor((0, 0))), "no place in a storage"),
    "place of another type": (recipe(tensor((0, 0, 64.0))), "no place in a storage"),
    "place in no storage": (recipe(tensor((1, 0, 4))), "no place in a storage"),
    "place of no bytes": (recipe(tensor((0, 0, 0), shape=[0])), "no place in a storage|no shape"),
    "place that reaches out": (recipe(tensor((0, 4, 64))), "reaches out of its storage"),
    "place before the start": (recipe(tensor((0, -4, 64))), "no place in a storage"),
    "bytes out of place": (recipe(["bytes", [0, 60, 5]]), "reaches out of its storage"),
    "bytes twice": (recipe(*[["bytes", [0, 0, 64]]] * 2), "bytes that are copied twice"),
    "bytes elsewhere": (
        recipe(["bytes", [0, 0, 64]], storages=[["cuda:0", 64]]), "bytes on no CPU"
    ),
    # tensors
    "tensor without a view": (recipe(["tensor", None, None]), "no view and place"),
    "tensor with more": (recipe(tensor(more=1)), "other fields"),
    "tensor of no dtype": (recipe(tensor(dtype="qint8")), "no dtype of torch"),
    "tensor of another dtype": (recipe(tensor(dtype="float64")), "reaches out of its memory"),
    "tensor that grows": (recipe(tensor(shape=[5, 4])), "reaches out of its memory"),
    "tensor that strides out": (recipe(tensor(strides=[5, 1])), "reaches out of its memory"),
    "tensor that is moved out": (recipe(tensor(offset=1)), "reaches out of its memory"),
    "tensor before its start": (recipe(tensor(offset=-1)), "no offset"),
    "tensor backwards": (recipe(tensor(strides=[-4, 1])), "a negative stride"),
    "tensor of a negative length": (recipe(tensor(shape=[-4, 4])), "a length that is none"),
    "tensor of strides too few": (recipe(tensor(strides=[1])), "no shape of so many dimensions"),
    "tensor of many dimensions": (
        recipe(tensor(shape=[1] * 65, strides=[1] * 65)), "no shape of so many dimensions"
    ),
    "tensor of a vast length": (recipe(tensor(shape=[2**62], strides=[0])), "a length"),
    "tensor of a vast shape": (
        recipe(tensor(shape=[2**40, 2**40], strides=[0, 0])), "a size beyond all memory"
    ),
    "tensor of a vast stride": (recipe(tensor(strides=[2**63, 1])), "a stride that is none"),
    "tensor of nothing but vast": (
        recipe(tensor(None, shape=[0, 2**40, 2**40], strides=[0, 0, 0])), "a size beyond"
    ),
    "tensor without memory": (recipe(tensor(None)), "elements without memory"),
    "tensor on no device": (recipe(tensor(None, shape=[0], strides=[1], device="meta")), "device"),
    "tensor on another device": (recipe(tensor(device="cuda:0")), "another device"),
    "tensor at an odd address": (recipe(tensor((0, 2, 62), shape=[1, 1])), "an odd address"),
    "tensor with a false gradient": (
        recipe(tensor(dtype="int32", requires_grad=True)), "a false gradient"
    ),
    "real conjugate": (recipe(tensor(conj=True)), "a conjugate of a real number"),
    "negative view": (recipe(tensor(dtype="bool", neg=True)), "a negative view of no number"),
    "flag that is none": (recipe(tensor(inference=1)), "a flag that is none"),
    # arrays
    "array with more": (recipe(array(more=1)), "other fields"),
    "array of objects": (recipe(array(dtype="|O")), "no dtype of numpy"),
    "array of hidden objects": (
        recipe(array(dtype=["record", ["a"], ["|O"], [0], [None], 8, False])), "no dtype of numpy"
    ),
    "array that grows": (recipe(array(shape=[17])), "reaches out of its memory"),
    "array that strides out": (recipe(array(strides=[5])), "reaches out of its memory"),
    "array before its start": (recipe(array(strides=[-4])), "reaches out of its memory"),
    "array moved out": (recipe(array(offset=1)), "reaches out of its memory"),
    "array of a larger dtype": (recipe(array(dtype="<U2")), "reaches out of its memory"),
    "array without memory": (recipe(array(None)), "reaches out of its memory"),
    "array of nothing, far away": (
        recipe(array(None, shape=[0], offset=2**40)), "reaches out of its memory"
    ),
    "array on a device": (recipe(array(), storages=[["cuda:0", 64]]), "an array on no CPU"),
    "array of a vast shape": (
        recipe(array(shape=[2**31, 2**31, 0], strides=[0, 0, 0])), "a size beyond all memory"
    ),
    # dtypes of arrays
    **{
        f"dtype {code!r:.30}": (recipe(array(dtype=code)), "no dtype of numpy")
        for code in [
            *("", "f4", "<f3", "<f4 ", "f4,f4", "<M8[x]", "<M8[ns", "|S-1", "<U99999999999", "|S"),
            *(None, 4, [], ["record"], ["subarray", "<f4"], ["subarray", "<f4", [-1]], DEEP),
            ["subarray", "<f4", [2**31]],
            [*RECORD[:5], 9, False],
            [*RECORD[:5], 2**40, False],
            [*RECORD[:3], [0, -1], *RECORD[4:]],
            ["record", ["a", "a"], *RECORD[2:]],
            ["record", ["a", 3], *RECORD[2:]],
            ["record", ["a"], *RECORD[2:]],
            [*RECORD[:4], [None, "a"], *RECORD[5:]],
        ]
    },
    # generators
    "torch generator": (recipe(["torch_generator", "cpu", ""]), "no state"),
    "torch generator nowhere": (recipe(["torch_generator", "meta", "00"]), "no device"),
    "torch generator of a vast state": (
        recipe(["torch_generator", "cpu", "00" * 40_000]), "no state"
    ),
    "python generator": (recipe(["random", WORDS, None]), "no state"),
    "python generator beyond": (recipe(["random", [*WORDS, 625], None]), "no place in the state"),
    "python generator of a large word": (recipe(["random", [2**32, *WORDS], None]), "no state"),
    "python generator of no number": (recipe(["random", [*WORDS, 1], 1]), "no number"),
    "seed": (recipe(["seed_sequence", [], [], 4, 0]), "no seed"),
    "negative seed": (recipe(["seed_sequence", [-1], [], 4, 0]), "no seed"),
    "negative large seed": (recipe(["seed_sequence", ["-0x1"], [], 4, 0]), "no seed"),
    "vast pool": (recipe(["seed_sequence", [1], [], 2**40, 0]), "no pool"),
    "generator of nothing": (recipe(["generator"]), "no other object|no children"),
    "generator of a list": (recipe(["list", []], ["generator", 0]), "no bit generator"),
    "generator of a later one": (recipe(["generator", 2], *bits()), "a child built later"),
    "legacy generator": (recipe(*bits(), ["random_state", 1, 2, 0.0]), "no gaussian"),
    "bits of no seed": (
        recipe(["none"], ["bit_generator", 0, *bits()[1][2:]]), "no name and state|no seed"
    ),
    "bits of no name": (recipe(bits()[0], ["bit_generator", 0, "Own", {}]), "no bit generator"),
    "bits without state": (recipe(bits()[0], ["bit_generator", 0, "PCG64", {}]), "no state of its"),
}  # fmt: skip


def with_state(name: str, path: str, code: Any) -> dict[str, Any]:
    """A recipe of a bit generator one of whose fields is `code`."""
    data = json.loads(json.dumps(take_image(getattr(np.random, name)(1)).recipe.data))
    (node,) = [one for one in data["nodes"] if one[0] == "bit_generator"]
    node[3][path] = code
    return data


BAD_STATES = [
    ("MT19937", "state.pos", 625),
    ("MT19937", "state.pos", -1),
    ("MT19937", "state.key", [0] * 623),
    ("MT19937", "state.key", [2**32] * 624),
    ("Philox", "buffer_pos", 5),
    ("Philox", "buffer", [0] * 5),
    ("PCG64", "state.state", "0x1" + "0" * 32),
    ("PCG64", "has_uint32", 2),
    ("SFC64", "state.state", [0.5] * 4),
]


@pytest.mark.parametrize(("data", "found"), BAD.values(), ids=BAD)
def test_recipe_when_bad_then_the_check_says_why(data: Any, found: str) -> None:
    """Each way to be bad is found before anything is built."""
    with pytest.raises(BadRecipeError, match=found):
        check_recipe(data, NBYTES)


@pytest.mark.parametrize(("name", "path", "code"), BAD_STATES)
def test_state_when_beyond_its_buffer_then_it_is_refused(name: str, path: str, code: Any) -> None:
    """numpy would read behind the buffer; such a state does not reach it."""
    with pytest.raises(BadRecipeError, match="no state of its kind"):
        check_recipe(with_state(name, path, code), 0)


@pytest.mark.parametrize("node", [tensor(), array(), ["bytes", [0, 3, 61]]], ids=str)
def test_recipe_when_good_then_it_is_built(node: list[Any]) -> None:
    """The nodes of these tests are good, but for what each of them changes."""
    check_recipe(recipe(node), NBYTES)
    Recipe(recipe(node)).build([torch.zeros(NBYTES, dtype=torch.uint8)])


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(trees())
def test_recipe_when_taken_then_it_passes(tree: Any) -> None:
    """Whatever has a picture passes, after JSON as before."""
    image = take_image(tree)
    check_recipe(image.recipe.data, image.nbytes)
    check_recipe(json.loads(json.dumps(image.recipe.data)), image.nbytes)


def test_keys_when_many_then_they_pass() -> None:
    """Keys as models use them (numbers, pairs, names, sets) are far from every limit."""
    value = {
        "n": dict.fromkeys(range(5000), 0),
        "pairs": {(i, f"k{i % 7}", -i): 0 for i in range(5000)},
        "names": dict.fromkeys(map(str, range(5000))),
        "sets": {frozenset([i, i + 1]) for i in range(1000)},
        "reals": {i / 7 for i in range(1000)},
        "bytes": {b"%d" % i for i in range(1000)},
        "scalars": {np.int64(i): np.float32(i) for i in range(1000)},
        "tensors": {torch.ones(1): 1 for _ in range(500)},
        "signs": {(a, b, c, d) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1) for d in (-1, 1)},
    }
    image = take_image(value)
    check_recipe(image.recipe.data, image.nbytes)


def test_keys_when_equal_then_they_are_not_built() -> None:
    """Two keys can be equal that the check cannot compare; a dict does not lose one silently."""
    data = recipe(["int", 1], ["float", 1.0], ["none"], ["dict", [[0, 2], [1, 2]]])
    check_recipe(data, NBYTES)
    with pytest.raises(ValueError, match="equal"):
        Recipe(data).build([torch.zeros(NBYTES, dtype=torch.uint8)])


@pytest.mark.parametrize("dtype", ARRAY_DTYPES, ids=str)
def test_array_dtype_when_written_then_the_grammar_knows_its_size(dtype: Any) -> None:
    """The grammar, which knows no numpy, agrees with it."""
    real = np.dtype(dtype)
    assert array_itemsize(encode_array_dtype(real)) == real.itemsize


@pytest.mark.parametrize(
    "code", [np.dtype(char).str for char in np.typecodes["All"] if char != "O"]
)
def test_scalar_dtype_when_numpy_has_it_then_the_grammar_knows_its_size(code: str) -> None:
    """Every dtype of numpy but objects is in the grammar."""
    assert array_itemsize(code) == np.dtype(code).itemsize


def test_tensor_dtypes_when_torch_has_them_then_the_tables_do() -> None:
    """The tables name every dtype of the torch that runs, with the bytes of an element."""
    dtypes = {one for one in vars(torch).values() if isinstance(one, torch.dtype)}
    for dtype in dtypes:
        name = str(dtype).removeprefix("torch.")
        assert name in TORCH_DTYPES
        assert TENSOR_DTYPES.get(name, dtype.itemsize) == dtype.itemsize
