"""The generated classes of three schemas with the few lines that these models need on top.

Each has the names that the class by hand has, so that a model cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from statekit.adapters.generated.lingbot_world_2 import LingbotWorld2State
from statekit.adapters.generated.sana_wm import SanaWmState
from statekit.adapters.generated.self_forcing import SelfForcingState
from tests.equivalence.running.window_transformer import LAYERS, TOKENS, Pair

__all__ = ["DecoderState", "RecurrentState", "WindowState"]


class DecoderState(LingbotWorld2State):
    """The decoder's tails under the names of the schema: nothing to add."""

    __slots__ = ()


class RecurrentState(SanaWmState):
    """Each layer's state is written where it lies."""

    __slots__ = ()

    def gdn_state(self, branch: Any, layer: int) -> Any:
        return self.gdn(branch).object(layer).view()

    def conv_tail(self, branch: Any, layer: int) -> Any:
        return self.conv_k(branch).object(layer).view()

    def store(
        self, branch: Any, layer: int, state: dict[str, torch.Tensor], tail: torch.Tensor
    ) -> None:
        self.gdn(branch).object(layer).append(state)
        self.conv_k(branch).object(layer).append(tail)


class WindowState(SelfForcingState):
    """A pass stages a layer's keys and values; the last pass of a chunk is committed."""

    __slots__ = ()

    @property
    def start_frame(self) -> int:
        latents = self.clean_latents
        return 0 if latents is None else latents.shape[1]

    def lost_chunks(self) -> Iterable[tuple[int, torch.Tensor]]:
        """What has to be passed through the model again, because the window was released."""
        return self._chunks() if self.kv().object(0).global_end < self.start_frame else []

    def _chunks(self) -> Iterator[tuple[int, torch.Tensor]]:
        start = 0
        for chunk in self.clean_latents_object.view():
            yield start * TOKENS, chunk
            self._commit()
            start += chunk.shape[1]

    def text_pairs(self) -> Any:
        return self.text_kv().view()

    def keep_text(self, pairs: list[Pair]) -> None:
        self.text_kv().replace(pairs)

    def write(self, layer: int, pair: Pair, start: int) -> None:
        k, v = (one.unflatten(1, (-1, TOKENS)) for one in pair)
        self.kv().object(layer).stage((k, v))

    def seen_by(self, layer: int) -> Pair:
        k, v = self.kv().object(layer).view()
        return k.flatten(1, 2), v.flatten(1, 2)

    def finish(self, clean: torch.Tensor) -> None:
        self._commit()
        self.clean_latents_object.append(clean)

    def _commit(self) -> None:
        for layer in range(LAYERS):
            self.kv().object(layer).commit()
