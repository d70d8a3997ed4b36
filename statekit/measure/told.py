"""Told: what an object says of what it holds, where its memory alone does not.

Owns the corrections to facts, kind by kind: a window of keys and values counts entries of both as
one; of a store, form and number are those of its values, and bytes those of keys too.
"""

from __future__ import annotations

from typing import Any

import attrs

from statekit.checking.arrays import arrays_of, dtype_of
from statekit.measure.facts import Facts
from statekit.objects.codec import Cast
from statekit.objects.retrieval_store import RetrievalStore
from statekit.objects.windowed_kv import WindowedKV

__all__ = ["told"]


def told(facts: Facts, holder: Any) -> Facts:
    """The facts of the memory of `holder`, with what it says itself."""
    if not facts.written:
        return facts
    if isinstance(holder, WindowedKV):
        return attrs.evolve(facts, frames=holder.local_end)
    if isinstance(holder, RetrievalStore):
        entries = holder.entries()
        dtypes: set[str] = set()
        shapes: set[tuple[int, ...]] = set()
        for _, kept, _ in entries:
            value = kept[0] if isinstance(holder.codec, Cast) else kept
            for path, array in arrays_of(value):
                dtypes.add(dtype_of(array))
                if path.count("[") < 2:
                    shapes.add(tuple(array.shape))
        largest = max((nbytes for _, _, nbytes in entries), default=0)
        return attrs.evolve(
            facts, dtypes=dtypes, shapes=shapes, items=len(entries), largest_item=largest
        )
    return facts
