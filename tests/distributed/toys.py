"""A toy model that is spread over ranks: parts, copies, and a value that one rank alone holds.

Owns its spec and which bytes each rank has of it; the values themselves are `tests.pressure.toys`.
"""

from __future__ import annotations

from typing import Any

import attrs

from statekit.session import SessionState
from statekit.spec import ModelSpec, Sharding
from tests.pressure.toys import KEPT, VALUES, read, same, write

__all__ = ["COPIED", "LOSABLE", "SPREAD", "fill", "has", "nbytes_on", "wrong"]

ON_LAST = "frames"
"""Held by one rank alone."""


def _spread(model: ModelSpec) -> ModelSpec:
    lies = {"cache": Sharding(over="tp", dim=0), ON_LAST: Sharding(rank=1)}
    values = tuple(attrs.evolve(one, sharding=lies.get(one.name)) for one in model.values)
    return attrs.evolve(model, model="spread", values=values)


COPIED = KEPT
"""Every rank holds all of it."""
SPREAD = _spread(KEPT)
"""A part of it on each rank, and a value on rank 1 alone."""
LOSABLE = attrs.evolve(SPREAD, model="losable", may_be_lost=True)


def nbytes_on(name: str, rank: int, size: int) -> int | None:
    """What a rank has of a value; None where it has none. Ranks differ, as padding makes them."""
    if name == ON_LAST:
        return VALUES[name] if rank == 1 else None
    if name == "cache":
        return VALUES[name] // (8 * size) * 8 - 64 * rank
    return VALUES[name]


def fill(session: SessionState, name: str, seed: int, rank: int, size: int) -> Any:
    """Give a value the bits that its seed says on this rank; a copy of what is read from now on."""
    nbytes = nbytes_on(name, rank, size)
    return None if nbytes is None else write(session, name, 7 * seed + rank, nbytes)


def has(session: SessionState, name: str) -> bool:
    """Whether a reader finds a value; the same on all ranks that hold it."""
    if name == "note":
        return session.attrs.get(name) is not None
    obj = session.get(name)
    return obj is not None and obj.resident


def wrong(session: SessionState, expected: dict[str, Any]) -> list[str]:
    """The values that are not what was written, bit for bit; what is not there was released."""
    return [
        name
        for name, want in expected.items()
        if want is not None and has(session, name) and not same(read(session, name), want)
    ]
