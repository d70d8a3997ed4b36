"""The outline of a snapshot: each value by bucket and name, what it is, and its bytes.

Owns what can be said of a recipe that was checked, without building anything. Needs neither torch
nor numpy.

    B1  Each storage is counted once, under the first value that lies in it, so that the bytes of
        all values are the bytes of all storages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from statekit.snapshot_file.entries import children_of
from statekit.snapshot_file.head import Head

__all__ = ["Form", "Outlined", "outline"]

_NUMBER = re.compile(r"([<>|])([fiucb])([0-9]+)", re.ASCII)
_LETTERS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
_WORDS = {
    "none": "None",
    "text": "str",
    "ordered_dict": "OrderedDict",
    "size": "torch.Size",
    "dtype": "torch.dtype",
    "device": "torch.device",
    "scalar": "numpy scalar",
    "array": "ndarray",
    "tensor": "Tensor",
    "torch_generator": "torch.Generator",
    "random": "random.Random",
    "seed_sequence": "SeedSequence",
    "generator": "numpy Generator",
    "random_state": "RandomState",
    "bit_generator": "numpy BitGenerator",
}


@attrs.frozen
class Form:
    """So many tensors, arrays or bytes of one dtype and shape."""

    dtype: str
    shape: tuple[int, ...]
    count: int


@attrs.frozen
class Outlined:
    """One value.

    Attributes:
        bucket: `attrs` or `objects`; empty where the snapshot holds no session.
        name: its key in the bucket.
        kind: the type, or the kind of object.
        forms: of the tensors and arrays in it, in the order in which they are met.
        nbytes: of storages in which no value before it lies.
    """

    bucket: str
    name: str
    kind: str
    forms: tuple[Form, ...]
    nbytes: int


def outline(head: Head) -> tuple[Outlined, ...]:
    """The values of a snapshot, in its order."""
    recipe = head.recipe
    nodes = recipe["nodes"]
    counted: set[int] = set()
    found = []
    for bucket, name, index in _values(nodes, recipe["root"]):
        forms: Counter[tuple[str, tuple[int, ...]]] = Counter()
        nbytes = 0
        for node in _below(nodes, index):
            if node[0] in ("tensor", "array", "bytes"):
                forms[_form(node)] += 1
                place = node[-1]
                if place is not None and place[0] not in counted:
                    counted.add(place[0])
                    nbytes += head.storages[place[0]].nbytes
        shown = tuple(Form(dtype, shape, count) for (dtype, shape), count in forms.items())
        found.append(Outlined(bucket, name, _kind(nodes, index, bucket), shown, nbytes))
    return tuple(found)


def _values(nodes: list[Any], root: int) -> Iterator[tuple[str, str, int]]:
    """Bucket, name and node of each value; the whole, where it is no dict of buckets."""
    buckets = list(_entries(nodes, root))
    if not buckets or not all(nodes[child][0] == "dict" for _, child in buckets):
        yield "", "", root
        return
    for bucket, index in buckets:
        for name, child in _entries(nodes, index):
            yield bucket, name, child


def _entries(nodes: list[Any], index: int) -> Iterator[tuple[str, int]]:
    if nodes[index][0] == "dict":
        for key, child in nodes[index][1]:
            kind, *data = nodes[key]
            yield _text(kind, data), child


def _text(kind: str, data: list[Any]) -> str:
    if kind == "text":
        return bytes.fromhex(data[0]).decode("utf-8", "surrogatepass")
    return str(data[0]) if kind in ("str", "int") else f"a {_WORDS.get(kind, kind)}"


def _kind(nodes: list[Any], index: int, bucket: str) -> str:
    """The type of a value, or what the saved form of an object says of itself."""
    if bucket == "objects":
        for name, child in _entries(nodes, index):
            if name == "kind" and nodes[child][0] == "str":
                return str(nodes[child][1])
    kind: str = nodes[index][0]
    return _WORDS.get(kind, kind)


def _below(nodes: list[Any], index: int) -> Iterator[list[Any]]:
    met = {index}
    waiting = [index]
    while waiting:
        node = nodes[waiting.pop()]
        yield node
        below = [child for _, child in children_of(nodes, node) if child not in met]
        below = list(dict.fromkeys(below))
        met.update(below)
        waiting += reversed(below)


def _form(node: list[Any]) -> tuple[str, tuple[int, ...]]:
    if node[0] == "bytes":
        return "bytes", (0 if node[1] is None else node[1][2],)
    return _dtype(node[1]["dtype"]), tuple(node[1]["shape"])


def _dtype(code: Any) -> str:
    """A dtype as its library names it, where it has a short name."""
    if not isinstance(code, str):
        return str(code[0])
    number = _NUMBER.fullmatch(code)
    if number is None:
        return code
    name = "bool" if number[2] == "b" else f"{_LETTERS[number[2]]}{8 * int(number[3])}"
    return f"{name} swapped" if number[1] == ">" else name
