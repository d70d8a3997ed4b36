"""Image: a picture of a tree of values, as storages and a recipe.

Owns the walk over the tree: which objects it consists of, in which order, under which path. The
one primitive under parking. Not here: how the tree is built again (`statekit.image.recipe`),
where the bytes go (`statekit.parking`).

    I1  Taking an image copies no storage and changes nothing: its storages are the live memory.
    I2  A tree that has no picture is refused before anything was done; the error names the path.
    I3  What shares memory in the tree shares it again when built: tensors, arrays and both.
    I4  Memory that something else holds as well (`keep`) is not part of the image: the tensors and
        arrays over it stay as they are, and `build` hands out these very objects.

Not thread-safe: nobody may change the tree until its image is done with.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import torch

from statekit.errors import UnparkableError
from statekit.image.memory import NoPictureError, Piece, Span, merge_spans
from statekit.image.plain import encode
from statekit.image.recipe import FORMAT, Recipe
from statekit.image.views import describe_array, describe_bytes, describe_tensor

__all__ = ["Image", "Keep", "take_image"]

Keep = Callable[[str, int, int], bool]
"""Device, first address and length of a range: whether something that stays holds a part of it.

`SeenStorages.meets` is one, after a count over all that stays.
"""


@attrs.frozen(eq=False)
class Image:
    """A tree of values as storages and a recipe; keeps the tree's memory alive.

    Attributes:
        recipe: everything but the bytes.
        storages: the live memory, each storage whole, as 1-D uint8 tensors.
    """

    recipe: Recipe
    storages: tuple[torch.Tensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all storages."""
        return self.recipe.nbytes

    def build(self, storages: Sequence[torch.Tensor]) -> Any:
        """The tree over these storages; see `Recipe.build`."""
        return self.recipe.build(storages)


def _keep_nothing(device: str, start: int, nbytes: int) -> bool:
    return False


def take_image(value: Any, *, keep: Keep = _keep_nothing) -> Image:
    """Return a picture of `value` from which it can be built again, bit for bit.

    Tensors (parameters, any dtype and strides, conjugate and negative views), numpy arrays and
    scalars, bytes, text, numbers, None, torch sizes, dtypes and devices, in lists, tuples, dicts,
    ordered dicts, sets, frozensets and deques, however nested or shared.

    Args:
        value: the tree.
        keep: asked once for each piece of memory; True leaves the piece out of the image.

    Raises:
        UnparkableError: a part of the tree has no picture: sparse, quantized, nested and meta
            tensors, subclasses, tensors in an autograd graph or with a gradient, arrays of
            objects, shared or mapped memory, any other instance.
    """
    tree = _Tree()
    try:
        root = tree.add_all(value)
    except NoPictureError as refused:
        raise UnparkableError(str(tree.path), refused.found, refused.todo) from None
    return tree.image(root, keep)


class _Path:
    """Where an object is in the tree; text is made only where an error needs it."""

    __slots__ = ("_parent", "_step")

    def __init__(self, parent: _Path | None, step: Any) -> None:
        self._parent, self._step = parent, step

    def __str__(self) -> str:
        steps = []
        path: _Path | None = self
        while path is not None:
            steps.append(path._step)
            path = path._parent
        return "".join(
            step if isinstance(step, str) else f"[{_shown(step[0])}]" for step in reversed(steps)
        )


def _shown(key: Any) -> str:
    return repr(key) if isinstance(key, int | str) else f"a {type(key).__name__}"


class _Tree:
    """One walk under way. Mutable containers wait in a queue, so that depth and cycles are fine."""

    def __init__(self) -> None:
        self.path = _Path(None, "$")
        self._nodes: list[list[Any]] = []
        self._met: dict[int, int] = {}  # id to node
        self._objects: list[object] = []  # of each node; keeps the ids from being used again
        self._views: list[tuple[int, Span]] = []  # nodes that lie in memory
        self._waiting: deque[tuple[int, _Path]] = deque()

    def add_all(self, value: Any) -> int:
        root = self._add(value, self.path)
        while self._waiting:
            index, path = self._waiting.popleft()
            obj = self._objects[index]
            children = self._nodes[index][1]
            if isinstance(obj, dict):
                for key, child in obj.items():
                    key_node = self._add(key, _Path(path, ".keys()"))
                    children.append([key_node, self._add(child, _Path(path, (key,)))])
            else:
                for child, child_path in _steps(obj, path):
                    children.append(self._add(child, child_path))
        return root

    def _add(self, obj: Any, path: _Path) -> int:
        """The node of `obj`; tuples and frozensets get theirs after those that they hold."""
        todo: list[tuple[Any, _Path, bool]] = [(obj, path, False)]
        while todo:
            part, part_path, ready = todo.pop()
            if id(part) in self._met:
                continue
            if type(part) in _FROZEN and not ready:
                todo.append((part, part_path, True))
                todo += [(child, step, False) for child, step in _steps(part, part_path)][::-1]
                continue
            self.path = part_path
            node = self._node(part)
            self._met[id(part)] = index = len(self._nodes)
            self._nodes.append(node)
            self._objects.append(part)
            if type(part) in _MUTABLE:
                self._waiting.append((index, part_path))
        return self._met[id(obj)]

    def _node(self, obj: Any) -> list[Any]:
        kind = type(obj)
        if kind in _MUTABLE:
            bound = [obj.maxlen] if kind is deque else []
            return [_MUTABLE[kind], [], *bound]
        if kind in _FROZEN:
            return [_FROZEN[kind], [self._met[id(child)] for child in obj]]
        if isinstance(obj, torch.Tensor):
            return self._lying("tensor", *describe_tensor(obj))
        if isinstance(obj, np.ndarray):
            return self._lying("array", *describe_array(obj))
        if kind is bytes:
            return self._lying("bytes", None, describe_bytes(obj))
        node = encode(obj)
        if node is None:
            name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
            raise NoPictureError(f"an instance of {name}", "store its parts as plain values")
        return node

    def _lying(self, kind: str, data: dict[str, Any] | None, span: Span | None) -> list[Any]:
        """A node whose last entry is its place, filled in when the pieces are known."""
        if span is not None:
            self._views.append((len(self._nodes), span))
        return [kind, None] if data is None else [kind, data, None]

    def image(self, root: int, keep: Keep) -> Image:
        owners = {span: self._objects[index] for index, span in self._views}
        # A tensor rather than an array as the owner of a range: it can show its storage itself.
        owners.update(
            (span, self._objects[index])
            for index, span in self._views
            if isinstance(self._objects[index], torch.Tensor)
        )
        places: dict[Span, tuple[int, int]] = {}
        storages: list[torch.Tensor] = []
        devices: list[list[Any]] = []
        for piece in merge_spans(list(owners.items())):
            if keep(piece.span.device, piece.span.start, piece.span.nbytes):
                continue
            for span, _ in piece.owners:
                places[span] = (len(storages), span.start - piece.span.start)
            storages.append(_bytes_of(piece))
            devices.append([piece.span.device, piece.span.nbytes])
        kept: list[object] = []
        for index, span in self._views:
            if span in places:
                self._nodes[index][-1] = [*places[span], span.nbytes]
            else:
                self._nodes[index] = ["kept", len(kept)]
                kept.append(self._objects[index])
        data = {"format": FORMAT, "storages": devices, "nodes": self._nodes, "root": root}
        return Image(Recipe(data, tuple(kept)), tuple(storages))


def _bytes_of(piece: Piece) -> torch.Tensor:
    try:
        return piece.as_bytes()
    except NoPictureError as refused:
        raise UnparkableError("$", refused.found, refused.todo) from None


def _steps(container: Any, path: _Path) -> Iterator[tuple[Any, _Path]]:
    unordered = isinstance(container, set | frozenset)
    for index, child in enumerate(container):
        yield child, _Path(path, ".member" if unordered else (index,))


_MUTABLE: dict[type, str] = {
    list: "list",
    dict: "dict",
    OrderedDict: "ordered_dict",
    set: "set",
    deque: "deque",
}
_FROZEN: dict[type, str] = {tuple: "tuple", frozenset: "frozenset"}
