"""Tensors, arrays and bytes as plain data beside the memory they lie in, and back.

Owns what makes a view what it is (dtype, shape, strides, offset, flags), and which views have no
picture. Not here: which memory lies in one piece (`statekit.image.memory`), and whose path a
refusal names (`statekit.image.taking`).

    V1  `describe` reads; it copies no memory, starts no work on a device and changes nothing.
    V2  A view that is described comes back with the same bits, or is refused: nothing that a
        reader can ask it is dropped silently. Two things are not its own and are not kept: who
        owns the memory (arrays come back as views), and whether host memory is pinned.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from statekit.image.memory import NoPictureError, Span
from statekit.image.plain import decode_array_dtype, decode_dtype, encode_array_dtype, encode_dtype

__all__ = ["build_array", "build_tensor", "describe_array", "describe_bytes", "describe_tensor"]

_is_copy_on_write: Callable[[torch.Tensor], bool] = getattr(
    torch._C, "_is_cow_tensor", lambda _: False
)
_base_of: Callable[[Any], Any] = np.ndarray.__dict__["base"].__get__


def describe_tensor(tensor: torch.Tensor) -> tuple[dict[str, Any], Span | None]:
    """The tensor without its memory, and the storage it lies in. Raises: NoPictureError."""
    _require_plain(tensor)
    span = _storage_span(tensor)
    strides, offset = tensor.stride(), tensor.storage_offset()
    if tensor.numel():
        last = offset + sum((n - 1) * step for n, step in zip(tensor.shape, strides, strict=True))
        if span is None or (last + 1) * tensor.element_size() > span.nbytes:
            raise NoPictureError(
                "a tensor whose storage was resized below it", "store a whole tensor"
            )
    data = {
        "dtype": encode_dtype(tensor.dtype),
        "shape": list(tensor.shape),
        "strides": list(strides),
        "offset": offset,
        "device": str(tensor.device),
        "requires_grad": tensor.requires_grad,
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
        "inference": tensor.is_inference(),
        "parameter": type(tensor) is torch.nn.Parameter,
    }
    return data, span


def build_tensor(data: dict[str, Any], storage: torch.UntypedStorage | None) -> torch.Tensor:
    """The tensor over `storage`, on whose device it is; without one on the device it had."""
    if storage is None:
        storage = torch.empty(0, dtype=torch.uint8, device=data["device"]).untyped_storage()
    with torch.inference_mode(data["inference"]):
        tensor = torch.empty(0, dtype=decode_dtype(data["dtype"]), device=storage.device)
        tensor.set_(storage, data["offset"], tuple(data["shape"]), tuple(data["strides"]))
        if data["conj"]:
            tensor = tensor.conj()
        if data["neg"]:
            tensor = torch._neg_view(tensor)
        if data["parameter"]:
            return torch.nn.Parameter(tensor, data["requires_grad"])
        return tensor.requires_grad_(data["requires_grad"])


def describe_array(array: npt.NDArray[Any]) -> tuple[dict[str, Any], Span | None]:
    """The array without its memory, and the memory of its owner. Raises: NoPictureError."""
    if type(array) is not np.ndarray:
        found = f"a {type(array).__name__}, a subclass of numpy.ndarray"
        raise NoPictureError(found, "store a plain array")
    code = encode_array_dtype(array.dtype)
    own = _array_span(array)
    span = _owner_span(array) or own
    offset = array.__array_interface__["data"][0] - span.start if span is not None else 0
    if own is None:  # no element, so that any place will do
        offset = 0
    elif span is None or own.start < span.start or own.end > span.end:
        raise NoPictureError("an array that reaches out of its memory", "store a copy")
    data = {
        "dtype": code,
        "shape": list(array.shape),
        "strides": list(array.strides),
        "offset": offset,
        "writeable": array.flags.writeable,
    }
    return data, span


def build_array(data: dict[str, Any], memory: npt.NDArray[np.uint8] | None) -> npt.NDArray[Any]:
    """The array over `memory`, or over none if it is empty."""
    array: npt.NDArray[Any] = np.ndarray(
        tuple(data["shape"]),
        decode_array_dtype(data["dtype"]),
        buffer=np.empty(0, np.uint8) if memory is None else memory,
        offset=data["offset"],
        strides=tuple(data["strides"]),
    )
    array.flags.writeable = data["writeable"]
    return array


def describe_bytes(data: bytes) -> Span | None:
    """Where the bytes lie; None if there are none."""
    return _array_span(np.frombuffer(data, np.uint8))


def _require_plain(tensor: torch.Tensor) -> None:
    kind = type(tensor)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        found = f"a {kind.__name__}, a subclass of torch.Tensor"
        raise NoPictureError(found, "store a plain tensor")
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        raise NoPictureError(f"a {_form(tensor)} tensor", "store a dense tensor")
    if tensor.grad_fn is not None:
        raise NoPictureError("a tensor in an autograd graph", "store tensor.detach()")
    if tensor.grad is not None:
        raise NoPictureError("a tensor with a gradient", "store tensor.detach()")
    if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
        raise NoPictureError("a tensor with hooks", "store tensor.detach()")
    if tensor.__dict__:
        found = f"a tensor with attributes ({', '.join(sorted(tensor.__dict__))})"
        raise NoPictureError(found, "store tensor.detach(), and the attributes as values")
    if tensor.is_meta:
        raise NoPictureError("a meta tensor", "store a tensor with data")
    if any(getattr(tensor, "names", ())):  # newer torch has none
        raise NoPictureError("a tensor with named dimensions", "store tensor.rename(None)")


def _form(tensor: torch.Tensor) -> str:
    if tensor.is_quantized:
        return "quantized"
    return "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")


def _storage_span(tensor: torch.Tensor) -> Span | None:
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        raise NoPictureError("a tensor without a storage", "store a plain tensor") from None
    nbytes = storage.nbytes()
    if not nbytes:
        return None
    if _is_copy_on_write(tensor):
        raise NoPictureError("a copy-on-write tensor", "store tensor.clone()")
    if storage.device.type == "cpu" and storage.is_shared():
        raise NoPictureError("memory shared between processes", "store tensor.clone()")
    try:
        start = storage.data_ptr()
    except RuntimeError:
        start = 0
    if not start:
        raise NoPictureError("a tensor without memory of its own", "store tensor.clone()")
    return Span(str(storage.device), start, nbytes)


def _array_span(array: npt.NDArray[Any]) -> Span | None:
    """The range from the array's first byte to its last; None if it has no byte."""
    if not array.nbytes:
        return None
    start = end = array.__array_interface__["data"][0]
    for length, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            start += (length - 1) * stride
        else:
            end += (length - 1) * stride
    return Span("cpu", start, end + array.itemsize - start)


def _owner_span(array: npt.NDArray[Any]) -> Span | None:
    """The memory of the array's owner; None if that is of no known kind, or has no memory."""
    owner: Any = array
    while True:
        if isinstance(owner, np.memmap | mmap.mmap):
            raise NoPictureError("an array over a memory map", "store a copy")
        if isinstance(owner, np.ndarray):
            base = _base_of(owner)
            if base is None:
                return _array_span(np.asarray(owner))
            owner = base
        elif isinstance(owner, memoryview):
            owner = owner.obj
        elif isinstance(owner, torch.Tensor):
            return _storage_span(owner)
        elif type(owner) is bytes:
            return describe_bytes(owner)
        else:
            return None
