"""Cosmos3's rollout for the demo: two generations in turn, both kinds of state side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.manager import SessionStateManager
from statekit_codegen.units import format_nbytes
from tests.demo.comparison import Comparison
from tests.demo.cosmos3_pipeline import Cosmos3Pipeline, TinyCosmos3Transformer
from tests.equivalence.hand_rolled_cosmos3 import HandRolledCosmos3States
from tests.equivalence.held import held_bytes

__all__ = ["Cosmos3Rollout"]

MEDIA_TOKENS, CHANNELS = 128, 128
PROMPT_TOKENS = {"request-1": 40, "request-2": 23}
NEGATIVE_TOKENS = 12


class Cosmos3Rollout:
    """Iterate over it to run it, one step an iteration; `comparison` then holds the findings."""

    def __init__(self, *, steps: int = 32, layers: int = 8, padded_tokens: int = 512) -> None:
        self.comparison = Comparison(
            model="cosmos3",
            setup=(
                f"{steps} denoise steps of two requests in turn, {layers} layers, "
                f"prompts padded to {padded_tokens}"
            ),
            steps=steps,
        )
        self._pipeline = Cosmos3Pipeline(
            TinyCosmos3Transformer(layers=layers, padded_tokens=padded_tokens)
        )
        self._hand = HandRolledCosmos3States()
        self._manager = SessionStateManager()
        generator = torch.Generator().manual_seed(5)
        noise = {
            request: torch.randn(1, MEDIA_TOKENS, CHANNELS, generator=generator)
            for request in PROMPT_TOKENS
        }
        self._media = {"hand": dict(noise), "adapter": dict(noise)}

    def __iter__(self) -> Iterator[int]:
        try:
            for step in range(self.comparison.steps):
                self._step(step)
                yield step
            self._finish()
        finally:
            for request in PROMPT_TOKENS:
                self._manager.drop_session(request)
        self.comparison.after = self._manager.stats()["total_nbytes"]

    def _step(self, step: int) -> None:
        took = {"hand": 0.0, "adapter": 0.0}
        sides: dict[str, Callable[[str], Any]] = {"hand": self._hand.get, "adapter": self._adapter}
        for request, length in PROMPT_TOKENS.items():
            tokens = torch.arange(length)[None] + 1
            negative = torch.arange(NEGATIVE_TOKENS)[None] + 100
            for side in sides if step % 2 else reversed(sides):
                model_s, start = self._pipeline.model_s, time.perf_counter()
                media = self._pipeline.step(
                    sides[side](request), self._media[side][request], tokens, negative
                )
                took[side] += time.perf_counter() - start - (self._pipeline.model_s - model_s)
                self._media[side][request] = media
            self._compare_states(f"step {step + 1} of {request}", request)
        self.comparison.hand_s.append(took["hand"])
        self.comparison.adapter_s.append(took["adapter"])

    def _compare_states(self, place: str, request: str) -> None:
        media = (self._media[side][request] for side in ("adapter", "hand"))
        self.comparison.compare(f"{place}: media", *media)
        for is_negative in (False, True):
            loaded = []
            for state in (self._adapter(request), self._hand.get(request)):
                state.load_into_transformer(self._pipeline.transformer, is_negative)
                loaded.append(
                    [
                        self._pipeline.transformer.cached_kv,
                        self._pipeline.transformer.cached_freqs_gen,
                    ]
                )
            branch = "negative" if is_negative else "positive"
            self.comparison.compare(f"{place}: {branch} [K/V, frequencies]", *loaded)
        requests = (name for name in PROMPT_TOKENS if name in self._manager)
        sessions = [self._adapter(name).session for name in requests]
        self.comparison.compare_bytes(place, self._manager, sessions)

    def _finish(self) -> None:
        self.comparison.model_s = self._pipeline.model_s
        self.comparison.hand_held = held_bytes(*map(self._hand.get, PROMPT_TOKENS))
        adapter_nbytes, hand_nbytes = map(_kv_nbytes, (self._adapter, self._hand.get))
        self.comparison.bounded_what = "text K/V"
        self.comparison.adapter_bounded = f"{format_nbytes(adapter_nbytes)}: as long as the prompts"
        self.comparison.hand_bounded = f"{format_nbytes(hand_nbytes)}: padding pinned"

    def _adapter(self, request: str) -> Cosmos3StateAdapter:
        return Cosmos3StateAdapter(request, self._manager)


def _kv_nbytes(get_state: Callable[[str], Any]) -> int:
    states = map(get_state, PROMPT_TOKENS)
    return held_bytes([state.get_branch_kv(neg) for state in states for neg in (False, True)])[
        "cpu"
    ]
