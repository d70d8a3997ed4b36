"""A toy model for tests of the manager: a value of every kind, small, with known bits.

Owns the specs and how a value is made from a seed; knows nothing of managers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import torch

from statekit.objects import EncodeOnce, FixedState, HeldValue, LatentBuffer
from statekit.session import SessionState
from statekit.spec import ModelSpec, Park, Rebuild, Ring, Size, ValueSpec

__all__ = ["DECLARED", "KEPT", "LOSABLE", "REBUILT", "VALUES", "peek", "read", "same", "write"]

DISK = Park(tiers=("disk",))


def _value(name: str, kind: Any, elements: str, **more: Any) -> ValueSpec:
    return ValueSpec(
        name=name,
        bucket="attrs" if kind is None else "StateObject",
        type="torch.Tensor",
        device="cpu",
        object=kind,
        dtype="uint8",
        size=Size(elements=elements),
        **more,
    )


KEPT = ModelSpec(
    model="toy",
    inputs={"prompt": True},
    values=(
        _value("cache", "HeldValue", "8192", park=DISK, operations=("park",)),
        _value("state", "HeldValue", "2048", park=DISK, operations=("park",)),
        _value("frames", "LatentBuffer", "1024", park=DISK, ring=Ring(bound="2")),
        _value("kv", "EncodeOnce", "4096", rebuild=Rebuild(("prompt",)), operations=("release",)),
        _value(
            "freqs", "EncodeOnce", "1024", rebuild=Rebuild(("prompt",)), operations=("release",)
        ),
        _value("hint", "EncodeOnce", "1024", rebuild=Rebuild(("note",)), operations=("release",)),
        _value("note", None, "512"),
    ),
    atomic={"branch": ("kv", "freqs")},
    resets={"session": ("cache", "state", "frames", "kv", "freqs", "hint", "note")},
)
"""A session of it may not be lost."""

LOSABLE = attrs.evolve(KEPT, model="losable", may_be_lost=True)

DECLARED = 8192 + 2048 + 2 * 1024 + 4096 + 1024 + 1024 + 512
VALUES: Mapping[str, int] = {
    "cache": 8192,
    "state": 2048,
    "frames": 1024,
    "kv": 4096,
    "freqs": 1024,
    "hint": 1024,
    "note": 512,
}
REBUILT = ("kv", "freqs", "hint")


def bits(seed: int, nbytes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (nbytes,), dtype=torch.uint8, generator=generator)


def write(session: SessionState, name: str, seed: int, nbytes: int | None = None) -> Any:
    """Give `name` a value that `seed` says; returns a copy of what a reader gets from now on."""
    size = VALUES[name] if nbytes is None else nbytes
    value: Any = bits(seed, size)
    if name == "note":
        session.attrs[name] = value
    elif name == "cache":  # two views of one storage, transposed, and a place without a tensor
        value = [value[: size // 2].view(2, -1).t(), None, value[size // 4 :]]
        session.get_or_create(name, lambda: HeldValue().allocate(), HeldValue).append(value)
    elif name == "state":
        state = session.get_or_create(name, lambda: FixedState().allocate(), FixedState)
        held = state.view()
        if held is not None and held.shape != value.shape:
            state.allocate()
        state.append(value)
    elif name == "frames":
        ring = session.get_or_create(name, lambda: LatentBuffer().allocate(maxlen=2), LatentBuffer)
        ring.append(value)
        return [one.clone() for one in ring.view()]
    else:
        session.put(name, EncodeOnce().allocate())
        session.get(name).append(value)
    return copied(value)


def copied(value: Any) -> Any:
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value if value is None else value.clone()


def read(session: SessionState, name: str) -> Any:
    """What a reader gets; None where there is nothing, or it was released."""
    if name == "note":
        return session.attrs.get(name)
    obj = session.get(name)
    return None if obj is None or not obj.resident else obj.view()


def peek(session: SessionState, name: str) -> Any:
    """The same without bringing anything back: None for what is parked."""
    obj = session.get(name)
    if name == "note" or obj is None or not obj.resident:
        return session.attrs.get(name)
    held: Any = obj.committed()
    return held[""] if name == "state" and held is not None else held


def same(got: Any, want: Any) -> bool:
    """Bit for bit, with the structure."""
    if isinstance(want, list):
        return (
            isinstance(got, list)
            and len(got) == len(want)
            and all(same(one, other) for one, other in zip(got, want, strict=True))
        )
    if want is None or got is None:
        return got is want
    return got.shape == want.shape and got.dtype == want.dtype and torch.equal(got, want)
