"""Changes of one schema, each with all that `statekit breaking` must say of it.

The changes are paragraphs of `breaking_cases.txt`: edits of BASE in a line (` ;; ` between them,
`⏎` for a line end), and below it everything that is found, with `!` where it breaks something.
"""

from __future__ import annotations

from pathlib import Path

import attrs

BASE = """\
statekit: 1
model: toy
class: ToyState
doc: A toy.
symbols: {H: 16, LAYERS: 4, SPARE: 1}
constants: {RING: 4}
parameters:
  window: {type: int, default: 2, minimum: 1, maximum: 8, doc: Frames.}
families:
  branch: {doc: Branches., members: {cond: "", uncond: _neg}}
  layer: {doc: Layers., count: LAYERS}
inputs:
  prompt: {doc: The text., kept: true}
values:
  count: {bucket: attrs, type: int, default: 0, coerce: int, device: none}
  noise: {bucket: attrs, type: torch.Tensor | None, dtype: float32, shape: [H, 4], device: model}
  seen: {bucket: attrs, type: bool, default: true, device: none, family: [branch], key: "s{branch}"}
  frames:
    bucket: StateObject
    object: LatentBuffer
    item: np.ndarray
    dtype: uint8
    shape: [H, 3]
    device: cpu
    ring: {bound: RING}
  latents:
    bucket: StateObject
    object: LatentBuffer
    item: torch.Tensor
    dtype: bfloat16
    shape: [1, 2, H]
    device: model
    ring: {bound: window, axis: 1}
    view: {concat: 1}
  cache:
    bucket: StateObject
    object: HeldValue
    type: list[torch.Tensor]
    dtype: float32
    elements: {first: 4 * H, then: 8 * H}
    device: model
    update: entries
  kv:
    bucket: StateObject
    object: EncodeOnce
    key: kv{branch}/{layer}
    family: [branch, layer]
    type: torch.Tensor
    device: model
  text:
    bucket: StateObject
    object: EncodeOnce
    key: text{branch}
    family: [branch]
    type: torch.Tensor
    device: model
  window_kv:
    bucket: StateObject
    object: WindowedKV
    item: tuple[torch.Tensor, torch.Tensor]
    device: model
    ring: {bound: 8, axis: 2, sink: 2}
  gates:
    bucket: StateObject
    object: FixedState
    type: torch.Tensor
    device: cuda
  pool:
    bucket: StateObject
    object: RetrievalStore
    item: list[torch.Tensor]
    index: {shape: [H], dtype: float32}
    device: cpu
    ring: {nbytes: 1024}
atomic:
  stream: [cache, latents]
resets:
  session: {clears: all}
  part: {clears: [count, noise]}
"""


@attrs.frozen
class Case:
    """Edits of BASE, and what is found: `RULE SUBJECT`, with ` !` where it breaks something."""

    edits: tuple[tuple[str, str], ...]
    found: tuple[str, ...]

    @property
    def id(self) -> str:
        """What a test run calls the case."""
        return ", ".join(f"{old.strip()} => {new.strip()}" for old, new in self.edits)[:70]

    @property
    def after(self) -> str:
        """The schema of today; that of the other side is BASE."""
        text = BASE
        for old, new in self.edits:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return text


def _case(block: str) -> Case:
    edits, *found = block.split("\n")
    pairs = (edit.partition(" => ") for edit in edits.replace("⏎", "\n").split(" ;; "))
    return Case(tuple((old, new) for old, _, new in pairs), tuple(one.strip() for one in found))


_BLOCKS = Path(__file__).with_suffix(".txt").read_text("utf-8").strip("\n").split("\n\n")

CASES = [_case(block) for block in _BLOCKS if not block.startswith("#")]
