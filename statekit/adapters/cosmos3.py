"""Cosmos3's adapter: the generated class, and the hand-over to the shared transformer.

Owns which fields of the transformer carry a branch, and that a branch is stored with both halves
or not at all. All sessions share one transformer, so keying state by session does not isolate them:
use `on_transformer`, or see to it otherwise that load, forward and capture do not interleave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

from statekit.adapters.generated.cosmos3 import Cosmos3State
from statekit.errors import MissingOutputError
from statekit.handover import hand_over

__all__ = ["Cosmos3StateAdapter"]


class Cosmos3StateAdapter(Cosmos3State):
    """Text conditioning of Cosmos3 per branch of classifier-free guidance."""

    __slots__ = ()

    def is_branch_initialized(self, is_negative: bool) -> bool:
        """Whether the branch's first layer is stored."""
        return self.und_kv(_branch(is_negative)).initialized

    def get_branch_kv(self, is_negative: bool) -> list[tuple[torch.Tensor, torch.Tensor]] | None:
        """(K, V) of every layer in a new list, or None where the branch is not initialized.

        Raises:
            PartialFamilyError: some layers are missing.
        """
        return self.und_kv(_branch(is_negative)).view()

    def set_branch_kv(
        self, is_negative: bool, cached_kv: Iterable[tuple[torch.Tensor, torch.Tensor]]
    ) -> None:
        """Store (K, V) of every layer, in place of what the branch held; all layers or none."""
        self.und_kv(_branch(is_negative)).replace(cached_kv)

    def load_into_transformer(self, transformer: Any, is_negative: bool) -> None:
        """Put both halves of the branch onto the transformer, None where absent.

        Raises:
            PartialFamilyError: some layers are missing; the transformer is unchanged.
        """
        cached_kv = self.get_branch_kv(is_negative)
        transformer.cached_freqs_gen = self.freqs_gen(_branch(is_negative)).view()
        transformer.cached_kv = cached_kv

    def capture_from_transformer(self, transformer: Any, is_negative: bool) -> None:
        """Store both halves of the branch from the transformer; nothing if it is stored already.

        Raises:
            MissingOutputError: the transformer lacks one half; nothing is stored.
        """
        if self.is_branch_initialized(is_negative):
            return
        cached_kv = getattr(transformer, "cached_kv", None)
        cached_freqs_gen = getattr(transformer, "cached_freqs_gen", None)
        if not cached_kv:
            raise MissingOutputError("transformer", "UND K/V")
        if cached_freqs_gen is None:
            raise MissingOutputError("transformer", "GEN RoPE frequencies")
        self.set_branch_kv(is_negative, cached_kv)
        # Stored as it is, without a copy, so nothing can fail between the two halves.
        self.freqs_gen(_branch(is_negative)).reset()
        self.freqs_gen(_branch(is_negative)).append(cached_freqs_gen)

    @contextmanager
    def on_transformer(
        self, transformer: Any, is_negative: bool, *, timeout_s: float | None = None
    ) -> Iterator[None]:
        """Have the transformer alone: load the branch, run the body, capture what it encoded.

        Afterwards, also after an error, the transformer's fields are what they were before.

        Raises:
            HandOverError: this thread hands the transformer over already.
            HandOverTimeoutError: others had it for `timeout_s`; nothing was touched.
            MissingOutputError: the body encoded nothing, or half of it; nothing is stored.
        """
        with hand_over(transformer, ("cached_kv", "cached_freqs_gen"), timeout_s=timeout_s):
            self.load_into_transformer(transformer, is_negative)
            yield
            self.capture_from_transformer(transformer, is_negative)

    def reset(self) -> None:
        """Clear both branches."""
        self.reset_generation()


def _branch(is_negative: bool) -> Literal["positive", "negative"]:
    return "negative" if is_negative else "positive"
