"""The schemas of this project, and small invented ones, for tests of plans."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from statekit.spec import ModelSpec
from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.plan.question import Question

ROOT = Path(__file__).parents[3]
MIB = 2**20
GIB = 2**30

TOY = """\
statekit: 1
model: toy
class: ToyState
doc: A toy.
symbols: {N: 10}
parameters: {window: {type: int, default: 4, minimum: 1, doc: Frames kept.}}
inputs: {prompt: {kept: true, doc: The prompt.}}
values:
  steps: {bucket: attrs, type: int, default: 0, device: none, doc: Steps.,
          decision: {operations: [], why: A counter.}}
  cache:
    bucket: StateObject
    doc: A cache.
    object: HeldValue
    type: torch.Tensor
    dtype: uint8
    elements: {first: 4 * N, then: 8 * N}
    device: model
    pending: {elements: N, why: the next one}
    park: {tiers: [host, disk]}
    decision: {operations: [park], why: Large.}
  ring:
    bucket: StateObject
    doc: Newest frames.
    object: LatentBuffer
    item: torch.Tensor
    dtype: uint8
    shape: [N]
    device: model
    ring: {bound: window}
    decision: {operations: [accumulate], why: A ring.}
  three:
    bucket: StateObject
    doc: Three frames.
    object: LatentBuffer
    item: torch.Tensor
    dtype: uint8
    shape: [2]
    device: cpu
    ring: {bound: 3}
    decision: {operations: [accumulate], why: A ring.}
  text:
    bucket: StateObject
    doc: Text.
    object: EncodeOnce
    type: torch.Tensor
    dtype: uint8
    elements: 5 * N
    device: model
    rebuild: {from: [prompt], cost: a pass}
    decision: {operations: [stage, release], why: Reread.}
  history:
    bucket: StateObject
    doc: Everything.
    object: LatentBuffer
    item: torch.Tensor
    dtype: uint8
    shape: [N]
    device: cpu
    ring: {unbounded: kept, growth: {items: 2, every_steps: 3}}
    park: {tiers: [disk]}
    decision: {operations: [accumulate, park], why: Grows.}
resets:
  session: {clears: all, doc: All.}
"""
"""The device has 80 + 10 pending, 40, 50; the host 6, and 10 that grow by 20 every 3 steps."""


@cache
def model(name: str) -> Model:
    """A schema of this project."""
    return load_text((ROOT / "schemas" / f"{name}.yaml").read_bytes(), f"schemas/{name}.yaml")


def toy(text: str = TOY) -> Model:
    """The invented schema, or a variant of it."""
    return load_text(text.encode(), "schemas/toy.yaml")


def spec(name: str) -> ModelSpec:
    """The spec of a schema of this project."""
    return model(name).spec


def asked(**given: object) -> Question:
    """A question with these words, in bytes and without ranks."""
    return Question(**given)  # type: ignore[arg-type]
