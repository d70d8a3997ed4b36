"""The page on changes of a schema: what each kind of change breaks, found out as it is written.

Owns the kinds of change, as edits of the language page's example, and the words around them. The
verdicts are those of `statekit breaking` on the edited example.
"""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator
from functools import cache

import attrs
from rich.console import Console

from statekit_codegen.breaking import Comparison, compare
from statekit_codegen.breaking_text import print_comparisons
from statekit_codegen.load import load_text

__all__ = ["breaking_page"]

_FILE = "schemas/dreamworld.yaml"

_INTRODUCTION = """\
# What a change of a schema breaks

A schema is read by two kinds of readers who are not there when it is changed: code that uses the
generated class, and snapshots that were written before. `statekit breaking --against main` compares
the schemas of today with those of a revision, of another copy of the project, or of a folder, and
tells what either of them suffers from. Run it before a merge, or in CI, where
`--format github` puts each finding beside its line.

A restore applies the same rules to the one snapshot at hand. It knows which values that snapshot
holds, and what the session was built with, so it refuses less: a value that the snapshot lacks may
change in any way but in its default.

`docs/rules.md` lists the rules, `docs/cli.md` the options and the JSON.
"""


@attrs.frozen
class _Kind:
    """A kind of change, and edits of the example that make one."""

    words: str
    edits: tuple[tuple[str, str], ...]


def _kind(words: str, *edits: str) -> _Kind:
    pairs = (edit.replace("⏎", "\n").partition(" => ") for edit in edits)
    return _Kind(words, tuple((old, new) for old, _, new in pairs))


_COUNT = "  frame_count:⏎    bucket: attrs"
_NEW = "{bucket: attrs, type: bool, default: false, device: none}"

_KINDS = (
    _kind("texts, comments, the order of values", "Frames since the last => Frames since a"),
    _kind(
        "`decision`, `measured`, `park`, `rebuild`, `sharding`",
        "tiers: [disk]}⏎    decision: {operations: [accumulate, park], why: Grows => "
        "tiers: [host]}⏎    decision: {operations: [accumulate, park], why: Grows",
    ),
    _kind(
        "`tolerance`, `questions`, `variants`",
        "tolerance: {atol: 0.0000007, => tolerance: {atol: 0.0000008,",
        "large: {H: 704, => large: {H: 720,",
    ),
    _kind("a value is added", f"{_COUNT} =>   muted: {_NEW}⏎{_COUNT}"),
    _kind(
        "a value is added to an atomic group",
        f"{_COUNT} =>   muted: {_NEW}⏎{_COUNT}",
        "  stream: [conv_cache, =>   stream: [muted, conv_cache,",
    ),
    _kind(
        "a value that was there joins an atomic group",
        "  stream: [conv_cache, =>   stream: [frames, conv_cache,",
    ),
    _kind(
        "a value is renamed", "  frame_count: =>   frames_so_far:", "[frame_count => [frames_so_far"
    ),
    _kind("an object gets another `key`", "key: video_latents => key: latents"),
    _kind(
        "a carried value becomes a `HeldValue`",
        "attrs⏎    doc: The encoder's => StateObject⏎    object: HeldValue⏎    doc: The encoder's",
        "list[torch.Tensor | None] | None⏎    default: null => list[torch.Tensor | None]",
    ),
    _kind("a type takes more", "list[torch.Tensor | None] => str | list[torch.Tensor | None]"),
    _kind("a type takes less", "list[torch.Tensor | None] | None => list[torch.Tensor] | None"),
    _kind("another element type of an array", "dtype: uint8 => dtype: int16"),
    _kind("another shape", "shape: [H, W, 3] => shape: [H, W, 4]"),
    _kind("a symbol that sizes name", "H: 352 => H: 480"),
    _kind("another `default`", "default: 0 => default: 1"),
    _kind("another `coerce`", "    coerce: int⏎ => "),
    _kind("another `device`", "cpu⏎    ring: {bound: FRAMES => model⏎    ring: {bound: FRAMES"),
    _kind("another `update`", "update: entries => update: in_place"),
    _kind("a bound is raised", "{bound: FRAMES_PER_CHUNK} => {bound: 8}"),
    _kind("a bound is lowered", "{bound: FRAMES_PER_CHUNK} => {bound: 2}"),
    _kind("another `sink` of a window", "sink: 3} => sink: 2}"),
    _kind(
        "another metric of a store",
        "[4, 4], dtype: float32} => [4, 4], dtype: float32, metric: dot}",
    ),
    _kind(
        "a store keeps its values in another form",
        "    ring: {nbytes =>     codec: {cast: float8_e4m3fn}⏎    ring: {nbytes",
    ),
    _kind(
        "a value lives for a request only",
        "update: entries => lifetime: request⏎    update: entries",
    ),
    _kind("a buffer is handed out in another form", "    view: {concat: 2} =>     view: list"),
    _kind("a member is added to a family", "negative: _neg} => negative: _neg, third: _3}"),
    _kind("a member of a family is gone", 'positive: "", negative: _neg} => positive: ""}'),
    _kind("another number of numbered members", "LAYERS: 30 => LAYERS: 36"),
    _kind("another number of a constant", "{FRAMES_PER_CHUNK: 4} => {FRAMES_PER_CHUNK: 8}"),
    _kind("another default of a parameter", "type: int, default: 2 => type: int, default: 3"),
    _kind("narrower bounds of a parameter", "minimum: 1, => minimum: 2,"),
    _kind("wider bounds of a parameter", "default: 2, minimum: 1, => default: 2,"),
    _kind("a reset is added", "  prompt: {keeps =>   scene: {clears: all}⏎  prompt: {keeps"),
    _kind("a reset clears more or less", "stream: {clears: [ => stream: {clears: [frame_count, "),
    _kind("a reset is renamed", "  stream: {clears =>   camera: {clears"),
    _kind("the class has another name", "class: DreamWorldState => class: DreamWorld"),
    _kind("the model has another name", "model: dreamworld => model: dreamland"),
)

_SHOWN = _kind(
    "",
    "{bound: FRAMES_PER_CHUNK} => {bound: 2}",
    "  stream: {clears =>   camera: {clears",
    "Latent frames of encoder output kept. => Latent frames kept.",
    "minimum: 1, => minimum: 1, maximum: 8,",
)


@cache
def breaking_page(header: str, example: str) -> str:
    """The page, with `header` as its first line and kinds of change of the schema `example`."""
    lines = [header, _INTRODUCTION, "## An example", ""]
    changed = _edited(example, _SHOWN)
    difference = difflib.unified_diff(example.splitlines(), changed.splitlines(), n=0, lineterm="")
    edits = [line for line in list(difference)[2:] if not line.startswith("@@")]
    lines += ["Of these changes of the [language page's](language.md) example,", ""]
    lines += ["```diff", *edits, "```", ""]
    lines += ["`statekit breaking --against main` says:", ""]
    lines += ["```text", *_printed(_compared(example, changed)).splitlines(), "```", ""]
    lines += ["## Kinds of change", "", "| change | code | saved sessions |", "|---|---|---|"]
    for kind in _KINDS:
        found = _compared(example, _edited(example, kind))
        cells = " | ".join(_verdict(found, hurt) for hurt in ("SOURCE", "SNAPSHOT"))
        lines.append(f"| {kind.words} | {cells} |")
    return "\n".join([*lines, ""])


def _edited(example: str, kind: _Kind) -> str:
    text = example
    for old, new in kind.edits:
        if text.count(old) != 1:
            raise ValueError(f"{kind.words!r}: the example has {text.count(old)} times {old!r}")
        text = text.replace(old, new)
    return text


def _compared(before: str, after: str) -> list[Comparison]:
    old, new = load_text(before.encode(), f"main:{_FILE}"), load_text(after.encode(), _FILE)
    return compare({_FILE: old}, [new], all_schemas=True)


def _printed(found: list[Comparison]) -> str:
    stream = io.StringIO()
    print_comparisons(found, "main", Console(file=stream, width=80, highlight=False, emoji=False))
    return stream.getvalue()


def _verdict(found: list[Comparison], hurt: str) -> str:
    rules = dict.fromkeys(_broken(found, hurt))
    return f"breaks: {', '.join(f'`{rule}`' for rule in rules)}" if rules else "goes on"


def _broken(found: list[Comparison], hurt: str) -> Iterator[str]:
    for comparison in found:
        for located in comparison.breaking:
            if located.change.hurt == hurt:
                yield located.change.rule
