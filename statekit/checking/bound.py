"""Bound: whether an object holds more than its ring allows, and keys that are not as declared.

Owns how each kind of object counts what its bound is in: items, frames, or bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statekit.checking.arrays import dtype_of
from statekit.checking.conformity import Finding, Surroundings, evaluated
from statekit.checking.declaration import Declaration
from statekit.expressions import Expression
from statekit.objects.latent_buffer import LatentBuffer
from statekit.objects.retrieval_store import RetrievalStore
from statekit.objects.windowed_kv import WindowedKV
from statekit.state_object import StateObject

__all__ = ["overflow", "wrong_key"]


def overflow(
    holder: StateObject[Any, Any], declaration: Declaration, around: Surroundings
) -> Finding | None:
    """Whether `holder` holds more than its declared bound; nothing of one that is parked."""
    for declared, held, unit in _counts(holder, declaration):
        limit = None if declared is None else evaluated(declared, around.symbols)
        if declared is not None and limit is not None and held > limit:
            most = declared.text if declared.text == str(limit) else f"{declared.text} = {limit}"
            todo = "build the object with that bound (through the adapter), or mend `ring`"
            return Finding(f"it holds {held} {unit}, declared at most {most}", todo)
    return None


def _counts(
    holder: StateObject[Any, Any], declaration: Declaration
) -> Iterator[tuple[Expression | None, int, str]]:
    """What is declared, what is held, and the unit of both."""
    ring = declaration.value.ring
    if ring is None:
        return
    if isinstance(holder, LatentBuffer):
        items = holder.committed() or []
        if ring.axis is None:
            yield declaration.bound, len(items), "items"
        else:
            shapes = [item.shape for item in items if len(getattr(item, "shape", ())) > ring.axis]
            frames = sum(shape[ring.axis] for shape in shapes)
            yield declaration.bound, frames, f"frames along axis {ring.axis}"
    elif isinstance(holder, WindowedKV):
        yield declaration.bound, holder.local_end, f"entries along axis {holder.axis}"
    elif isinstance(holder, RetrievalStore):
        yield declaration.bound, len(holder.entries()), "entries"
        yield declaration.bound_nbytes, holder.nbytes, "bytes"


def wrong_key(
    holder: StateObject[Any, Any], declaration: Declaration, around: Surroundings
) -> Finding | None:
    """In what the keys of a store, which are all alike, are not as declared."""
    index = declaration.value.index
    entries = holder.staged() or holder.entries() if isinstance(holder, RetrievalStore) else ()
    if index is None or not entries:
        return None
    key = entries[-1][0]
    todo = "store such keys, or mend `index`"
    if dtype_of(key) != index.dtype:
        return Finding(f"a key is {dtype_of(key)}, declared {index.dtype}", todo)
    wanted = [evaluated(Expression.parse(extent), around.symbols) for extent in index.shape]
    shape = tuple(key.shape)
    alike = len(shape) == len(wanted) and all(
        want is None or want == found for want, found in zip(wanted, shape, strict=True)
    )
    if alike:
        return None
    text = f"({', '.join(index.shape)}{',' * (len(index.shape) == 1)})"
    return Finding(f"a key has the shape {shape}, declared {text}", todo)
