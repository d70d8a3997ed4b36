"""Entries: how the storages of a recipe stand in a safetensors file.

Owns names, dtypes and order of the entries. A storage that one contiguous tensor or array covers
is an entry with that one's dtype and shape, under its path in the tree (`attrs/clip_feas`), so that
other programs find it; any other storage is an entry of plain bytes (`storage/7`). Names are labels
for readers: nothing is restored by them. Needs neither torch nor numpy.

    E1  Names are unique, and made of letters, digits and harmless signs: no name leads anywhere.
    E2  Entries with the largest elements come first, so that each is aligned, as torch wants it.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

import attrs

__all__ = ["DTYPES", "Entry", "children_of", "plan_entries", "walk_recipe"]

DTYPES: dict[str, int] = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
"""Names of safetensors that every version reads, and the bytes of an element."""

_OF_TENSORS = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
_OF_ARRAYS = {
    "<f8": "F64",
    "<f4": "F32",
    "<f2": "F16",
    "<i8": "I64",
    "<i4": "I32",
    "<i2": "I16",
    "|i1": "I8",
    "|u1": "U8",
    "|b1": "BOOL",
}
_LABEL = re.compile(r"\w[\w .:+=,()-]{0,99}")
_MAX_STEPS = 12


@attrs.frozen
class Entry:
    """One entry of a snapshot: a storage.

    Attributes:
        name: in the file.
        dtype: in the words of safetensors.
        shape: of that dtype.
        nbytes: of the storage.
        device: where it was.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    device: str


Steps = tuple["Steps | None", Any]
"""The way to a node: the way to its container, and the key there; made text only where needed."""


def walk_recipe(recipe: dict[str, Any]) -> Iterator[tuple[int, Steps | None]]:
    """Each node that the root leads to, once, and the way to it, nearest ones first.

    The key is text for an entry under a text, a number for a place in a list, else None.
    """
    nodes = recipe["nodes"]
    waiting: deque[tuple[int, Steps | None]] = deque([(recipe["root"], None)])
    met = {recipe["root"]}
    while waiting:
        index, way = waiting.popleft()
        yield index, way
        for key, child in children_of(nodes, nodes[index]):
            if child not in met:
                met.add(child)
                waiting.append((child, (way, key)))


def children_of(nodes: list[Any], node: list[Any]) -> Iterator[tuple[Any, int]]:
    """What a node refers to directly, each under its key as `walk_recipe` has it."""
    kind = node[0]
    if kind in ("dict", "ordered_dict"):
        for key, child in node[1]:
            key_node = nodes[key]
            yield None, key
            yield (key_node[1] if key_node[0] in ("str", "int") else None), child
    elif kind in ("list", "tuple", "deque"):
        yield from enumerate(node[1])
    elif kind in ("set", "frozenset"):
        for child in node[1]:
            yield None, child


def plan_entries(recipe: dict[str, Any]) -> list[tuple[int, Entry]]:
    """The number of each storage and its entry, in the order in which they are in the file."""
    storages: list[list[Any]] = recipe["storages"]
    nodes = recipe["nodes"]
    found: dict[int, Entry] = {}
    taken: set[str] = set()
    for index, way in walk_recipe(recipe):
        if len(found) == len(storages):
            break
        kind, *data = nodes[index]
        if kind in ("tensor", "array") and data[1] is not None and data[1][0] not in found:
            number = data[1][0]
            device, nbytes = storages[number]
            dtype = _covering(kind, data[0], data[1], nbytes)
            name = _name(way)
            if dtype is not None and name is not None and name not in taken:
                taken.add(name)
                found[number] = Entry(name, dtype, tuple(data[0]["shape"]), nbytes, device)
    for number, (device, nbytes) in enumerate(storages):
        if number not in found:
            name = f"storage/{number}"
            while name in taken:
                name += "+"
            taken.add(name)
            found[number] = Entry(name, "U8", (nbytes,), nbytes, device)
    return sorted(sorted(found.items()), key=lambda item: -DTYPES[item[1].dtype])


def _covering(kind: str, view: dict[str, Any], place: list[int], nbytes: int) -> str | None:
    """The dtype, if the view is all of the storage, element by element."""
    if kind == "tensor":
        dtype = None if view["conj"] or view["neg"] else _OF_TENSORS.get(view["dtype"])
        unit = 1
    else:
        code = view["dtype"]
        dtype = _OF_ARRAYS.get(code) if isinstance(code, str) else None
        unit = DTYPES.get(dtype or "", 1)
    if dtype is None or view["offset"] or place[1] or place[2] != nbytes:
        return None
    if math.prod(view["shape"]) * DTYPES[dtype] != nbytes:
        return None
    step = unit
    for length, stride in zip(reversed(view["shape"]), reversed(view["strides"]), strict=True):
        if length != 1 and stride != step:
            return None
        step *= length
    return dtype


def _name(way: Steps | None) -> str | None:
    labels: list[str] = []
    while way is not None:
        way, key = way
        label = str(key)
        if key is None or len(labels) == _MAX_STEPS or not _LABEL.fullmatch(label):
            return None
        labels.append(label)
    return "/".join(reversed(labels)) or None
