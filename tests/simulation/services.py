"""Small services for tests of the simulation: toy models of known bytes, and deployments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from statekit.simulation.run import Deployment
from statekit.simulation.workload import Workload
from statekit.spec import ModelSpec, Park, Rebuild, Size, ValueSpec

__all__ = ["DEVICE", "GROWING", "HEAVY", "LIGHT", "deployment", "workload"]

DEVICE = "cuda:0"


def value(name: str, nbytes: int, **more: Any) -> ValueSpec:
    """A value of so many bytes on the accelerator."""
    return ValueSpec(
        name=name,
        bucket="StateObject" if "object" in more else "attrs",
        type="torch.Tensor",
        device=more.pop("device", "model"),
        dtype="uint8",
        size=Size(elements=str(nbytes), first=more.pop("first", None)),
        **more,
    )


def parkable(name: str, nbytes: int, **more: Any) -> ValueSpec:
    """A value that may be parked, in host memory first."""
    park = Park(tiers=("host", "disk"))
    return value(name, nbytes, object="HeldValue", park=park, operations=("park",), **more)


HEAVY = ModelSpec(
    model="heavy",
    inputs={"prompt": True},
    values=(
        parkable("cache", 700_000_000),
        value(
            "kv",
            200_000_000,
            object="EncodeOnce",
            rebuild=Rebuild(("prompt",), cost_ms=5.0),
            operations=("release",),
        ),
        value("note", 100_000_000),
    ),
)
LIGHT = ModelSpec(model="light", values=(parkable("cache", 90_000_000), value("note", 10_000_000)))
GROWING = attrs.evolve(
    LIGHT, model="growing", values=(*LIGHT.values, value("tail", 8_000_000, first="1000000"))
)


def deployment(replicas: int = 4, **more: Any) -> Deployment:
    """So many replicas with room for ten heavy sessions each."""
    budgets: Mapping[str, int] = {
        DEVICE: 10_000_000_000,
        "cpu": 20_000_000_000,
        "disk": 50_000_000_000,
        **more.pop("budgets", {}),
    }
    return Deployment(replicas, budgets, DEVICE, **more)


def workload(sessions: int, parts: tuple[int, ...], **more: Any) -> Workload:
    """Sessions of so many of each model; short ones, so that a test is."""
    return Workload(sessions, parts, more.pop("between_us", 1.0), steps=6.0, **more)
