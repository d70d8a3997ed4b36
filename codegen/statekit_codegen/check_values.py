"""Values: the fields that each kind of value has, and the types that fit them.

Owns which fields belong to which holder (`attrs` or a kind of object), and whether type,
default, coercion, dtype and device agree. Not here: keys (`check_keys`), numbers (`check_sizes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import get_args

import attrs

from statekit.declared import DTYPE_NBYTES
from statekit.spec import ObjectKind
from statekit_codegen.fault import Fault, closest, within
from statekit_codegen.language import Value
from statekit_codegen.model import Loaded, Path
from statekit_codegen.scalars import shown
from statekit_codegen.type_grammar import TypeExpr, TypeExprError

__all__ = [
    "DEVICE",
    "DEVICES",
    "HELD_TYPES",
    "HOLDERS",
    "KINDS",
    "NEEDED",
    "NOT_IN_NUMPY",
    "value_faults",
]

KINDS: tuple[str, ...] = get_args(ObjectKind)
"""The kinds of StateObject."""
HOLDERS: Mapping[str, tuple[str, ...]] = {
    # field to the holders that have it; fields that are not here belong to all
    "object": KINDS,
    "type": ("attrs", "EncodeOnce", "HeldValue", "FixedState"),
    "default": ("attrs",),
    "coerce": ("attrs",),
    "item": ("LatentBuffer", "WindowedKV", "RetrievalStore"),
    "ring": ("LatentBuffer", "WindowedKV", "RetrievalStore"),
    "view": ("LatentBuffer",),
    "update": ("attrs", "LatentBuffer", "EncodeOnce", "HeldValue"),
    "index": ("RetrievalStore",),
    "codec": ("RetrievalStore",),
}
NEEDED: Mapping[str, tuple[str, ...]] = {
    "attrs": ("type",),
    "LatentBuffer": ("item", "ring"),
    "EncodeOnce": ("type",),
    "HeldValue": ("type",),
    "FixedState": ("type",),
    "WindowedKV": ("item", "ring"),
    "RetrievalStore": ("item", "ring", "index"),
}
HELD_TYPES: Mapping[str, tuple[str, ...]] = {  # the only types that a kind of object takes
    "FixedState": ("torch.Tensor", "dict[str, torch.Tensor]"),
    "WindowedKV": ("torch.Tensor", "tuple[torch.Tensor, torch.Tensor]"),
}
_TORCH_DEVICES = ("cuda", "hpu", "mps", "mtia", "npu", "xla", "xpu")
_DEVICE_WORDS = ("cpu", "model", "none", *_TORCH_DEVICES)
DEVICE = re.compile(rf"cpu|model|none|({'|'.join(_TORCH_DEVICES)})(:(0|[1-9][0-9]{{0,2}}))?")
_INSTEAD = {"cpu:0": "cpu", "gpu": "cuda", "host": "cpu", "null": "none"}
DEVICES = "cpu, model, none, or a torch device such as cuda:0"
NOT_IN_NUMPY = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
_EXAMPLES = {"int": "0", "float": "0.0", "bool": "false", "str": '""', "list": "[]", "dict": "{}"}


def value_faults(loaded: Loaded) -> Iterator[Fault]:
    """What is wrong with the fields of each value."""
    for name, value in loaded.schema.values.items():
        path: Path = ("values", name)
        holder = value.object if value.bucket == "StateObject" else value.bucket
        if holder is None:
            todo = f"add object: {', '.join(KINDS[:-1])} or {KINDS[-1]}"
            yield Fault(path, "FIELD_NEEDED", "a StateObject of no kind", todo)
        else:
            yield from _fields(loaded, path, value, holder)
        if value.shape is not None and value.elements is not None:
            yield Fault(path, "CHOICE_ONE", "shape and elements", "say one of the two")
        yield from _types(path, value, holder)
        if value.dtype is not None and value.dtype not in DTYPE_NBYTES:
            todo = f"{closest(value.dtype, DTYPE_NBYTES)}use one of {', '.join(DTYPE_NBYTES)}"
            found = f"unknown dtype {shown(value.dtype)}"
            yield Fault((*path, "dtype"), "DTYPE_KNOWN", found, todo)
        yield from _device(path, value)


def _fields(loaded: Loaded, path: Path, value: Value, holder: str) -> Iterator[Fault]:
    written = [field for field in HOLDERS if (*path, field) in loaded.positions.places]
    for field in written:
        if holder not in HOLDERS[field]:
            found = f"{field} on {_article(holder)}"
            todo = f"remove it: only {' and '.join(HOLDERS[field])} values have it"
            yield Fault((*path, field), "FIELD_FIT", found, todo)
    for field in NEEDED[holder]:
        if getattr(value, field) is None:
            what = attrs.fields_dict(Value)[field].metadata["help"]
            yield Fault(
                path, "FIELD_NEEDED", f"{_article(holder)} without {field}", f"add it: {what}"
            )
    if value.key is not None and holder == "attrs" and not value.family:
        todo = "remove it: the name of an attrs value is its key"
        yield Fault((*path, "key"), "FIELD_FIT", "key on an attrs value", todo)


def _types(path: Path, value: Value, holder: str | None) -> Iterator[Fault]:
    """Looks at the one type that the value has, and at all that must agree with it."""
    field = "type" if value.item is None else "item"
    text = getattr(value, field)
    if text is None:
        return
    try:
        parsed = TypeExpr.parse(text)
    except TypeExprError as error:
        yield Fault((*path, field), "TYPE_GRAMMAR", within(text, error.found), error.todo)
        return
    if holder == "attrs":
        yield from _default(path, value, parsed)
        if value.coerce is not None and parsed.text != value.coerce:
            found = f"coerce: {value.coerce} for the type {parsed.text}"
            todo = f"use type: {value.coerce}, or do not coerce"
            yield Fault((*path, "coerce"), "COERCE_FIT", found, todo)
    elif parsed.optional:
        found = f"{shown(text)} in {_article(holder or 'StateObject')}"
        yield Fault(
            (*path, field), "TYPE_FIT", found, "leave None out: it means that there is none"
        )
    elif holder is not None and parsed.text not in HELD_TYPES.get(holder, (parsed.text,)):
        todo = f"use {' or '.join(HELD_TYPES[holder])}"
        yield Fault((*path, field), "TYPE_FIT", f"{shown(text)} in {_article(holder)}", todo)
    if not parsed.holds_memory:
        for size in ("dtype", "shape", "elements"):
            if getattr(value, size) is not None:
                found = f"{size} for {parsed.text}, which holds no tensor, array or bytes"
                yield Fault((*path, size), "FIELD_FIT", found, "remove it, or mend the type")
    in_frames = value.ring is not None and value.ring.axis is not None
    if in_frames and holder == "LatentBuffer" and not _joins(parsed):
        found = f"frames along an axis of {parsed.text}"
        todo = "count in items, or use torch.Tensor or np.ndarray items"
        yield Fault((*path, "ring", "axis"), "TYPE_FIT", found, todo)
    if not isinstance(value.view, str) and not _joins(parsed):
        todo = "use view: list, or torch.Tensor or np.ndarray items"
        yield Fault(
            (*path, "view"), "TYPE_FIT", f"items of type {parsed.text} can't be joined", todo
        )
    if parsed.mentions("np.ndarray") and value.dtype in NOT_IN_NUMPY:
        todo = "use torch.Tensor, or a dtype that numpy has"
        yield Fault((*path, "dtype"), "DTYPE_KNOWN", f"{value.dtype} in a numpy array", todo)


def _joins(parsed: TypeExpr) -> bool:
    """Whether items have axes; None among them is another fault."""
    heads = {alternative.head for alternative in parsed.alternatives} - {"None"}
    return heads in ({"torch.Tensor"}, {"np.ndarray"})


def _default(path: Path, value: Value, parsed: TypeExpr) -> Iterator[Fault]:
    if parsed.accepts(value.default):
        return
    head = parsed.alternatives[0].head
    example = _EXAMPLES.get(head)
    todo = f"use {example}" if example else f"use type: {parsed.text} | None, and default: null"
    default = value.default
    if default is None:
        found = f"no default for the type {parsed.text}"
        todo = f"add default: {example}" if example else f"use type: {parsed.text} | None"
    elif isinstance(default, (list, dict)) and default:
        found, todo = "a default that is not empty", f"{todo}, and let the model fill it"
    else:
        word = (
            {True: "true", False: "false"}[default] if isinstance(default, bool) else shown(default)
        )
        found = f"{word} is no {parsed.text}"
    yield Fault((*path, "default"), "DEFAULT_FIT", found, todo)


def _device(path: Path, value: Value) -> Iterator[Fault]:
    device = value.device
    if DEVICE.fullmatch(device):
        return
    instead = _INSTEAD.get(device.lower())
    todo = f"write {instead}" if instead else f"{closest(device, _DEVICE_WORDS)}use {DEVICES}"
    yield Fault((*path, "device"), "DEVICE_KNOWN", f"unknown device {shown(device)}", todo)


def _article(holder: str) -> str:
    return {"attrs": "an attrs value", "EncodeOnce": "an EncodeOnce"}.get(holder, f"a {holder}")
