"""A hand-rolled class of every idiom, and the adapter that replaces it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from statekit.adapter import StateAdapter
from statekit.attr import SessionAttr
from statekit.manager import SessionStateManager
from statekit.objects import HeldValue, LatentBuffer
from statekit.on_commit import OnCommit
from statekit.spec import ModelSpec, Park, Ring, Size, Tolerance, ValueSpec
from statekit.testing import Recorder, Trace, record

__all__ = ["HandRolled", "Toy", "recorded", "run", "toy"]


class HandRolled:
    """State as a server carries it by hand."""

    def __init__(self) -> None:
        self.history: list[torch.Tensor] = []
        self.prompt: torch.Tensor | None = None
        self.reset()

    def reset(self) -> None:
        self.count = 0
        self.latent: torch.Tensor | None = None
        self.previous: torch.Tensor | None = None
        self.cache: list[torch.Tensor | None] | None = None
        self.frames: list[torch.Tensor] = []

    def push(self, frame: torch.Tensor) -> torch.Tensor:
        """Keep the newest three frames; their mean."""
        if frame.ndim != 2:
            raise ValueError("a frame has 2 dimensions")
        self.frames.append(frame)
        del self.frames[:-3]
        return torch.stack(self.frames).mean(0)

    def remember(self, latent: torch.Tensor) -> None:
        self.previous, self.latent = self.latent, latent
        self.history.append(latent.detach().cpu())

    def newest(self) -> torch.Tensor | None:
        return self.frames[-1] if self.frames else None


class Toy(StateAdapter):
    """What the generator would write for it, and its methods."""

    __slots__ = ()

    SPEC: ClassVar[ModelSpec] = ModelSpec(
        model="toy",
        symbols={"H": 4, "W": 8},
        constants={"FRAMES": 3},
        values=(
            ValueSpec("count", "attrs", "int", "none", default="0", coerce="int"),
            ValueSpec("latent", "attrs", "torch.Tensor | None", "model", default="None",
                      dtype="bfloat16", size=Size(shape=("2", "H"))),
            ValueSpec("previous", "attrs", "torch.Tensor | None", "model", default="None",
                      dtype="bfloat16", size=Size(shape=("2", "H"))),
            ValueSpec("prompt", "attrs", "torch.Tensor | None", "model", default="None",
                      dtype="float32", size=Size(shape=("W / 2",)), tolerance=Tolerance(1e-6)),
            ValueSpec("cache", "StateObject", "list[torch.Tensor | None]", "model",
                      object="HeldValue", dtype="float32", size=Size(elements="2 * H * W"),
                      update="entries", park=Park(("disk",)), operations=("park",)),
            ValueSpec("frames", "StateObject", "torch.Tensor", "cpu", object="LatentBuffer",
                      dtype="float32", size=Size(shape=("H", "W")), ring=Ring(bound="FRAMES"),
                      operations=("accumulate",)),
            ValueSpec("history", "StateObject", "torch.Tensor", "cpu", object="LatentBuffer",
                      dtype="bfloat16", size=Size(shape=("2", "H")), on_commit=("detach", "move"),
                      ring=Ring(unbounded="read at the end"), operations=("accumulate",)),
        ),
        resets={
            "session": ("count", "latent", "previous", "prompt", "cache", "frames", "history"),
            "window": ("count", "latent", "previous", "cache", "frames"),
        },
    )  # fmt: skip

    count: SessionAttr[int] = SessionAttr(default=0, coerce=int)
    latent: SessionAttr[Any] = SessionAttr(default=None)
    previous: SessionAttr[Any] = SessionAttr(default=None)
    prompt: SessionAttr[Any] = SessionAttr(default=None)

    @property
    def cache_object(self) -> HeldValue[list[Any]]:
        return self._object(
            "cache", lambda: HeldValue[list[Any]]().allocate(update="entries"), HeldValue
        )

    @property
    def cache(self) -> list[Any] | None:
        return self.cache_object.view()

    @cache.setter
    def cache(self, payload: list[Any] | None) -> None:
        if payload is None:
            self.cache_object.clear()
        else:
            self.cache_object.commit(payload)

    @property
    def frames_object(self) -> LatentBuffer[torch.Tensor]:
        return self._object(
            "frames", lambda: LatentBuffer[torch.Tensor]().allocate(maxlen=3), LatentBuffer
        )

    @property
    def frames(self) -> list[torch.Tensor]:
        return self.frames_object.view()

    @frames.setter
    def frames(self, items: Any) -> None:
        self.frames_object.replace(items)

    @property
    def history_object(self) -> LatentBuffer[torch.Tensor]:
        on_commit = OnCommit(detach=True, device="cpu")
        return self._object(
            "history",
            lambda: LatentBuffer[torch.Tensor]().allocate(on_commit=on_commit),
            LatentBuffer,
        )

    @property
    def history(self) -> list[torch.Tensor]:
        return self.history_object.view()

    @history.setter
    def history(self, items: Any) -> None:
        self.history_object.replace(items)

    def reset_session(self) -> None:
        """Clear everything."""
        self._session.reset()

    def reset_window(self) -> None:
        """Clear what a window clears."""
        self._clear("count", "latent", "previous", "cache", "frames")

    # What a hand writes.

    def reset(self) -> None:
        """As the hand-rolled class has it."""
        self.reset_window()

    def push(self, frame: torch.Tensor) -> torch.Tensor:
        """As the hand-rolled class has it."""
        if frame.ndim != 2:
            raise ValueError("a frame has 2 dimensions")
        self.frames_object.append(frame)
        return torch.stack(self.frames).mean(0)

    def remember(self, latent: torch.Tensor) -> None:
        """As the hand-rolled class has it."""
        self.previous, self.latent = self.latent, latent
        self.history_object.append(latent)

    def newest(self) -> torch.Tensor | None:
        """As the hand-rolled class has it."""
        frames = self.frames
        return frames[-1] if frames else None


def toy(kind: Callable[..., Toy] = Toy, **settings: Any) -> Any:
    """A new adapter of a manager of its own; its session was begun by a lease."""
    manager = SessionStateManager(**settings)
    with manager.lease("s", begin=kind.SPEC):  # type: ignore[attr-defined]
        return kind("s", manager)


def values(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def run(recorder: Recorder[Any], steps: int = 3) -> None:
    """A pipeline of a few steps, that does with its state whatever such pipelines do."""
    state = recorder.state
    latent = values(99, 2, 4, dtype=torch.bfloat16)
    for number in range(steps):
        with recorder.step():
            if state.prompt is None:
                state.prompt = values(7, 4)
            frame = values(number, 4, 8)
            frame[0, 0] = 0
            mean = state.push(frame)
            if state.cache is None:
                state.cache = [mean.clone(), None]
            else:
                state.cache[1] = mean + 1  # an entry, where the list is
            latent = (latent + state.count + 1).contiguous()
            state.remember(latent)
            state.count += 1
            if number == 1:
                state.latent.mul_(2)  # in place, in what was handed out
                try:
                    state.push(values(0, 3))
                except ValueError:
                    state.count += 10
            state.newest()
    with recorder.step("reset"):
        state.reset()


def recorded(steps: int = 3) -> Trace:
    """The trace of such a run."""
    recorder = record(HandRolled())
    run(recorder, steps)
    return recorder.trace
