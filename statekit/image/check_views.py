"""The check of tensors, arrays and bytes in a recipe from elsewhere: `statekit.image.check`.

Owns invariant H2 there: a view lies in its place, a place in its storage. Needs neither torch nor
numpy.
"""

from __future__ import annotations

import re
from typing import Any

from statekit.image.fault import LARGEST, is_count, require
from statekit.image.grammar import DEVICE, TENSOR_DTYPES, array_itemsize

__all__ = ["check_array", "check_bytes", "check_device", "check_tensor"]

_MAX_DIMS = 64
_TENSOR = ["conj", "device", "dtype", "inference", "neg", "offset", "parameter", "requires_grad"]
_TENSOR += ["shape", "strides"]
_ARRAY = ["dtype", "offset", "shape", "strides", "writeable"]
_FLAGS = ("requires_grad", "conj", "neg", "inference", "parameter")
_WITH_GRADIENT = re.compile(r"float(16|32|64)|bfloat16|complex.*|float8.*", re.ASCII)
_SIGNED = re.compile(r"float(16|32|64)|bfloat16|complex.*", re.ASCII)


def check_device(device: Any) -> None:
    """Require a device that memory can be on. Raises: BadRecipeError."""
    good = isinstance(device, str) and DEVICE.fullmatch(device) is not None
    require(good and not device.startswith("meta"), "no device")


def check_tensor(data: list[Any], storages: list[Any]) -> None:
    """Require a tensor that lies in its place. Raises: BadRecipeError."""
    require(len(data) == 2 and isinstance(data[0], dict), "no view and place")
    view, place = data
    require(sorted(view) == _TENSOR, "other fields than a tensor has")
    dtype, device = view["dtype"], view["device"]
    require(isinstance(dtype, str) and dtype in TENSOR_DTYPES, "no dtype of torch")
    require(all(type(view[flag]) is bool for flag in _FLAGS), "a flag that is none")
    require(not view["requires_grad"] or bool(_WITH_GRADIENT.fullmatch(dtype)), "a false gradient")
    require(not view["conj"] or dtype.startswith("complex"), "a conjugate of a real number")
    require(not view["neg"] or bool(_SIGNED.fullmatch(dtype)), "a negative view of no number")
    numel = _check_shape(view["shape"], view["strides"])
    check_device(device)
    require(all(map(is_count, view["strides"])), "a negative stride")
    require(is_count(view["offset"]), "no offset")
    itemsize = TENSOR_DTYPES[dtype]
    nbytes = _check_place(place, storages)
    if place is None:
        require(not numel, "elements without memory")
        return
    require(storages[place[0]][0] == device, "another device than its storage")
    require(place[1] % itemsize == 0, "elements at an odd address")
    if numel:
        last = view["offset"] + _reach(view["shape"], view["strides"])
        require((last + 1) * itemsize <= nbytes, "a tensor that reaches out of its memory")


def check_array(data: list[Any], storages: list[Any]) -> None:
    """Require an array that lies in its place. Raises: BadRecipeError."""
    require(len(data) == 2 and isinstance(data[0], dict), "no view and place")
    view, place = data
    require(sorted(view) == _ARRAY, "other fields than an array has")
    itemsize = array_itemsize(view["dtype"])
    require(itemsize is not None, "no dtype of numpy")
    assert itemsize is not None
    require(type(view["writeable"]) is bool, "a flag that is none")
    numel = _check_shape(view["shape"], view["strides"])
    require(numel * max(itemsize, 1) < LARGEST, "a size beyond all memory")
    require(is_count(view["offset"]), "no offset")
    nbytes = _check_place(place, storages)
    if place is not None:
        require(storages[place[0]][0] == "cpu", "an array on no CPU")
    first = last = view["offset"]
    if numel:
        for length, stride in zip(view["shape"], view["strides"], strict=True):
            if stride < 0:
                first += (length - 1) * stride
            else:
                last += (length - 1) * stride
    end = last + itemsize if numel else last
    require(first >= 0 and end <= nbytes, "an array that reaches out of its memory")


def check_bytes(data: list[Any], storages: list[Any]) -> int:
    """Require bytes that are there, and say how many. Raises: BadRecipeError."""
    require(len(data) == 1, "no place")
    nbytes = _check_place(data[0], storages)
    require(data[0] is None or storages[data[0][0]][0] == "cpu", "bytes on no CPU")
    return nbytes


def _check_place(place: Any, storages: list[Any]) -> int:
    """The bytes of the place. Raises: BadRecipeError."""
    if place is None:
        return 0
    good = isinstance(place, list) and len(place) == 3 and all(map(is_count, place))
    require(good and place[0] < len(storages) and place[2] > 0, "no place in a storage")
    require(place[1] + place[2] <= storages[place[0]][1], "a place that reaches out of its storage")
    return int(place[2])


def _check_shape(shape: Any, strides: Any) -> int:
    """The number of elements. Raises: BadRecipeError."""
    require(isinstance(shape, list) and isinstance(strides, list), "no shape")
    require(len(shape) == len(strides) <= _MAX_DIMS, "no shape of so many dimensions")
    require(all(map(is_count, shape)), "a length that is none")
    require(
        all(type(stride) is int and -LARGEST < stride < LARGEST for stride in strides),
        "a stride that is none",
    )
    numel = spread = 1
    for length in shape:
        numel *= length
        spread *= max(length, 1)
        require(spread < LARGEST, "a size beyond all memory")
    return numel


def _reach(shape: list[int], strides: list[int]) -> int:
    """The elements from the first to the last."""
    return sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
