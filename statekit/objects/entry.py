"""Entry: a key and a value of a RetrievalStore, as they are kept, and as they are found.

Owns what a key must be, that an entry has memory of its own, and how many bytes that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import attrs
import torch

from statekit.accounting import device_bytes
from statekit.errors import PayloadError
from statekit.on_commit import OnCommit

__all__ = ["Hit", "Kept", "entry_of", "leaves"]

Item = TypeVar("Item")

Kept = tuple[torch.Tensor, Any, int]
"""Key, the value in its codec's form, and the bytes of both."""

_NAME = "RetrievalStore"
_OWN = OnCommit(compact=True)


@attrs.frozen(eq=False)
class Hit(Generic[Item]):
    """An entry that was found.

    Attributes:
        position: the entry's own number, counted from 0 since the store was empty; it stays the
            same when older entries leave.
        score: how near it is; the higher, the nearer.
        key: as it was stored.
        value: in the dtype in which it was stored.
    """

    position: int
    score: float
    key: torch.Tensor
    value: Item


def leaves(kept: Any) -> Iterator[Any]:
    """What a kept value consists of that may hold memory: tensors, arrays, and whatever else is no
    container and no plain value."""
    if isinstance(kept, tuple) or type(kept) is list:
        for part in kept:
            yield from leaves(part)
    elif type(kept) is dict and all(type(name) is str for name in kept):
        for part in kept.values():
            yield from leaves(part)
    elif kept is not None and not isinstance(kept, (bool, int, float, str, torch.dtype)):
        yield kept


def entry_of(key: Any, kept: Any, newest: Sequence[Kept], limit_nbytes: int | None) -> Kept:
    """An entry with memory of its own.

    Args:
        key: its key.
        kept: its value, in the codec's form.
        newest: the entry before it, where there is one.
        limit_nbytes: the most bytes that all entries may have.

    Raises:
        PayloadError: the key is not like the one before, or the entry is above the limit.
    """
    _check_key(key, newest)
    key, kept = _OWN.apply((key, kept))
    nbytes = sum(device_bytes((key, kept)).values())
    if limit_nbytes is not None and nbytes > limit_nbytes:
        found = f"an entry of {nbytes:,} bytes, above the store's {limit_nbytes:,}"
        raise PayloadError(_NAME, found, "allocate the store with more bytes")
    return key, kept, nbytes


def _check_key(key: Any, newest: Sequence[Kept]) -> None:
    """Refuse what is no key like the one before. Raises: PayloadError."""
    if not isinstance(key, torch.Tensor) or key.layout is not torch.strided:
        found = f"a key that is a {type(key).__name__}"
        if isinstance(key, torch.Tensor):
            found = f"a key of layout {key.layout}"
        raise PayloadError(_NAME, found, "append (key, value) with a dense tensor as key")
    for other, _, _ in newest:
        if (key.shape, key.dtype, key.device) != (other.shape, other.dtype, other.device):
            found, wanted = (
                f"{tuple(one.shape)} {one.dtype} on {one.device}" for one in (key, other)
            )
            raise PayloadError(_NAME, f"a key {found} after {wanted}", f"pass keys {wanted}")
