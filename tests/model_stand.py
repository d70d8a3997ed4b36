"""A model at small sizes: how a pipeline would write its values, and what a session then holds.

Owns the small numbers of each schema of this project and payloads of the declared sizes.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import torch

from statekit.accounting import SeenStorages, device_bytes
from statekit.adapter import StateAdapter
from statekit.declared import declared_bytes
from statekit.expressions import Expression
from statekit.family import ObjectFamily
from statekit.spec import ModelSpec, ValueSpec

__all__ = ["SMALL", "Stand", "adapter_class", "copied", "state_of"]

SMALL: dict[str, dict[str, int]] = {
    "cosmos3": {"LAYERS": 2, "TOKENS": 5, "MEDIA_TOKENS": 6},
    "cosmos3_multiview": {
        "LAYERS": 2,
        "HEADS": 2,
        "KV_HEADS": 1,
        "CAMERAS": 2,
        "CAPTION_TOKENS": 3,
        "MEDIA_TOKENS": 4,
        "PADDED_TOKENS": 256,
    },
    "dreamzero": {"H": 32, "W": 64, "SPAN": 2, "TOKENS": 4},
    "hunyuan_gamecraft": {"H": 32, "W": 64, "FRAMES": 2},
    "lingbot_world_2": {"H": 32, "W": 48, "CHUNK": 1, "LAYERS": 2},
    "lingbot_world_fast": {"H": 16, "W": 32, "LAYERS": 1, "SLOTS": 2},
    "matrix_game_2": {"H": 16, "W": 32, "LAYERS": 2, "LATENTS": 4},
    "matrix_game_3": {"H": 32, "W": 32, "CLIP_LATENTS": 5, "CLIP_FRAMES": 3},
    "oasis": {"H": 20, "W": 40},
    "sana_wm": {"H": 64, "W": 32, "BLOCKS": 2, "GDN_LAYERS": 1, "SOFTMAX_LAYERS": 1},
    "self_forcing": {"H": 16, "W": 32, "LAYERS": 2, "BRANCHES": 2},
    "vjepa2_ac": {"SAMPLES": 2},
}
"""Numbers for which each model is small enough for a test."""

PLAIN: dict[str, Any] = {
    "bool": True,
    "int": 7,
    "float": 1.5,
    "int | None": 7,
    "list[int]": [3],
    "tuple[int, ...] | None": (3, 4),
    "tuple[str, int, str] | None": ("a prompt", 512, "bfloat16"),
    "set[tuple[int, str]] | None": {(1, "k")},
}
"""A value of each type that holds no memory to speak of."""


def adapter_class(name: str) -> type[StateAdapter]:
    """The generated class of a model."""
    module = importlib.import_module(f"statekit.adapters.generated.{name}")
    (exported,) = module.__all__
    found: type[StateAdapter] = getattr(module, exported)
    return found


class Stand:
    """One model at small sizes: its class, and how a pipeline would write its values."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cls = adapter_class(name)
        self.spec: ModelSpec = self.cls.SPEC
        self.numbers = self.spec.environment(SMALL[name])
        self.filled = 0

    def number(self, text: str) -> int:
        return Expression.parse(text).evaluate(self.numbers)

    def tensor(self, extents: tuple[int, ...], dtype: str) -> torch.Tensor:
        """A tensor like no other one before it, and not the same in all its places."""
        self.filled += 1
        made = torch.full(extents, self.filled % 101, dtype=getattr(torch, dtype))
        start = made.reshape(-1)[:64]
        start.copy_(torch.arange(len(start)))
        return made

    def payload(self, value: ValueSpec, *, first: bool = False) -> Any:
        """What a model would store or append, of the declared size."""
        held = value.type.removesuffix(" | None")
        if held == "torch.Generator":
            return torch.Generator().manual_seed(5)
        if value.type in PLAIN:
            return PLAIN[value.type]
        assert value.size is not None, value.name
        assert value.dtype is not None, value.name
        dtype = value.dtype
        extents = tuple(self.number(extent) for extent in value.size.shape or ())
        if held == "torch.Tensor" and extents:
            return self.tensor(extents, dtype)
        if held == "np.ndarray":
            return self.tensor(extents, dtype).numpy()
        if value.object == "WindowedKV":
            return (self.tensor(extents, dtype), self.tensor(extents, dtype))
        text = value.size.first if first and value.size.first else value.size.elements
        count = math.prod(extents) if text is None else self.number(text)
        most, rest = (self.tensor((n,), dtype) for n in (count - count // 4, count // 4))
        made: dict[str, Any] = {
            "tuple[torch.Tensor, torch.Tensor]": (most, rest),
            "list[torch.Tensor | None]": [most, None, rest],
            "list[torch.Tensor | str | None]": [most, "Rep", None, rest],
            "dict[str, torch.Tensor]": {"most": most, "rest": rest},
        }
        return made[held]

    def entry(self, value: ValueSpec, *, first: bool = False) -> Any:
        """A payload, with its key where values lie under keys."""
        payload = self.payload(value, first=first)
        if value.index is None:
            return payload
        extents = tuple(self.number(extent) for extent in value.index.shape)
        return self.tensor(extents, value.index.dtype), payload

    def objects(self, state: StateAdapter, value: ValueSpec) -> Iterator[Any]:
        """The object of a value, or all those of its family, made where there are none."""
        if not value.families:
            yield getattr(state, f"{value.name}_object")
            return
        named = [self.spec.families[name].members for name in value.families]
        counted = not named[-1]
        for labels in product(*(named[:-1] if counted else named)):
            found = getattr(state, value.name)(*labels)
            assert isinstance(found, ObjectFamily) == counted
            if counted:
                count = self.number(self.spec.families[value.families[-1]].count or "")
                yield from (found.object(index) for index in range(count))
            else:
                yield found

    def write_first(self, state: StateAdapter) -> None:
        """Write every value once, as a first step leaves it."""
        for value in self.spec:
            if value.bucket == "attrs":
                for key in self.spec.keys_of(value):
                    setattr(state, key, self.payload(value))
                continue
            count = 1
            if value.ring is not None and value.ring.bound is None and value.object != "WindowedKV":
                count = self.number(value.ring.growth.first)
            for one in self.objects(state, value):
                for _ in range(count):
                    one.append(self.entry(value, first=True))

    def fill(self, state: StateAdapter) -> None:
        """Go on until every bound is reached."""
        for value in self.spec:
            if value.bucket == "attrs":
                continue
            again = 1 if value.size is not None and value.size.first is not None else 0
            if value.ring is not None and value.ring.bound is not None:
                again = self.number(value.ring.bound)
                if value.ring.axis is not None and value.size is not None and value.size.shape:
                    again = -(-again // self.number(value.size.shape[value.ring.axis]))
            for one in self.objects(state, value):
                for _ in range(again):
                    one.append(self.entry(value))

    def held(self, state: StateAdapter) -> dict[str, int]:
        """The bytes that each value really has."""
        session = state.session
        found = {}
        for value in self.spec:
            if value.bucket == "attrs":
                kept = [session.attrs.get(key) for key in self.spec.keys_of(value)]
                sums = device_bytes(kept, SeenStorages())
            else:
                pattern, sums = self.spec.key_pattern(value), {}
                for key in filter(pattern.fullmatch, session.names):
                    for device, nbytes in session.get(key).nbytes_by_device().items():
                        sums[device] = sums.get(device, 0) + nbytes
            assert sums.keys() <= {"cpu"}
            found[value.name] = sum(sums.values())
        return found

    def declared(self, figure: str) -> dict[str, int]:
        """The bytes that the schema declares: after the first step, or at its bounds."""
        found = {}
        for value in self.spec:
            figures = declared_bytes(self.spec, value, self.numbers)
            assert figures is not None
            found[value.name] = getattr(figures, figure)
        return found

    def passing(self) -> dict[str, int]:
        """The most that values have which live for a request."""
        pending = self.declared("pending")
        return {
            value.name: pending[value.name] for value in self.spec if value.lifetime == "request"
        }

    def values(self, state: StateAdapter) -> dict[str, Any]:
        """What a reader sees of every object and every carried value."""
        seen: dict[str, Any] = {}
        for value in self.spec:
            if value.bucket == "attrs":
                for key in self.spec.keys_of(value):
                    seen[key] = getattr(state, key)
            else:
                for index, one in enumerate(self.objects(state, value)):
                    seen[f"{value.name} {index}"] = one.view()
        return seen

    def names(self, value: ValueSpec) -> tuple[str, ...]:
        """What `values` calls the members of a value, without their numbers."""
        return (value.name, *self.spec.keys_of(value))

    def written_into(self, state: StateAdapter, value: ValueSpec) -> Iterator[torch.Tensor]:
        """The tensors of a carried value that its model may write into; generators have drawn."""
        if value.update != "in_place" or value.bucket != "attrs":
            return
        for key in self.spec.keys_of(value):
            held = getattr(state, key)
            if isinstance(held, torch.Generator):
                torch.rand(3, generator=held)
            parts = held.values() if isinstance(held, dict) else [held]
            yield from (part for part in parts if isinstance(part, torch.Tensor))

    def cursors(self, state: StateAdapter) -> dict[str, tuple[int, int]]:
        """How far the windows of keys and values reach."""
        return {
            f"{value.name} {index}": (one.local_end, one.global_end)
            for value in self.spec
            if value.object == "WindowedKV"
            for index, one in enumerate(self.objects(state, value))
        }


def state_of(value: Any) -> Any:
    """A generator by its state: another object is no other generator."""
    return value.get_state() if isinstance(value, torch.Generator) else value


def copied(seen: Mapping[str, Any]) -> dict[str, Any]:
    """The same bits in other memory."""

    def copy(one: Any) -> Any:
        one = state_of(one)
        if isinstance(one, torch.Tensor):
            return one.clone()
        if isinstance(one, np.ndarray):
            return one.copy()
        if isinstance(one, (list, tuple)):
            return type(one)(copy(part) for part in one)
        if isinstance(one, dict):
            return {key: copy(part) for key, part in one.items()}
        return one

    return {name: copy(one) for name, one in seen.items()}
