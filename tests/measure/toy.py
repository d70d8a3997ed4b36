"""A small model with a value of every make, as its generator would write it, to be measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from statekit import measure
from statekit.adapter import StateAdapter
from statekit.attr import SessionAttr
from statekit.manager import SessionStateManager
from statekit.measure.finding import Finding
from statekit.objects.encode_once import EncodeOnce
from statekit.objects.latent_buffer import LatentBuffer
from statekit.spec import ModelSpec
from statekit_codegen.load import load_text

__all__ = ["SCHEMA", "Toy", "line_of", "measured", "rules"]

SCHEMA = """\
statekit: 1
model: toy
class: ToyState
doc: A toy.
symbols: {H: 352, W: 640, TOKENS: 512, LAYERS: 36}
constants: {FRAMES: 4}
families:
  layer: {count: LAYERS, doc: Layers.}
values:
  count:
    bucket: attrs
    type: int
    default: 0
    device: none
    decision: {operations: [], why: A counter.}
  latent:
    bucket: attrs
    type: torch.Tensor | None
    default: null
    dtype: float32
    shape: [1, 4, H / 8, W / 8]
    device: model
    decision: {operations: [], why: Replaced.}
  pending:   # at most three frames
    bucket: attrs
    type: torch.Tensor | None
    default: null
    dtype: float32
    shape: [FRAMES - 1, H, W]
    device: cpu
    decision: {operations: [], why: Replaced.}
  cache:
    bucket: attrs
    type: list[torch.Tensor]
    default: []
    dtype: float32
    elements: 2 * H * W
    device: cpu
    update: entries
    decision: {operations: [], why: Replaced.}
  ring:
    bucket: StateObject
    object: LatentBuffer
    item: torch.Tensor
    dtype: float32
    shape: [H, W]
    device: cpu
    ring: {bound: FRAMES}
    decision: {operations: [accumulate], why: A ring.}
  history:
    bucket: StateObject
    object: LatentBuffer
    item: torch.Tensor
    dtype: float32
    shape: [H / 8, W / 8]
    device: cpu
    ring: {unbounded: until it is decoded, growth: {items: 1, every_steps: 1}}
    decision: {operations: [accumulate], why: All of it.}
  text:
    bucket: StateObject
    object: EncodeOnce
    key: text/{layer}
    family: [layer]
    type: torch.Tensor
    dtype: float32
    shape: [1, TOKENS, 8]
    device: cpu
    on_commit: [compact]
    decision: {operations: [stage], why: Written once.}
resets:
  session: {clears: all}
"""

H, W = 16, 32


class Toy(StateAdapter):
    """What the generator would write, less its documentation."""

    __slots__ = ()

    SPEC: ClassVar[ModelSpec] = load_text(SCHEMA.encode(), "schemas/toy.yaml").spec

    count: SessionAttr[int] = SessionAttr(default=0)
    latent: SessionAttr[Any] = SessionAttr(default=None)
    pending: SessionAttr[Any] = SessionAttr(default=None)
    cache: SessionAttr[list[Any]] = SessionAttr(default=[])

    @property
    def ring_object(self) -> LatentBuffer[torch.Tensor]:
        return self._object(
            "ring", lambda: LatentBuffer[torch.Tensor]().allocate(maxlen=4), LatentBuffer
        )

    @property
    def history_object(self) -> LatentBuffer[torch.Tensor]:
        return self._object("history", LatentBuffer[torch.Tensor]().allocate, LatentBuffer)

    def text_object(self, layer: int) -> EncodeOnce[torch.Tensor]:
        return self._object(f"text/{layer}", EncodeOnce[torch.Tensor]().allocate, EncodeOnce)


def good_step(state: Any, step: int) -> None:
    """A forward in which every value is as it is declared, at a small size."""
    state.count += 1
    state.latent = torch.zeros(1, 4, H // 8, W // 8)
    state.pending = torch.zeros(step % 3 + 1, H, W)
    state.cache = [torch.zeros(H, W), torch.zeros(H, W)]
    state.ring_object.append(torch.zeros(H, W))
    state.history_object.append(torch.zeros(H // 8, W // 8))
    for layer in range(2 if step == 0 else 0):
        state.text_object(layer).append(torch.zeros(1, 6, 8))


def measured(
    forward: Callable[[Any, int], None] = good_step, steps: int = 12, manager: Any = None
) -> measure.Measurement:
    """What is measured of so many steps of one session, each a `step()`."""
    manager = manager or SessionStateManager()
    with measure.record(manager) as record:
        state = Toy("robot", manager)
        for step in range(steps):
            with state.step():
                forward(state, step)
    return record


def rules(findings: list[Finding]) -> set[tuple[str, str]]:
    """Rule and value of each finding."""
    return {(one.rule, one.value) for one in findings}


def line_of(text: str) -> int:
    """The line of the schema that begins with `text`, from 1."""
    lines = SCHEMA.splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))
