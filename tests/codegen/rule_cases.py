"""A good and a bad case for each rule that refuses a schema, as edits of one good schema.

The edits are lines of `rule_cases.txt`.
"""

from __future__ import annotations

from pathlib import Path

import attrs

BASE = """\
statekit: 1
model: toy
class: ToyState
doc: A toy.
outside: {engine_kv: in the engine}
symbols: {H: 16, W: 32}
constants: {RING: 4}
parameters:
  window: {type: int, default: 2, minimum: 1, maximum: 8, doc: Frames.}
families:
  branch: {doc: Branches., members: {cond: "", uncond: _neg}}
  layer: {doc: Layers., count: 4}
inputs:
  prompt: {doc: The text., kept: true}
values:
  tick: {bucket: attrs, type: int, default: 0, coerce: int, device: none}
  noise: {bucket: attrs, type: torch.Tensor | None, dtype: float32, shape: [H, W], device: cuda}
  frames:
    bucket: StateObject
    object: LatentBuffer
    item: np.ndarray
    dtype: uint8
    shape: [H / 8, W]
    device: cpu
    ring: {bound: RING, axis: 0}
    view: {concat: 1}
    measured: [{nbytes: 64, hardware: a desk, date: "2026-11-29"}]
  kv:
    bucket: StateObject
    object: EncodeOnce
    type: torch.Tensor
    key: kv{branch}/{layer}
    family: [branch, layer]
    device: cuda
    sharding: {over: tp}
atomic:
  pair: [tick, noise]
resets:
  session: {clears: all}
  part: {clears: [tick]}
"""


@attrs.frozen
class Case:
    """`old` of BASE replaced: by `good` nothing is wrong, by `bad` the rule finds one problem."""

    rule: str
    place: str
    old: str
    good: str
    bad: str

    @property
    def id(self) -> str:
        """What a test run calls the case."""
        return f"{self.rule}-{self.bad}"


def _case(line: str) -> Case:
    head, _, edit = line.partition("  ")
    rule, place = head.split()
    left, bad = edit.replace("⏎", "\n").split(" !! ")
    old, _, good = left.partition(" => ")
    assert old in BASE, line
    return Case(rule, place, old, good or old, bad)


_LINES = Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()

CASES = [_case(line) for line in _LINES if line and not line.startswith("#")]
