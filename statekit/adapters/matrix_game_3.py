"""Matrix-Game 3.0's adapter: the generated class, and how clips go into the memory and out of it.

Owns which latent frame stands for which pixel frames: the first for frame 0, each later one for
four more. Where each value lives is `schemas/matrix_game_3.yaml`. Which frames are worth recalling
is the model's own rule; it gets the poses and says numbers of frames.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from statekit.adapters.generated.matrix_game_3 import MatrixGame3State
from statekit.errors import PayloadError

__all__ = ["MatrixGame3StateAdapter"]

_FRAMES_PER_LATENT = 4


class MatrixGame3StateAdapter(MatrixGame3State):
    """Session state of Matrix-Game 3.0: a memory of all latent frames, and what the next needs."""

    __slots__ = ()

    def append_actions(
        self, keyboard: torch.Tensor, mouse: torch.Tensor, extrinsics: torch.Tensor
    ) -> None:
        """Add a clip's actions (1, F, KEYS) and (1, F, 2), and the poses (F, 4, 4) they lead to.

        Raises:
            PayloadError: the three are not of the same number of frames; nothing changes.
        """
        frames = {keyboard.shape[1], mouse.shape[1], extrinsics.shape[0]}
        if len(frames) > 1:
            found = f"{keyboard.shape[1]} keys, {mouse.shape[1]} moves, {len(extrinsics)} poses"
            raise PayloadError("append_actions", found, "pass one of each for every frame")
        self.keyboard_condition_object.append(keyboard)
        self.mouse_condition_object.append(mouse)
        self.extrinsics_object.append(extrinsics)

    def append_clip(self, latents: torch.Tensor) -> None:
        """Remember a clip's new latent frames (1, C, T, h, w), each under the pose of its newest
        pixel frame; keep the newest for the next clip.

        Raises:
            PayloadError: there is no pose yet for one of them; nothing changes.
        """
        before = len(self.latents_object)
        poses = self.extrinsics
        numbers = range(before, before + latents.shape[2])
        known = 0 if poses is None else len(poses)
        if poses is None or (numbers and numbers[-1] * _FRAMES_PER_LATENT >= known):
            todo = "append the clip's actions and poses before its latents"
            raise PayloadError("append_clip", f"{known} poses for {numbers.stop} latents", todo)
        self.latents_object.extend(
            (poses[number * _FRAMES_PER_LATENT], latents[:, :, index : index + 1])
            for index, number in enumerate(numbers)
        )
        self.img_cond_object.append(latents)

    def recall(
        self, frames: Iterable[int], *, device: torch.device | str | None = None
    ) -> torch.Tensor:
        """The latent frames (1, C, n, h, w) that stand for these pixel frames, in their order.

        Args:
            frames: numbers of pixel frames, as the model's rule chose them by `extrinsics`.
            device: where the result lies; None is where the memory lies.

        Raises:
            PayloadError: no frame, or one that is not remembered.
        """
        memory = self.latents_object.view()
        numbers = [latent_of(frame) for frame in frames]
        missing = [number for number in numbers if not 0 <= number < len(memory)]
        if missing or not numbers:
            found = f"latent frames {missing} of {len(memory)}" if missing else "no frame"
            raise PayloadError("recall", found, "pass numbers of frames that were made")
        recalled = torch.cat([memory[number][1] for number in numbers], dim=2)
        return recalled if device is None else recalled.to(device)

    def reset(self) -> None:
        """Clear all."""
        self.reset_session()


def latent_of(frame: int) -> int:
    """The number of the latent frame that stands for a pixel frame."""
    return (frame - 1) // _FRAMES_PER_LATENT + 1
