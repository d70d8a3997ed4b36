"""Recipe: how a tree of values is put together again over its storages.

Owns the building. What a node says comes from `taking`; plain values and views are known to
`plain` and `views`.

The data of a recipe is what `json` returns unchanged:

    {"format": 1, "storages": [[device, nbytes], ...], "nodes": [[kind, ...], ...], "root": i}

A node refers to others by their place in `nodes`. One object is one node, so an object met twice,
and a cycle, come back as such.

    R1  A tuple, a frozenset or a generator over another refers to others of these kinds only if
        they are earlier nodes.

Data from elsewhere (a file) must have passed `statekit.image.check` before anything is built.
Immutable; any thread may build.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch

from statekit.image import generators
from statekit.image.plain import decode
from statekit.image.views import build_array, build_tensor

__all__ = ["FORMAT", "Recipe"]

FORMAT = 1


@attrs.frozen(eq=False)
class Recipe:
    """A tree of values without the bytes of its storages.

    Attributes:
        data: what was seen, as plain data.
        kept: live objects that the tree shares with something that stays; `data` refers to them.
    """

    data: dict[str, Any]
    kept: tuple[object, ...] = ()

    @property
    def storages(self) -> tuple[tuple[str, int], ...]:
        """Device and bytes of each storage, in the order in which `build` wants them."""
        return tuple((device, nbytes) for device, nbytes in self.data["storages"])

    @property
    def nbytes(self) -> int:
        """Bytes of all storages."""
        return sum(nbytes for _, nbytes in self.storages)

    def build(
        self, storages: Sequence[torch.Tensor], devices: Mapping[str, str] | None = None
    ) -> Any:
        """Return the tree, over these storages and not over copies of them.

        Args:
            storages: for each of `self.storages` a 1-D uint8 tensor that owns exactly its bytes;
                on which device decides where its tensors are. Arrays need theirs on the CPU.
            devices: where tensors without memory and torch's generators go instead of the device
                they were on.

        Raises:
            ValueError: the storages are not those that the recipe speaks of; or data that were
                not made by `take_image` have equal keys, say. Such data can raise other errors too.
        """
        wanted = self.storages
        if len(storages) != len(wanted):
            raise ValueError(f"{len(wanted)} storages are needed, got {len(storages)}")
        for index, (storage, (_, nbytes)) in enumerate(zip(storages, wanted, strict=True)):
            _require_whole(index, storage, nbytes)
        return _Builder(self, storages, dict(devices or {})).build()


def _require_whole(index: int, storage: torch.Tensor, nbytes: int) -> None:
    flat = storage.dtype == torch.uint8 and storage.shape == (nbytes,) and storage.is_contiguous()
    if not flat or storage.untyped_storage().nbytes() != nbytes:
        raise ValueError(f"storage {index} is no uint8 tensor that owns exactly {nbytes} bytes")


class _Builder:
    """One building under way."""

    def __init__(
        self, recipe: Recipe, storages: Sequence[torch.Tensor], devices: dict[str, str]
    ) -> None:
        self._nodes: list[list[Any]] = recipe.data["nodes"]
        self._root: int = recipe.data["root"]
        self._kept = recipe.kept
        self._storages = storages
        self._devices = devices
        self._parts: dict[tuple[int, int, int], torch.UntypedStorage] = {}
        self._values: list[Any] = [None] * len(self._nodes)

    def build(self) -> Any:
        values = self._values
        for index, (kind, *data) in enumerate(self._nodes):
            if kind in _SHELLS:
                values[index] = _SHELLS[kind](*data[1:])
            elif kind not in _FROZEN and kind not in _OVER_OTHERS:
                values[index] = self._leaf(kind, data)
        for index, (kind, *data) in enumerate(self._nodes):
            if kind in _FROZEN:
                values[index] = _FROZEN[kind](values[child] for child in data[0])
                _require_all(values[index], data[0])
            elif kind in _OVER_OTHERS:
                values[index] = generators.build_over(kind, data[1:], values[data[0]])
        for index, (kind, *data) in enumerate(self._nodes):
            if kind in _SHELLS:
                self._fill(values[index], kind, data[0])
        return values[self._root]

    def _fill(self, shell: Any, kind: str, children: list[Any]) -> None:
        values = self._values
        if kind in ("dict", "ordered_dict"):
            shell.update((values[key], values[child]) for key, child in children)
        elif kind == "set":
            shell.update(values[child] for child in children)
        else:
            shell.extend(values[child] for child in children)
        _require_all(shell, children)

    def _leaf(self, kind: str, data: list[Any]) -> Any:
        if kind == "tensor":
            view, place = data
            return self._tensor(view, place)
        if kind == "array":
            view, place = data
            return build_array(view, None if place is None else self._bytes(*place).numpy())
        if kind == "bytes":
            return b"" if data[0] is None else self._bytes(*data[0]).numpy().tobytes()
        if kind == "kept":
            return self._kept[data[0]]
        if kind in _ALONE:
            return generators.build(kind, data, self._devices)
        return decode(kind, data)

    def _tensor(self, view: dict[str, Any], place: list[int] | None) -> torch.Tensor:
        if place is not None:
            return build_tensor(view, self._storage(*place))
        device = self._devices.get(view["device"], view["device"])
        return build_tensor({**view, "device": device}, None)

    def _bytes(self, index: int, start: int, nbytes: int) -> torch.Tensor:
        return self._storages[index][start : start + nbytes]

    def _storage(self, index: int, start: int, nbytes: int) -> torch.UntypedStorage:
        """The storage of tensors that lie there: the whole one, or one over a part of it."""
        place = (index, start, nbytes)
        if place not in self._parts:
            part = self._bytes(*place)
            if part.numel() != self._storages[index].numel():
                part = torch.utils.dlpack.from_dlpack(
                    part
                )  # a storage of its own over the same memory
            self._parts[place] = part.untyped_storage()
        return self._parts[place]


def _require_all(container: Any, children: list[Any]) -> None:
    if len(container) != len(children):
        raise ValueError("two members or keys of a container are equal")


def _bounded_deque(maxlen: int | None) -> deque[Any]:
    return deque(maxlen=maxlen)


_SHELLS: dict[str, Callable[..., Any]] = {
    "list": list,
    "dict": dict,
    "ordered_dict": OrderedDict,
    "set": set,
    "deque": _bounded_deque,
}

_FROZEN: dict[str, Callable[..., Any]] = {"tuple": tuple, "frozenset": frozenset}

_OVER_OTHERS = frozenset(generators.OVER_OTHERS.values())
_ALONE = frozenset(generators.GENERATORS.values())
