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
from statekit.image.generators import GENERATORS, OVER_OTHERS, describe, held_by
from statekit.image.memory import NoPictureError, Piece, Span, merge_spans
from statekit.image.plain import encode
from statekit.image.recipe import FORMAT, Recipe
from statekit.image.views import describe_array, describe_bytes, describe_tensor

__all__ = ["Image", "Keep", "shown_key", "take_image", "take_picture"]

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
    ordered dicts, sets, frozensets and deques, however nested or shared; random generators of
    torch, numpy and Python, with their state.

    Args:
        value: the tree.
        keep: asked once for each piece of memory; True leaves the piece out of the image.

    Raises:
        UnparkableError: a part of the tree has no picture: sparse, quantized, nested and meta
            tensors, subclasses, tensors in an autograd graph or with a gradient, arrays of
            objects, shared or mapped memory, any other instance.
    """
    try:
        return take_picture(value, keep=keep)
    except NoPictureError as refused:
        path = "".join(
            step if isinstance(step, str) else f"[{shown_key(step[0])}]" for step in refused.steps
        )
        raise UnparkableError(f"${path}", refused.found, refused.todo) from None


def take_picture(value: Any, *, keep: Keep = _keep_nothing) -> Image:
    """As `take_image`, for callers with an error of their own.

    Raises:
        NoPictureError: with the steps to the part that has no picture.
    """
    tree = _Tree()
    try:
        return tree.image(tree.add_all(value), keep)
    except NoPictureError as refused:
        refused.steps = tree.path.steps()
        raise


def shown_key(key: Any) -> str:
    """A key as it stands in a path."""
    return repr(key) if isinstance(key, int | str) else f"a {type(key).__name__}"


class _Path:
    """Where an object is in the tree; text is made only where an error needs it."""

    __slots__ = ("_parent", "_step")

    def __init__(self, parent: _Path | None, step: Any) -> None:
        self._parent, self._step = parent, step

    def steps(self) -> tuple[str | tuple[Any], ...]:
        """From the root to the object."""
        steps: list[str | tuple[Any]] = []
        path: _Path | None = self
        while path is not None and path._parent is not None:
            steps.append(path._step)
            path = path._parent
        return tuple(reversed(steps))


class _Tree:
    """One walk under way. Mutable containers wait in a queue, so that depth and cycles are fine."""

    def __init__(self) -> None:
        self.path = _Path(None, "")
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
        """The node of `obj`; what cannot change gets its own after what it holds."""
        todo: list[tuple[Any, _Path, bool]] = [(obj, path, False)]
        while todo:
            part, part_path, ready = todo.pop()
            if id(part) in self._met:
                continue
            if not ready and (type(part) in _FROZEN or type(part) in OVER_OTHERS):
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
        if kind in GENERATORS:
            return describe(obj)
        if kind in OVER_OTHERS:
            name, *data = describe(obj)
            return [name, self._met[id(held_by(obj)[0])], *data]
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
        """The picture of all that was met. Raises: NoPictureError."""
        self.path = _Path(None, "")
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
        for piece in self._in_order(merge_spans(list(owners.items()))):
            if keep(piece.span.device, piece.span.start, piece.span.nbytes):
                continue
            for span, _ in piece.owners:
                places[span] = (len(storages), span.start - piece.span.start)
            storages.append(piece.as_bytes())
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

    def _in_order(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces as they are met: equal trees have equal recipes, wherever their memory is."""
        first: dict[Span, int] = {}
        for index, span in self._views:
            first.setdefault(span, index)
        return sorted(pieces, key=lambda piece: min(first[span] for span, _ in piece.owners))


def _steps(container: Any, path: _Path) -> Iterator[tuple[Any, _Path]]:
    if type(container) in OVER_OTHERS:
        held, attribute = held_by(container)
        yield held, _Path(path, attribute)
        return
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
