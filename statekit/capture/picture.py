"""Picture: what is copied of a value that its model changes where it is.

Owns the copies, and the way back: into the same containers and the same memory, because the model
may hold them. A value that is replaced whole needs none of this: a reference is its picture.

    P1  With `entries` the containers are copied, never a tensor or an array; with `in_place` every
        storage once, and the states of random generators.
    P2  After `write_back` the value is the same object with the same content as when the picture
        was taken; `copy` is another value of that content, which shares what was not copied.

Thread rule: as the value itself.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import torch

from statekit.image.memory import empty_bytes
from statekit.image.taking import take_image
from statekit.spec import Update

__all__ = ["Picture"]

_MAPPINGS = (dict, OrderedDict)
_CONTAINERS = frozenset({list, dict, OrderedDict, set, deque, tuple})
_GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


class Picture:
    """The content of one value at one moment.

    Args:
        value: the value.
        update: how it is changed; `replaced` has no picture.

    Raises:
        UnparkableError: `in_place`, and a part of it can't be copied bit for bit.
    """

    __slots__ = ("_containers", "_in_place", "value")

    def __init__(self, value: Any, update: Update) -> None:
        self.value = value
        self._in_place = _InPlace(value) if update == "in_place" else None
        self._containers: list[tuple[Any, Any]] = []
        todo, met = [value], set[int]()
        for part in todo:  # grows while it is gone through
            kind = type(part)
            if kind in _CONTAINERS:
                if id(part) in met:
                    continue
                met.add(id(part))
                if kind is not tuple:
                    self._containers.append((part, part.copy()))
                inner = part.values() if kind in _MAPPINGS else part
                # Most containers hold tensors alone, which this sees at a fraction of the cost.
                if self._in_place is not None or not _CONTAINERS.isdisjoint(map(type, inner)):
                    todo += inner
            elif self._in_place is not None and isinstance(part, _GENERATORS):
                self._in_place.generators.append((part, _state_of(part)))

    def write_back(self) -> Any:
        """Give the value its content back, where it is, and return it."""
        if self._in_place is not None:
            self._in_place.write_back()
        for container, content in self._containers:
            container.clear()
            _fill(container, content)
        return self.value

    def copy(self) -> Any:
        """Another value with this content."""
        if self._in_place is not None:
            return self._in_place.copy()
        return self._rebuilt()

    def _rebuilt(self) -> Any:
        """The value with containers of its own, whose entries are those of the picture."""
        content = {id(container): copied for container, copied in self._containers}
        made: dict[int, Any] = {}
        for container, copied in self._containers:
            made[id(container)] = copied.copy()

        def new(part: Any) -> Any:
            if id(part) in made:
                return made[id(part)]
            if type(part) is tuple and any(type(one) in _CONTAINERS for one in part):
                made[id(part)] = tuple(new(one) for one in part)
                return made[id(part)]
            return part

        for container, copied in content.items():
            shell = made[container]
            if type(shell) is set:
                continue  # its members cannot be containers that change
            entries = list(copied.items() if isinstance(copied, dict) else copied)
            shell.clear()
            if isinstance(shell, dict):
                _fill(shell, [(key, new(one)) for key, one in entries])
            else:
                _fill(shell, [new(one) for one in entries])
        return new(self.value)

    def held(self) -> list[Any]:
        """What the picture keeps allocated, for a look at its memory."""
        saved = () if self._in_place is None else self._in_place.saved
        return [self.value, *(content for _, content in self._containers), *saved]


class _InPlace:
    """Copies of all storages of a value, and the states of its generators."""

    def __init__(self, value: Any) -> None:
        self.image = take_image(value)
        self.saved = [_copied(storage) for storage in self.image.storages]
        self.generators: list[tuple[Any, Any]] = []

    def write_back(self) -> None:
        for storage, saved in zip(self.image.storages, self.saved, strict=True):
            with torch.inference_mode(False):
                # Another tensor over the same memory: one of inference mode refuses writes.
                live = torch.empty(0, dtype=torch.uint8, device=storage.device)
                live.set_(storage.untyped_storage(), storage.storage_offset(), storage.shape, (1,))
                live.copy_(saved)
        for generator, state in self.generators:
            _set_state(generator, state)

    def copy(self) -> Any:
        return self.image.build([_copied(saved) for saved in self.saved])


def _copied(storage: torch.Tensor) -> torch.Tensor:
    copy = empty_bytes(storage.numel(), storage.device)
    with torch.inference_mode(False), torch.no_grad():
        return copy.copy_(storage)


def _fill(container: Any, content: Any) -> None:
    """Put `content` into an empty container; all at once, in C."""
    if isinstance(container, (dict, set)):
        container.update(content)
    else:
        container.extend(content)


def _state_of(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)
