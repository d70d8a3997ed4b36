"""A little model for replicas: a sum, and a ring of frames that is made from all that came before.

Owns the model and its schema. Its state is small, and every output depends on all of it, so that a
step that is lost, done twice or done on another state shows at once.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from statekit.manager import SessionStateManager
from statekit.objects.latent_buffer import LatentBuffer
from statekit.replicas.lane import Limits
from statekit.replicas.replica import Replica
from statekit.replicas.saving import Saving, Store
from statekit.replicas.serving import Serves, Turn
from statekit.spec import ModelSpec, Ring, Size, ValueSpec

__all__ = ["FRAME_NBYTES", "SPEC", "Toy", "ToyError", "alone", "replica"]

ELEMENTS = 256
FRAME_NBYTES = ELEMENTS * 4
SPEC = ModelSpec(
    "toy",
    symbols={"N": ELEMENTS},
    values=(
        ValueSpec("total", "attrs", "int", "none", default="0"),
        ValueSpec(
            "frames",
            "StateObject",
            "np.ndarray",
            "cpu",
            object="LatentBuffer",
            dtype="float32",
            size=Size(shape=("N",)),
            ring=Ring(bound="4"),
            operations=("accumulate",),
        ),
    ),
    resets={"session": ("total", "frames")},
)


class ToyError(Exception):
    """What a toy raises when it is told to."""


class Toy:
    """Adds numbers up, and remembers."""

    def begin(self, turn: Turn, start: int = 0, *, fail: bool = False) -> int:
        turn.session.attrs["total"] = start
        if fail:
            raise ToyError("told to fail in begin")
        return start

    def step(
        self, turn: Turn, x: int, *, gate: str = "", started: str = "", fail: bool = False
    ) -> tuple[int, float]:
        """Add `x`; where there is a gate, only when that file is there."""
        attrs: dict[str, Any] = turn.session.attrs
        attrs["total"] = attrs.get("total", 0) * 3 + x
        frames = turn.session.get_or_create(
            "frames", lambda: LatentBuffer[Any]().allocate(maxlen=4), LatentBuffer
        )
        last = sum((float(frame.sum()) for frame in frames.view()), 0.0)
        frames.append(np.full(ELEMENTS, attrs["total"] % 1000 + last % 7, np.float32))
        if started:
            Path(started).touch()
        while gate and not Path(gate).exists():
            turn.check()
            time.sleep(0.002)
        if fail:
            raise ToyError("told to fail")
        return attrs["total"], last


def replica(
    name: str,
    *,
    store: Store | None = None,
    every: int = 1,
    limits: Limits | None = None,
    **manager: Any,
) -> Replica:
    """A replica that serves toys."""
    saving = None if store is None else Saving(store, every)
    kept = SessionStateManager(**manager)
    return Replica(name, kept, [Serves(SPEC, Toy())], limits=limits, saving=saving)


def alone(start: int, xs: list[int]) -> list[tuple[int, float]]:
    """The outputs of one session in one process, with no replica."""
    manager, toy, found = SessionStateManager(), Toy(), []
    for x in xs:
        session = manager.get_or_create_session("alone")
        if not found:
            session.attrs["total"] = start
        turn: Any = type("Alone", (), {"session": session})
        found.append(toy.step(turn, x))
    return found
