"""LingBot-World-Fast's adapter: the generated class, and how its rings of K/V are numbered.

Owns which ring belongs to which denoise step and layer, and that one step's history can be given to
all others. Where each value lives is `schemas/lingbot_world_fast.yaml`.
"""

from __future__ import annotations

import torch

from statekit.adapters.generated.lingbot_world_fast import LingbotWorldFastState
from statekit.errors import ParameterError
from statekit.objects import WindowedKV

__all__ = ["LingbotWorldFastStateAdapter"]


class LingbotWorldFastStateAdapter(LingbotWorldFastState):
    """Session state of LingBot-World-Fast, with K/V for each denoise step."""

    __slots__ = ()

    def ring(self, slot: int, layer: int, *, layers: int) -> WindowedKV[torch.Tensor]:
        """The K/V of one layer in one denoise step, made where there is none.

        Args:
            slot: the denoise step, counted from 0.
            layer: the layer, counted from 0.
            layers: how many layers the transformer has.

        Raises:
            ParameterError: `slot` is below 0, or `layer` is none of `layers`.
        """
        if slot < 0:
            raise ParameterError("slot", slot, "count denoise steps from 0")
        if not 0 <= layer < layers:
            raise ParameterError("layer", layer, f"pass 0 to {layers - 1}, as layers={layers}")
        found: WindowedKV[torch.Tensor] = self.kv().object(slot * layers + layer)
        return found

    def seed_all_slots_from(self, slot: int, *, layers: int, slots: int) -> None:
        """Give every denoise step the history of one, with its cursors, in place of its own.

        Nothing is copied: the rings share their blocks until what they keep differs.

        Raises:
            ParameterError: as `ring`; nothing was changed by a bad `slot`.
            ParkError: a parked ring cannot be brought back now.
        """
        for layer in range(layers):
            source = self.ring(slot, layer, layers=layers)
            memo = source.capture()
            for other in range(slots):
                if other != slot:
                    self.session.put(f"kv/{other * layers + layer}", source.twin(memo))
            source.settle(memo)

    def advance(self, frames: int) -> None:
        """Count so many more latent frames."""
        self.current_lat_f += frames

    def reset(self) -> None:
        """Clear all."""
        self.reset_session()
