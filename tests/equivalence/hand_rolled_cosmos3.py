"""Cosmos3's state as a server carries it by hand: the reference of the equivalence tests.

Plain dicts by branch. Written from the description of the model's behaviour; it shares no code
with statekit, on purpose.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import torch

KV = tuple[torch.Tensor, torch.Tensor]


class HandRolledCosmos3State:
    """Text K/V of every layer and the rotary frequencies of one generation, per CFG branch."""

    def __init__(self, session_id: str | None = None) -> None:
        self.session_id = session_id
        self.reset()

    def reset(self) -> None:
        self.cached_kv: dict[bool, list[KV | None]] = {}
        self.cached_freqs_gen: dict[bool, Any] = {}

    def is_branch_initialized(self, is_negative: bool) -> bool:
        layers = self.cached_kv.get(bool(is_negative), [])
        return len(layers) > 0 and layers[0] is not None

    def get_branch_kv(self, is_negative: bool) -> list[KV] | None:
        if not self.is_branch_initialized(is_negative):
            return None
        layers = self.cached_kv[bool(is_negative)]
        present = [pair for pair in layers if pair is not None]
        if len(present) < len(layers):
            missing = len(layers) - len(present)
            raise RuntimeError(f"branch is partially initialized: {missing} layers are missing")
        return present

    def set_branch_kv(self, is_negative: bool, cached_kv: Iterable[KV]) -> None:
        layers: list[KV | None] = list(cached_kv)
        if any(pair is None for pair in layers):
            raise ValueError("a layer without K and V")
        self.cached_kv[bool(is_negative)] = layers

    def load_into_transformer(self, transformer: Any, is_negative: bool) -> None:
        cached_kv = self.get_branch_kv(is_negative)
        transformer.cached_kv = cached_kv
        transformer.cached_freqs_gen = self.cached_freqs_gen.get(bool(is_negative))

    def capture_from_transformer(self, transformer: Any, is_negative: bool) -> None:
        if self.is_branch_initialized(is_negative):
            return
        cached_kv = getattr(transformer, "cached_kv", None)
        if not cached_kv:
            raise RuntimeError("transformer did not produce UND K/V")
        cached_freqs_gen = getattr(transformer, "cached_freqs_gen", None)
        if cached_freqs_gen is None:
            raise RuntimeError("transformer did not produce GEN RoPE frequencies")
        self.set_branch_kv(is_negative, cached_kv)
        self.cached_freqs_gen[bool(is_negative)] = cached_freqs_gen


class HandRolledCosmos3States:
    """Generations by request id; the least recently used one goes beyond `max_sessions`."""

    def __init__(self, max_sessions: int = 64) -> None:
        self.max_sessions = max_sessions
        self.states: OrderedDict[str, HandRolledCosmos3State] = OrderedDict()

    def get(self, session_id: str | None) -> HandRolledCosmos3State:
        key = session_id or "default"
        if key not in self.states:
            self.states[key] = HandRolledCosmos3State(session_id)
        self.states.move_to_end(key)
        while len(self.states) > self.max_sessions:
            self.states.popitem(last=False)
        return self.states[key]

    def drop(self, session_id: str | None) -> bool:
        return self.states.pop(session_id or "default", None) is not None
