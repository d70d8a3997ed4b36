"""The check of a recipe that comes from elsewhere: hostile until it has passed.

Owns the question whether building a recipe is safe: `Recipe.build` takes what a node says as it
stands, and torch would grow a storage to fit a view, numpy read behind a buffer, and Python hash a
small graph of tuples without end. Needs neither torch nor numpy. What passes can still fail to
build (a dtype that this torch has not, a state that a generator refuses), but with an exception.

    H1  Every node is one of the closed set, of exact types, and refers to nodes that are there;
        those that are built in order (R1) refer to earlier ones. Nothing is kept.
    H2  Every view lies in its place, and every place in its storage.
    H3  What is built takes memory in proportion to the data and the storages: bytes are not
        copied twice, and no object is larger than what describes it but by a constant.
    H4  What is hashed, for keys and members, takes bounded time and depth, and few of one
        container have one hash.

A pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from statekit.image.check_hashing import Hashing
from statekit.image.check_leaves import LEAVES, check_over
from statekit.image.check_views import check_array, check_bytes, check_device, check_tensor
from statekit.image.fault import BadRecipeError, is_count, require

__all__ = ["BadRecipeError", "check_recipe"]

_LISTS = frozenset(["list", "set", "deque"])
_DICTS = frozenset(["dict", "ordered_dict"])
_FROZEN = frozenset(["tuple", "frozenset"])
_OVER = frozenset(["generator", "random_state", "bit_generator"])
_ORDERED = _FROZEN | _OVER


def check_recipe(data: Any, nbytes: int) -> None:
    """Return if a recipe of this data can be built without harm.

    Args:
        data: what `json` returned.
        nbytes: how many bytes there are for its storages, at most.

    Raises:
        BadRecipeError: says what is wrong, and with which node.
    """
    good = isinstance(data, dict) and sorted(data) == ["format", "nodes", "root", "storages"]
    require(good, "other fields")
    require(type(data["format"]) is int and data["format"] == 1, "a recipe of another format")
    nodes, storages = data["nodes"], data["storages"]
    require(isinstance(storages, list) and isinstance(nodes, list), "no lists")
    _check_storages(storages, nbytes)
    require(is_count(data["root"]) and data["root"] < len(nodes), "no root")
    _Check(nodes, storages).run()


def _check_storages(storages: list[Any], nbytes: int) -> None:
    for storage in storages:
        require(isinstance(storage, list) and len(storage) == 2, "no storage")
        check_device(storage[0])
        require(is_count(storage[1]) and storage[1] > 0, "a storage of no size")
        nbytes -= storage[1]
    require(nbytes >= 0, "more bytes in storages than there are")


def _require_node(index: int, node: Any) -> None:
    require(isinstance(node, list) and bool(node) and isinstance(node[0], str), "no node")


class _Check:
    """One check under way."""

    def __init__(self, nodes: list[Any], storages: list[Any]) -> None:
        self._nodes = nodes
        self._storages = storages
        self._bytes_left = sum(storage[1] for storage in storages)
        self._hashing = Hashing(nodes)

    def run(self) -> None:
        for check in (_require_node, self._check, self._check_hashed):
            index = 0
            try:
                for node in self._nodes:
                    check(index, node)
                    index += 1
            except BadRecipeError as error:
                raise BadRecipeError(error.found, index) from None

    def _check(self, index: int, node: list[Any]) -> None:
        kind, *data = node
        if kind in LEAVES:
            LEAVES[kind](data)
        elif kind in _LISTS:
            self._check_children(data[:1])
            require(len(data) == (2 if kind == "deque" else 1), "no children")
            if kind == "deque" and data[1] is not None:
                require(is_count(data[1]) and len(data[0]) <= data[1], "a length that is none")
        elif kind in _DICTS:
            require(len(data) == 1 and isinstance(data[0], list), "no children")
            for pair in data[0]:
                require(isinstance(pair, list) and len(pair) == 2, "no pair")
                self._check_children([pair])
        elif kind in _FROZEN:
            require(len(data) == 1, "no children")
            self._check_children(data)
            self._check_earlier(index, data[0])
            self._hashing.add(index, kind, data[0])
        elif kind in _OVER:
            self._check_children([data[:1]])
            require(bool(data), "no other object")
            self._check_earlier(index, data[:1])
            check_over(kind, data[1:], self._nodes[data[0]][0])
        elif kind == "tensor":
            check_tensor(data, self._storages)
        elif kind == "array":
            check_array(data, self._storages)
        elif kind == "bytes":
            self._bytes_left -= check_bytes(data, self._storages)
            require(self._bytes_left >= 0, "bytes that are copied twice")
        else:
            require(False, "a kind that is none")

    def _check_children(self, data: list[Any]) -> None:
        require(len(data) == 1 and isinstance(data[0], list), "no children")
        count = len(self._nodes)
        for child in data[0]:
            require(type(child) is int and 0 <= child < count, "a child that is not there")

    def _check_earlier(self, index: int, children: Iterable[int]) -> None:
        for child in children:
            require(child < index or self._nodes[child][0] not in _ORDERED, "a child built later")

    def _check_hashed(self, index: int, node: list[Any]) -> None:
        kind, *data = node
        if kind in _DICTS:
            self._hashing.require_keys(key for key, _ in data[0])
        elif kind in ("set", "frozenset"):
            self._hashing.require_keys(data[0])
