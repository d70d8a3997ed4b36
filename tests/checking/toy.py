"""A small adapter with a value of every make, for the tests of checking mode."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from statekit.adapter import StateAdapter
from statekit.attr import SessionAttr
from statekit.family import ObjectFamily
from statekit.manager import SessionStateManager
from statekit.objects import EncodeOnce, HeldValue, LatentBuffer
from statekit.spec import Family, ModelSpec, Park, Ring, Size, ValueSpec

__all__ = ["Toy", "toy"]

LATENT = Size(shape=("1", "4", "SPAN", "H / 8", "W / 8"))


class Toy(StateAdapter):
    """What the generator would write, less its documentation."""

    __slots__ = ()

    SPEC: ClassVar[ModelSpec] = ModelSpec(
        model="toy",
        schema="schemas/toy.yaml",
        symbols={"H": 352, "W": 640, "SPAN": 9, "TOKENS": 512},
        constants={"FRAMES": 4},
        families={"branch": Family({"positive": "", "negative": "_neg"}), "layer": Family({}, "2")},
        values=(
            ValueSpec("count", "attrs", "int", "none", line=10),
            ValueSpec("scale", "attrs", "float | None", "none", line=11),
            ValueSpec("latent", "attrs", "torch.Tensor | None", "model", dtype="float32",
                      size=LATENT, line=12),
            ValueSpec("frame", "attrs", "np.ndarray | None", "cpu", dtype="uint8",
                      size=Size(shape=("H", "W", "3")), line=13),
            ValueSpec("pending", "attrs", "torch.Tensor | None", "model", dtype="float32",
                      size=Size(shape=("FRAMES - 1", "2")), line=14),
            ValueSpec("kv", "attrs", "list[torch.Tensor] | None", "model", dtype="float32",
                      line=15),
            ValueSpec("cache", "attrs", "list[torch.Tensor | None] | None", "model",
                      dtype="float32", size=Size(elements="2 * H * W"), update="entries", line=16),
            ValueSpec("scratch", "attrs", "torch.Tensor | None", "model", dtype="float32",
                      update="in_place", line=17),
            ValueSpec("rng", "attrs", "torch.Generator | None", "cpu", line=18),
            ValueSpec("table", "attrs", "dict[str, tuple[int, str]]", "none", line=19),
            ValueSpec("ring", "StateObject", "torch.Tensor", "model", object="LatentBuffer",
                      dtype="float32", size=Size(shape=("2", "1", "H / 8")),
                      ring=Ring(bound="FRAMES", axis=1), line=20),
            ValueSpec("frames", "StateObject", "np.ndarray", "cpu", object="LatentBuffer",
                      dtype="uint8", size=Size(shape=("H", "W", "3")), ring=Ring(bound="FRAMES"),
                      line=21),
            ValueSpec("held", "StateObject", "list[torch.Tensor]", "model", object="HeldValue",
                      dtype="float32", park=Park(("disk",)),
                      operations=("park",), line=22),
            ValueSpec("text", "StateObject", "tuple[torch.Tensor, torch.Tensor]", "model",
                      key="text{branch}/{layer}", object="EncodeOnce", dtype="float32",
                      families=("branch", "layer"), line=23),
        ),
    )  # fmt: skip

    count: SessionAttr[int] = SessionAttr(default=0, coerce=int)
    scale: SessionAttr[Any] = SessionAttr(default=None)
    latent: SessionAttr[Any] = SessionAttr(default=None)
    frame: SessionAttr[Any] = SessionAttr(default=None)
    pending: SessionAttr[Any] = SessionAttr(default=None)
    kv: SessionAttr[Any] = SessionAttr(default=None)
    cache: SessionAttr[Any] = SessionAttr(default=None)
    scratch: SessionAttr[Any] = SessionAttr(default=None)
    rng: SessionAttr[Any] = SessionAttr(default=None)
    table: SessionAttr[dict[str, Any]] = SessionAttr(default={})

    @property
    def ring_object(self) -> LatentBuffer[torch.Tensor]:
        return self._object(
            "ring", lambda: LatentBuffer[torch.Tensor]().allocate(maxlen=4, axis=1), LatentBuffer
        )

    @property
    def frames_object(self) -> LatentBuffer[Any]:
        return self._object("frames", lambda: LatentBuffer[Any]().allocate(maxlen=4), LatentBuffer)

    @property
    def held_object(self) -> HeldValue[list[torch.Tensor]]:
        return self._object("held", lambda: HeldValue[list[torch.Tensor]]().allocate(), HeldValue)

    def text(self, branch: str) -> ObjectFamily[tuple[torch.Tensor, torch.Tensor]]:
        prefix = {"positive": "text/", "negative": "text_neg/"}[branch]
        return ObjectFamily(
            self._session,
            prefix,
            lambda: EncodeOnce[tuple[torch.Tensor, torch.Tensor]]().allocate(),
        )


def toy(session_id: str = "robot", manager: SessionStateManager | None = None) -> Any:
    """An adapter of a new manager; typed loosely, since the tests store what is wrong."""
    return Toy(session_id, manager or SessionStateManager())
