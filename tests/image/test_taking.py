"""Pictures of values, and what they are built into: `statekit.image.taking`."""

from __future__ import annotations

import json
import mmap
import pickle
import tempfile
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from statekit.accounting import SeenStorages, device_bytes
from statekit.errors import UnparkableError
from statekit.image.recipe import Recipe
from statekit.image.taking import Image, take_image
from tests.parking.trees import TENSOR_DTYPES, assert_same, trees


def copies(image: Image) -> list[torch.Tensor]:
    return [storage.clone() for storage in image.storages]


def back(value: Any) -> Any:
    """What `value` is built into from copies of its bytes and its recipe in JSON."""
    image = take_image(value)
    recipe = Recipe(json.loads(json.dumps(image.recipe.data)))
    return recipe.build(copies(image))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees())
def test_image_when_built_then_every_tree_is_the_same_bit_for_bit(tree: Any) -> None:
    """A random tree with random sharing comes back the same, through a recipe made JSON."""
    assert_same(tree, back(tree))


@pytest.mark.parametrize("dtype", TENSOR_DTYPES, ids=str)
def test_tensor_when_built_then_any_dtype_has_the_same_bits(dtype: torch.dtype) -> None:
    """Every dtype comes back with its bits, those of NaNs included."""
    tensor = torch.full((64,), 255, dtype=torch.uint8).view(torch.uint8)
    view = torch.empty(0, dtype=dtype).set_(tensor.untyped_storage())
    assert_same(view, back(view))


def test_recipe_when_made_then_it_is_what_json_returns() -> None:
    """The data of a recipe is plain: JSON gives back an equal object."""
    value = [torch.zeros(3), np.zeros(2, [("a", "i4")]), {(1, "k"): b"x"}, float("nan"), 10**6000]
    data = take_image(value).recipe.data
    assert json.loads(json.dumps(data, allow_nan=False)) == data


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        -0.0,
        complex(-0.0, float("inf")),
        2**64,
        -(10**6000),
        "\ud83d\ude00 two lone surrogates",
        "\U0001f600",
        b"",
        b"\0\xff",
        np.float16(1.5),
        np.str_("é"),
        np.timedelta64(5, "D"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_value_when_built_then_it_is_the_same(value: Any) -> None:
    """Numbers and text at the edges of what JSON can say come back exactly."""
    assert_same(value, back(value))


def test_storage_when_imaged_then_it_is_the_whole_one_once_and_live() -> None:
    """A storage is taken whole and once, and it is the live memory, not a copy."""
    whole = torch.arange(100, dtype=torch.uint8)
    image = take_image([whole[90:], whole[:5], whole.numpy()[3:4]])
    assert [storage.tolist() for storage in image.storages] == [whole.tolist()]
    assert image.nbytes == 100
    assert image.storages[0].data_ptr() == whole.data_ptr()


def test_storages_when_they_only_touch_then_they_stay_two() -> None:
    """Memory that lies side by side is not joined: only overlap is sharing."""
    whole = np.arange(64, dtype=np.uint8)
    halves = [torch.frombuffer(whole.data[:32], dtype=torch.uint8)]
    halves.append(torch.frombuffer(whole.data[32:], dtype=torch.uint8))
    assert take_image(halves).recipe.storages == (("cpu", 32), ("cpu", 32))


def test_tensor_over_a_part_of_an_array_when_built_then_it_has_a_storage_of_its_own() -> None:
    """`from_numpy(a[3:])` keeps its own storage and offset, over the array's memory."""
    array = np.arange(10.0)
    tensor = torch.from_numpy(array[3:])
    new_array, new_tensor = back([array, tensor])
    assert new_tensor.storage_offset() == 0
    assert new_tensor.untyped_storage().nbytes() == 56
    new_array[3] = -1
    assert new_tensor[0] == -1


def test_cycles_when_built_then_they_are_closed_again() -> None:
    """A list in itself, and through tuples and dicts in itself, comes back so."""
    inner: list[Any] = []
    outer = (inner,)
    inner.append((outer, {"self": inner}))
    new = back(outer)
    assert new[0][0][0] is new
    assert new[0][0][1]["self"] is new[0]


def test_object_met_twice_when_built_then_it_is_one_object() -> None:
    """Lists and tensors met twice are one object again; equal ones stay two."""
    tensor, shared = torch.zeros(2), [1]
    new = back([tensor, tensor, shared, shared, [1], tensor.detach()])
    assert new[0] is new[1]
    assert new[2] is new[3]
    assert new[4] is not new[2]
    assert new[5] is not new[0]
    assert new[5].data_ptr() == new[0].data_ptr()


def test_deep_tree_when_imaged_then_no_recursion_limit_is_met() -> None:
    """Lists and tuples nested 20,000 deep are taken and built."""
    deep: Any = []
    for level in range(20_000):
        deep = (deep,) if level % 2 else [deep]
    new, depth = back(deep), 0
    while new:
        new, depth = new[0], depth + 1
    assert depth == 20_000
    while deep:
        deep = deep[0]


def test_containers_when_built_then_type_order_and_bound_are_kept() -> None:
    """Each kind of container comes back as itself."""
    value = [
        OrderedDict([("b", 1), ("a", 2)]),
        {"z": 1, "a": 2},
        deque([1, 2], maxlen=2),
        deque([3]),
        {1, (2, 3)},
        frozenset({frozenset({1}), "x"}),
        (),
        set(),
    ]
    assert_same(value, back(value))


def test_parameter_when_built_then_it_is_one() -> None:
    """A parameter is a parameter, frozen or not."""
    value = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), False)]
    assert_same(value, back(value))


def test_storage_when_the_image_outlives_the_value_then_its_memory_does_too() -> None:
    """An image keeps the memory of arrays and bytes, which is known to it by address only."""
    image = take_image([np.full(1 << 20, 7, np.uint8), bytes(1 << 20)])
    for _ in range(8):
        np.full(1 << 20, 9, np.uint8)
    assert sorted(int(s.max()) for s in image.storages) == [0, 7]


def test_build_when_in_inference_mode_then_normal_tensors_stay_normal() -> None:
    """The mode in which a tree is built does not leak into its tensors."""
    image = take_image([torch.zeros(2), torch.zeros(2, requires_grad=True)])
    with torch.inference_mode():
        built = image.build([s.clone() for s in image.storages])
    assert [tensor.is_inference() for tensor in built] == [False, False]
    assert built[1].requires_grad


@pytest.mark.parametrize(
    ("storages", "message"),
    [
        ([], "1 storages are needed, got 0"),
        ([torch.zeros(3, dtype=torch.uint8)], "storage 0 is no uint8 tensor that owns exactly 8"),
        ([torch.zeros(2)], "storage 0 is no uint8 tensor that owns exactly 8"),
        ([torch.zeros(9, dtype=torch.uint8)[:8]], "storage 0 is no uint8 tensor that owns"),
    ],
)
def test_build_when_storages_do_not_fit_then_it_says_which(
    storages: list[torch.Tensor], message: str
) -> None:
    """Storages of another number or size are refused."""
    with pytest.raises(ValueError, match=message):
        take_image(torch.zeros(2)).build(storages)


# --- what stays elsewhere ---------------------------------------------------------------------


def test_keep_when_memory_is_held_elsewhere_then_the_objects_stay_live() -> None:
    """Tensors and arrays over kept memory are not copied: the very objects come back."""
    held = torch.arange(10)
    mine = torch.ones(4)
    view, array = held[2:5], held.numpy()[1:]
    seen = SeenStorages()
    device_bytes(held, seen)
    image = take_image([view, array, mine, view], keep=seen.meets)
    assert image.recipe.storages == (("cpu", 16),)
    new = image.build(copies(image))
    assert new[0] is view
    assert new[1] is array
    assert new[3] is view
    assert new[2] is not mine


def test_keep_when_only_a_part_is_held_then_the_whole_piece_stays() -> None:
    """An array of which something else holds a part under another address is kept too."""
    array = np.arange(10.0)
    seen = SeenStorages()
    device_bytes(torch.from_numpy(array[3:]), seen)
    image = take_image([array[:2], array], keep=seen.meets)
    assert image.storages == ()
    assert image.build(())[1] is array


def test_meets_when_ranges_touch_or_overlap_then_only_overlap_counts() -> None:
    """`SeenStorages.meets` knows ranges, and records nothing."""
    seen = SeenStorages()
    seen.cover("cpu", 100, 10, None)
    asked = [(90, 10), (90, 11), (100, 1), (109, 5), (110, 5), (50, 100), (105, 2)]
    assert [seen.meets("cpu", *each) for each in asked] == [
        False,
        True,
        True,
        True,
        False,
        True,
        True,
    ]
    assert not seen.meets("cuda:0", 100, 10)
    assert seen.cover("cpu", 90, 10, None) == 10


# --- what has no picture ----------------------------------------------------------------------


class Sub(torch.Tensor):
    pass


class Thing:
    pass


def _with_grad() -> torch.Tensor:
    tensor = torch.ones(2, requires_grad=True)
    tensor.sum().backward()
    return tensor


def _with_hook() -> torch.Tensor:
    tensor = torch.ones(2, requires_grad=True)
    tensor.register_hook(lambda grad: grad)
    return tensor


def _with_attribute() -> torch.Tensor:
    tensor = torch.ones(2)
    tensor.tag = 1  # type: ignore[attr-defined]
    return tensor


def _resized() -> torch.Tensor:
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(4)
    return tensor


def _mapped() -> Any:
    with tempfile.TemporaryFile() as file:
        file.truncate(4096)
        return np.frombuffer(mmap.mmap(file.fileno(), 4096), np.uint8)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: torch.eye(2).to_sparse(), "a sparse_coo tensor"),
        (lambda: torch.eye(2).to_mkldnn(), "a _mkldnn tensor"),
        (lambda: torch.ones(2).as_subclass(Sub), "a Sub, a subclass of torch.Tensor"),
        (lambda: torch.ones(2, requires_grad=True) * 2, "a tensor in an autograd graph"),
        (_with_grad, "a tensor with a gradient"),
        (_with_hook, "a tensor with hooks"),
        (_with_attribute, "a tensor with attributes (tag)"),
        (_resized, "a tensor whose storage was resized below it"),
        (lambda: torch.empty(2, device="meta"), "a meta tensor"),
        (lambda: torch.ops.aten._lazy_clone(torch.ones(2)), "a copy-on-write tensor"),
        (lambda: torch._efficientzerotensor(2), "a tensor without memory of its own"),
        (lambda: torch.ones(2).share_memory_(), "memory shared between processes"),
        (lambda: np.array([object()]), "an array of Python objects"),
        (lambda: np.zeros(2, [("a", object)]), "an array of Python objects"),
        (lambda: np.zeros((2, 2)).view(np.matrix), "a matrix, a subclass of numpy.ndarray"),
        (lambda: np.zeros(1, [("a", "i4")])[0], "a numpy void"),
        (_mapped, "an array over a memory map"),
        (Thing, f"an instance of {Thing.__module__}.Thing"),
        (lambda: namedtuple("Point", "x")(1), "an instance of"),
        (lambda: bytearray(3), "an instance of bytearray"),
        (lambda: print, "an instance of builtin_function_or_method"),
    ],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_value_without_a_picture_when_imaged_then_its_path_is_named(
    make: Callable[[], Any], found: str
) -> None:
    """What could not come back bit for bit is refused with the path that leads to it."""
    with pytest.raises(UnparkableError) as caught:
        take_image({"a": [0, ({"deep": make()},)]})
    assert caught.value.path == "$['a'][1][0]['deep']"
    assert caught.value.found.startswith(found)
    assert caught.value.todo.startswith("store ")


def test_key_and_member_when_without_a_picture_then_their_path_is_named() -> None:
    """Keys of dicts and members of sets have a path too."""
    with pytest.raises(UnparkableError, match=r"^\$\[0\]\.keys\(\): an instance of "):
        take_image([{Thing(): 1}])
    with pytest.raises(UnparkableError, match=r"^\$\.member\[1\]: an instance of "):
        take_image({(1, Thing())})


def test_error_when_pickled_then_it_says_the_same() -> None:
    """The error crosses processes."""
    error = UnparkableError("$[1]", "a meta tensor", "store a tensor with data")
    assert str(error) == "$[1]: a meta tensor cannot be parked; store a tensor with data"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
