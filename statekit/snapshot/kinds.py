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
from statekit.errors import StatekitError
from statekit.expressions import Expression
from statekit.objects.encode_once import EncodeOnce
from statekit.objects.fixed_state import FixedState
from statekit.objects.held_value import HeldValue
from statekit.objects.latent_buffer import LatentBuffer
from statekit.objects.parkable import ParkableObject
from statekit.on_commit import KEEP_AS_IS, OnCommit
from statekit.spec import ValueSpec

__all__ = ["KINDS", "BadFormError", "as_plain", "from_plain", "settings_from"]

KINDS: Mapping[str, type[ParkableObject[Any, Any]]] = {
    kind.__name__: kind for kind in (EncodeOnce, FixedState, HeldValue, LatentBuffer)
}


class BadFormError(Exception):
    """The saved form of an object is none; the caller knows the file and the key."""


def as_plain(kind: str, memo: tuple[dict[str, Any], Any]) -> dict[str, Any] | None:
    """An object as `capture` saw it, as a tree of plain values; None if it was not allocated."""
    fields, picture = memo
    if not fields.get("_allocated"):
        return None
    held, staged = fields["_held"], fields["_staged"]
    if isinstance(picture, Picture):
        held = picture.copy()
    elif kind == "LatentBuffer":
        held = held[:picture]
    elif picture is not None:
        held = picture
    on_commit: OnCommit = fields["_on_commit"]
    settings: dict[str, Any] = {
        "on_commit": attrs.asdict(on_commit),
        "update": fields.get("_update", "replaced"),
    }
    if kind == "LatentBuffer":
        settings.update(maxlen=fields["_maxlen"], axis=fields["_axis"])
        held, staged = list(held), list(staged)
    return {"kind": kind, "settings": settings, "held": held, "staged": staged}


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
    if value.ring is not None:
        bound = value.ring.bound
        settings["maxlen"] = None if bound is None else Expression.parse(bound).evaluate(numbers)
        settings["axis"] = value.ring.axis
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
    settings = {**settings, **(today or {})}
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
}
