"""The memory of tensors and torch storages: handlers for `statekit.walk.walk`.

Owns what must be known about torch: layouts without a storage, wrappers around other tensors,
copy-on-write.

Thread rule: as `statekit.accounting`. Nothing here waits for a device or starts work on one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from statekit.walk.walk import Walk

__all__ = [
    "data_address",
    "look_into_storage",
    "look_into_tensor",
    "look_into_tensor_subclass",
    "memory_of",
]

_device_names: dict[torch.device, str] = {}  # to spell one takes longer than all the rest


def _data_pointer(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # the storage of a wrapper, which is none
        return 0


# Where torch has it: `data_ptr` copies a copy-on-write storage.
data_address: Callable[[torch.Tensor], int] = getattr(torch._C, "_data_address", _data_pointer)
"""The first address of a tensor's storage, or 0."""


def look_into_tensor(tensor: torch.Tensor, walk: Walk) -> None:
    """The storage or the parts, the gradient, the Python attributes."""
    try:
        storage = tensor.untyped_storage()
    except RuntimeError:  # sparse and opaque layouts have none
        _look_into_parts(tensor, walk)
    else:
        _add_storage(storage, tensor, walk)
    if tensor.is_leaf or tensor.retains_grad:  # torch warns for others, which have none
        gradient = tensor.grad
        if gradient is not None:
            walk.todo.append(gradient)
    if tensor.__dict__:
        walk.todo.append(tensor.__dict__)


def look_into_tensor_subclass(tensor: Any, walk: Walk) -> None:
    """As a plain tensor, with the inner tensors of a wrapper, and slots."""
    with torch._C.DisableTorchFunctionSubclass():  # else a subclass may intercept every name
        look_into_tensor(tensor, walk)
    if callable(getattr(type(tensor), "__tensor_flatten__", None)):
        walk.todo += _inner_tensors(tensor)
    walk.hand_on_references(tensor)


def look_into_storage(storage: torch.UntypedStorage, walk: Walk) -> None:
    """A storage that is held as such."""
    view = torch.empty(0, dtype=torch.uint8, device=storage.device)
    _add_storage(storage, view.set_(storage, 0, (0,), (1,)), walk)
    walk.hand_on_references(storage)


def _add_storage(storage: torch.UntypedStorage, tensor: torch.Tensor, walk: Walk) -> None:
    device, start, end = memory_of(tensor, storage)
    if start:  # else a wrapper: the memory is in its inner tensors
        walk.add(device, start, end - start, storage)


def memory_of(tensor: torch.Tensor, storage: torch.UntypedStorage) -> tuple[str, int, int]:
    """Device, first address and end of the storage; where there is no memory, the address is 0."""
    device = "cpu" if tensor.is_cpu else _name_of(storage.device)
    nbytes = storage.nbytes() if device else 0
    start = data_address(tensor) if nbytes else 0
    return device, start, start + nbytes if start else 0


def _name_of(device: torch.device) -> str:
    """The device string, empty for "meta", which holds nothing."""
    if device.type == "meta":
        return ""
    try:
        return _device_names[device]
    except KeyError:
        return _device_names.setdefault(device, str(device))


def _look_into_parts(tensor: torch.Tensor, walk: Walk) -> None:
    layout = tensor.layout
    if layout is torch.sparse_coo:
        walk.todo += (tensor._indices(), tensor._values())
    elif layout in (torch.sparse_csr, torch.sparse_bsr):
        walk.todo += (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif layout in (torch.sparse_csc, torch.sparse_bsc):
        walk.todo += (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    else:  # opaque (mkldnn), no address to be had: the elements, once per tensor object
        walk.add_new(str(tensor.device), tensor.numel() * tensor.element_size())


def _inner_tensors(tensor: Any) -> list[Any]:
    try:
        names, _ = tensor.__tensor_flatten__()
        return [getattr(tensor, name) for name in names]
    except (AttributeError, NotImplementedError):  # half made, or not for this instance
        return []
