"""The sum of the bytes of a tensor or an array, in logical order, wherever it lies.

64-bit words are summed by rows and by columns of a table, and the two by CRC-32: two passes at the
speed of memory, on the device itself, and a word that changes, or two that change places, alter it.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import torch

__all__ = ["bytes_checksum"]

_COLUMNS = 4096
_WORD_NBYTES = 8
_SMALL_NBYTES = 1 << 16  # of which CRC-32 alone is faster


def bytes_checksum(value: Any) -> int | None:
    """The sum; None for what has no bytes to read (sparse, meta, wrappers, objects)."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return None
        return _sum_of_array(np.ascontiguousarray(_without_repeats(value)))
    if type(value) is not torch.Tensor and not isinstance(value, torch.nn.Parameter):
        return None
    if value.layout is not torch.strided or value.is_meta or value.is_quantized:
        return None
    with torch._C._DisableTorchDispatch():  # modes of the caller's, ours among them
        tensor = _without_repeats(value.detach()).resolve_conj().resolve_neg().contiguous()
        if not tensor.numel():
            return 0
        flat = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
        return _sum_of_array(flat.numpy()) if flat.is_cpu else _sum_on_device(flat)


def _without_repeats(value: Any) -> Any:
    """`value` with one element where a stride of 0 shows the same one many times."""
    strides = value.strides if isinstance(value, np.ndarray) else value.stride()
    if 0 not in strides:
        return value
    return value[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]


def _sum_of_array(array: Any) -> int:
    if not array.size:
        return 0
    flat = array.reshape(-1).view(np.uint8)
    if flat.size <= _SMALL_NBYTES:
        return zlib.crc32(flat)
    words = flat[: flat.size - flat.size % _WORD_NBYTES].view(np.int64)
    rest = flat[words.size * _WORD_NBYTES :]
    table = words[: words.size - words.size % _COLUMNS].reshape(-1, _COLUMNS)
    value = zlib.crc32(rest.tobytes(), zlib.crc32(words[table.size :].tobytes()))
    with np.errstate(over="ignore"):
        for axis in (0, 1):
            value = zlib.crc32(table.sum(axis=axis).tobytes(), value)
    return value


def _sum_on_device(flat: torch.Tensor) -> int:
    if flat.storage_offset() % _WORD_NBYTES:
        flat = flat.clone()
    words = flat[: flat.numel() - flat.numel() % _WORD_NBYTES].view(torch.int64)
    rest = flat[words.numel() * _WORD_NBYTES :]
    table = words[: words.numel() - words.numel() % _COLUMNS].reshape(-1, _COLUMNS)
    parts = [words[table.numel() :].view(torch.uint8), rest]
    parts += [table.sum(dim=dim).view(torch.uint8) for dim in (0, 1)]
    value = 0
    for part in parts:
        value = zlib.crc32(part.cpu().numpy().tobytes(), value)
    return value
