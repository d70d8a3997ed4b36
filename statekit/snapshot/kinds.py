"""The kinds of objects that a snapshot can hold, as plain data and back.

Owns the closed set of kinds, and what of each is kept: its settings, what it holds, what is staged.
What a schema says today about settings (a ring's bound) goes before what was saved.

    J1  `as_plain` reads a memo, never the object, which may have gone on since.
    J2  `from_plain` trusts nothing: what does not fit its kind is a BadFormError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
import torch

from statekit.capture.picture import Picture
from statekit.errors import PayloadError, StatekitError
from statekit.expressions import Expression
from statekit.image.plain import decode_dtype, encode_dtype
from statekit.objects.codec import Cast
from statekit.objects.encode_once import EncodeOnce
from statekit.objects.fixed_state import FixedState
from statekit.objects.held_value import HeldValue
from statekit.objects.latent_buffer import LatentBuffer
from statekit.objects.parkable import ParkableObject
from statekit.objects.retrieval_store import RetrievalStore
from statekit.objects.windowed_kv import WindowedKV
from statekit.on_commit import KEEP_AS_IS, OnCommit
from statekit.spec import ValueSpec

__all__ = ["KINDS", "BadFormError", "as_plain", "from_plain", "settings_from"]

KINDS: Mapping[str, type[ParkableObject[Any, Any]]] = {
    kind.__name__: kind
    for kind in (EncodeOnce, FixedState, HeldValue, LatentBuffer, RetrievalStore, WindowedKV)
}


class BadFormError(Exception):
    """The saved form of an object is none; the caller knows the file and the key."""


def as_plain(kind: str, memo: tuple[dict[str, Any], Any]) -> dict[str, Any] | None:
    """An object as `capture` saw it, as a tree of plain values; None if it was not allocated.

    Raises:
        PayloadError: a setting of it is no plain data.
    """
    fields, picture = memo
    if not fields.get("_allocated"):
        return None
    held, staged = fields["_held"], fields["_staged"]
    if isinstance(picture, Picture):
        held = picture.copy()
    elif kind in ("LatentBuffer", "RetrievalStore"):
        held = held[:picture]
    elif picture is not None:
        held = picture
    on_commit: OnCommit = fields["_on_commit"]
    settings: dict[str, Any] = {
        "on_commit": attrs.asdict(on_commit),
        "update": fields.get("_update", "replaced"),
        **{name: fields[f"_{field}"] for name, field in _SETTINGS.get(kind, {}).items()},
    }
    if kind == "LatentBuffer":
        held, staged = list(held), list(staged)
    elif kind == "WindowedKV":
        held = {"blocks": list(held), "global_end": fields["_global_end"]}
    elif kind == "RetrievalStore":
        settings["codec"] = _plain_codec(settings["codec"])
        entries, staged = ([entry[:2] for entry in one] for one in (held, staged))
        held = {"first": fields["_first"], "entries": entries}
    return {"kind": kind, "settings": settings, "held": held, "staged": staged}


_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "LatentBuffer": {"maxlen": "maxlen", "axis": "axis"},
    "WindowedKV": {"bound": "bound", "axis": "axis", "sink": "sink"},
    "RetrievalStore": {
        "bound": "bound",
        "nbytes": "limit_nbytes",
        "metric": "metric",
        "codec": "codec",
    },
}
"""What `allocate` takes beyond what all kinds do, and the field that it is in."""


def _plain_codec(codec: Any) -> dict[str, str] | None:
    if codec is None:
        return None
    if type(codec) is not Cast:
        found = f"its codec is a {type(codec).__name__}, of which a snapshot knows nothing"
        raise PayloadError("RetrievalStore", found, "use Cast, or pass its name in without=")
    return {"cast": encode_dtype(codec.dtype)}


def settings_from(value: ValueSpec, numbers: Mapping[str, int]) -> dict[str, Any]:
    """The settings that a schema gives the objects of `value` today.

    Raises:
        ExpressionError: its bound has no value under these numbers.
    """
    steps = value.on_commit
    settings: dict[str, Any] = {
        "on_commit": {
            "detach": "detach" in steps,
            "device": value.device if "move" in steps else None,
            "compact": "compact" in steps,
        },
        "update": value.update,
    }

    def number(text: str | None) -> int | None:
        return None if text is None else Expression.parse(text).evaluate(numbers)

    ring = value.ring
    if value.object == "RetrievalStore":
        settings["codec"] = None if value.codec is None else {"cast": value.codec.cast}
        if value.index is not None:
            settings["metric"] = value.index.metric
        if ring is not None:
            settings.update(bound=number(ring.bound), nbytes=number(ring.nbytes))
    elif value.object == "WindowedKV":
        if ring is not None:
            settings.update(bound=number(ring.bound), axis=ring.axis, sink=number(ring.sink) or 0)
    elif ring is not None:
        settings.update(maxlen=number(ring.bound), axis=ring.axis)
    return settings


def from_plain(form: Any, today: Mapping[str, Any] | None = None) -> ParkableObject[Any, Any]:
    """The object of a saved form.

    Args:
        today: settings that go before the saved ones.

    Raises:
        BadFormError: it is no form of one of the kinds.
    """
    if not isinstance(form, dict) or form.keys() != {"kind", "settings", "held", "staged"}:
        raise BadFormError("it is no saved object")
    kind, settings = form["kind"], form["settings"]
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(settings, dict):
        raise BadFormError(f"{kind!r} is no kind of object that a snapshot holds")
    today = today or {}
    if "codec" in today and today["codec"] != settings.get("codec"):
        raise BadFormError("its values are in the form of another codec")
    settings = {**settings, **today}
    obj: ParkableObject[Any, Any]
    try:
        on_commit = OnCommit(**settings.pop("on_commit"))
        update = settings.pop("update")
        if update not in ("replaced", "entries", "in_place"):
            raise BadFormError(f"its update is {update!r}")
        obj = _BUILDERS[kind](form["held"], form["staged"], update, settings)
    except (StatekitError, TypeError, ValueError, KeyError, RuntimeError) as error:
        raise BadFormError(f"its form is not that of a {kind} ({error})") from None
    # Set last: what was saved has been through these steps when it was stored.
    vars(obj)["_on_commit"] = _checked(on_commit)
    return obj


def _latent_buffer(held: Any, staged: Any, update: Any, settings: dict[str, Any]) -> Any:
    if not isinstance(held, list) or not isinstance(staged, list):
        raise BadFormError("its items are no list")
    buffer: LatentBuffer[Any] = LatentBuffer()
    buffer.allocate(**settings, update=update)
    buffer.replace(held)
    for item in staged:
        buffer.stage(item)
    return buffer


def _one_payload(
    kind: type[HeldValue[Any]], held: Any, staged: Any, update: Any, settings: dict[str, Any]
) -> Any:
    obj = kind().allocate(**settings, update=update)
    if held is not None:
        obj.append(held)
    if staged is not None:
        obj.stage(staged)
    return obj


def _fixed_state(held: Any, staged: Any, update: Any, settings: dict[str, Any]) -> Any:
    for parts in (held, staged):
        if parts is not None and not (isinstance(parts, dict) and _are_parts(parts)):
            raise BadFormError("its buffers are no dense tensors by name")
    state: FixedState[Any] = FixedState()
    if held is None:
        state.allocate(**settings)
    else:
        state.allocate_like(_payload(held), zero=False, **settings)
        state.append(_payload(held))
    if staged is not None:
        state.stage(_payload(staged))
    return state


def _windowed_kv(held: Any, staged: Any, update: Any, settings: dict[str, Any]) -> Any:
    blocks, global_end = held["blocks"], held["global_end"]
    if not isinstance(blocks, list) or not _is_count(global_end):
        raise BadFormError("its blocks are no list")
    window: WindowedKV[Any] = WindowedKV()
    window.allocate(**settings)
    window.restore(blocks, global_end)
    if staged is not None:
        window.stage(staged)
    return window


def _retrieval_store(held: Any, staged: Any, update: Any, settings: dict[str, Any]) -> Any:
    first, entries, codec = held["first"], held["entries"], settings["codec"]
    if not (_is_count(first) and isinstance(entries, list) and isinstance(staged, list)):
        raise BadFormError("its entries are no list")
    codec = None if codec is None else Cast(decode_dtype(codec["cast"]))
    for _, kept in (*entries, *staged):
        if kept is None or not (codec is None or codec.made(kept)):
            raise BadFormError("a value of it is not in the form of its codec")
    store: RetrievalStore[Any] = RetrievalStore()
    store.allocate(**{**settings, "codec": codec})
    store.restore(first, entries, staged)
    return store


def _is_count(number: Any) -> bool:
    return type(number) is int and number >= 0


def _payload(parts: dict[str, torch.Tensor]) -> Any:
    return parts.get("", parts)


def _are_parts(parts: dict[Any, Any]) -> bool:
    whole = all(isinstance(part, torch.Tensor) for part in parts.values())
    return whole and all(isinstance(name, str) for name in parts)


def _checked(on_commit: OnCommit) -> OnCommit:
    device = on_commit.device
    plain = type(on_commit.detach) is bool and type(on_commit.compact) is bool
    if not plain or not (device is None or isinstance(device, str)):
        raise BadFormError("what it does on commit is no such")
    return KEEP_AS_IS if on_commit == KEEP_AS_IS else on_commit


_BUILDERS: Mapping[str, Callable[..., Any]] = {
    "EncodeOnce": partial(_one_payload, EncodeOnce),
    "FixedState": _fixed_state,
    "HeldValue": partial(_one_payload, HeldValue),
    "LatentBuffer": _latent_buffer,
    "RetrievalStore": _retrieval_store,
    "WindowedKV": _windowed_kv,
}
