"""RetrievalStore: values under keys, of which the nearest ones to a query are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import torch

from statekit.errors import NotAllocatedError, PayloadError
from statekit.objects.codec import Codec
from statekit.objects.entry import Hit, Kept, entry_of, leaves
from statekit.objects.nearness import METRICS, ScoreFunction, best
from statekit.objects.parkable import ParkableObject
from statekit.objects.sizes import require_whole
from statekit.on_commit import KEEP_AS_IS, OnCommit
from statekit.spec import Metric

__all__ = ["RetrievalStore"]

Item = TypeVar("Item")

_NAME = "RetrievalStore"

Device = torch.device | str | None


class RetrievalStore(
    ParkableObject[tuple[torch.Tensor, Item], list[tuple[torch.Tensor, Item]]], Generic[Item]
):
    """The newest entries that a bound in items, in bytes, or in both has room for; or all.

    An entry is `(key, value)`: a tensor, like all other keys, and any value. What is on commit
    (a move to the CPU, say) happens to both. Each entry has memory of its own: where key or value
    is a view of a larger storage it is copied, so that an entry's bytes go when the entry leaves.
    """

    def __init__(self) -> None:
        self._allocated = False
        self._bound: int | None = None
        self._limit_nbytes: int | None = None
        self._metric: Metric = "euclidean"
        self._codec: Codec | None = None
        self._on_commit = KEEP_AS_IS
        self._held: Any = []
        self._first = 0  # position of the oldest entry
        self._entries_nbytes = 0
        self.written = object()
        self._staged: tuple[Kept, ...] = ()

    def allocate(
        self,
        *,
        bound: int | None = None,
        nbytes: int | None = None,
        metric: Metric = "euclidean",
        codec: Codec | None = None,
        on_commit: OnCommit = KEEP_AS_IS,
    ) -> RetrievalStore[Item]:
        """Set the empty state and return the store.

        Args:
            bound: keep so many of the newest entries; None keeps all.
            nbytes: keep the newest entries whose keys and values have so many bytes together.
            metric: how near a key is to a query: `euclidean`, `cosine` or `dot`.
            codec: the form in which values are kept; None keeps them as they are.
            on_commit: what happens to keys and values when they are stored.

        Raises:
            ValueError: `bound` or `nbytes` is below 1, or `metric` is none.
            TypeError: a number is no whole one, or `codec` cannot encode and decode.
        """
        require_whole("bound", bound, least=1, optional=True)
        require_whole("nbytes", nbytes, least=1, optional=True)
        if metric not in METRICS:
            raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
        if codec is not None and not all(
            callable(getattr(codec, name, None)) for name in ("encode", "decode")
        ):
            raise TypeError(f"codec must have encode and decode, got {codec!r}")
        self.reset()
        self._allocated, self._bound, self._limit_nbytes = True, bound, nbytes
        self._metric, self._codec, self._on_commit = metric, codec, on_commit
        self._first = self._entries_nbytes = 0
        return self

    @property
    def bound(self) -> int | None:
        """How many entries are kept at most; None is no bound in items."""
        return self._bound

    @property
    def limit_nbytes(self) -> int | None:
        """How many bytes the entries have at most; None is no bound in bytes."""
        return self._limit_nbytes

    @property
    def metric(self) -> Metric:
        """How near a key is to a query, where that gives no score function."""
        return self._metric

    @property
    def codec(self) -> Codec | None:
        """The form in which values are kept; None is as they are."""
        return self._codec

    def stage(self, payload: tuple[torch.Tensor, Item]) -> None:
        """Hold one more entry for the step in progress.

        Raises:
            NotAllocatedError: the store is not allocated.
            PayloadError: `payload` is no pair of a key and a value, the key is no tensor like the
                others, or the entry alone is above the bound in bytes.
        """
        entries = self._require("stage")
        self._staged = (*self._staged, self._kept(payload, (self._staged or entries)[-1:]))

    def _promote(self) -> None:
        self._commit(self._require("commit"), self._staged)

    def append(self, payload: tuple[torch.Tensor, Item]) -> None:
        """Stage and commit one entry. Raises: as `stage`; then nothing was changed."""
        self.extend((payload,))

    def extend(self, payloads: Iterable[tuple[torch.Tensor, Item]]) -> None:
        """Append several entries, all or none. Raises: as `stage`; then nothing was changed."""
        entries = self._require("extend")
        new = list(self._staged)
        for payload in payloads:
            new.append(self._kept(payload, (new or entries)[-1:]))
        self._commit(entries, new)

    def _commit(self, entries: list[Kept], new: Sequence[Kept]) -> None:
        gone, nbytes = self._leaving(entries, new)
        if gone:
            self._hold([*entries, *new][gone:])
        else:
            entries.extend(new)
            self.written = object()
        self._first += gone
        self._entries_nbytes = nbytes
        self._staged = ()

    def _leaving(self, entries: Sequence[Kept], new: Sequence[Kept]) -> tuple[int, int]:
        """How many of the oldest entries leave for these, and the bytes of all that stay."""
        nbytes = self._entries_nbytes + sum(entry[2] for entry in new)
        count, gone = len(entries) + len(new), 0
        while gone < count and (
            (self._bound is not None and count - gone > self._bound)
            or (self._limit_nbytes is not None and nbytes > self._limit_nbytes)
        ):
            nbytes -= (entries[gone] if gone < len(entries) else new[gone - len(entries)])[2]
            gone += 1
        return gone, nbytes

    def discard(self) -> None:
        """Drop the staged entries."""
        self._staged = ()

    def replace(self, payloads: Iterable[tuple[torch.Tensor, Item]]) -> None:
        """Hold these entries in place of all others, committed and staged; positions begin anew.

        Raises: as `stage`; then nothing was changed.
        """
        self._require("replace")
        new: list[Kept] = []
        for payload in payloads:
            new.append(self._kept(payload, new[-1:]))
        self._first = self._entries_nbytes = 0
        self._staged = ()
        self._hold([])
        self._commit(self._held, new)

    def restore(
        self,
        first: int,
        entries: Iterable[tuple[torch.Tensor, Any]],
        staged: Iterable[tuple[torch.Tensor, Any]] = (),
    ) -> None:
        """Hold these entries, with values in the codec's form, in place of all others.

        Args:
            first: position of the oldest.
            entries: keys and kept values, the oldest first.
            staged: likewise; of those that are not committed yet.

        Raises:
            PayloadError: a key is not like the others, or an entry above the bound in bytes.
        """
        limit = self._limit_nbytes
        new: list[Kept] = []
        for key, kept in entries:
            new.append(entry_of(key, kept, new[-1:], limit))
        waiting: list[Kept] = []
        for key, kept in staged:
            waiting.append(entry_of(key, kept, (waiting or new)[-1:], limit))
        self._first, self._entries_nbytes, self._staged = first, 0, ()
        self._hold([])
        self._commit(self._held, new)
        self._staged = tuple(waiting)

    def view(
        self, *, include_staged: bool = True, device: Device = None
    ) -> list[tuple[torch.Tensor, Item]]:
        """The entries, oldest first, in a new list; values in the dtype in which they were stored.

        Args:
            include_staged: staged entries too, as a commit would leave them.
            device: where keys and values are handed out; None is where they lie.

        Raises:
            NotAllocatedError: the store is not allocated.
        """
        shown, _ = self._shown("view", include_staged)
        return [self._handed_out(entry, device) for entry in shown]

    def nearest(
        self,
        query: Any,
        k: int,
        *,
        score: ScoreFunction | None = None,
        exclude_newest: int = 0,
        device: Device = None,
    ) -> list[Hit[Item]]:
        """The `k` entries nearest to `query`, the nearest first; fewer where there are fewer.

        Of equally near ones the newer comes first. Staged entries count as if committed.

        Args:
            query: a tensor of the keys' shape; anything, with a `score` function.
            k: how many at most.
            score: scores [N] of keys [N, ...] for the query, in place of the metric; the higher,
                the nearer.
            exclude_newest: so many of the newest entries are not looked at.
            device: where keys and values are handed out; None is where they lie.

        Raises:
            NotAllocatedError: the store is not allocated.
            PayloadError: the query is not like the keys, or `score` does not return one for each.
            ValueError, TypeError: `k` or `exclude_newest` is below 0, or no whole number.
        """
        require_whole("k", k, least=0)
        require_whole("exclude_newest", exclude_newest, least=0)
        entries, first = self._shown("nearest", include_staged=True)
        looked_at = entries[: max(0, len(entries) - exclude_newest)]
        keys = [entry[0] for entry in looked_at]
        hits = []
        for found in best(keys, query, k, self._metric, score):
            key, value = self._handed_out(looked_at[found.index], device)
            hits.append(Hit(first + found.index, found.score, key, value))
        return hits

    def _shown(self, operation: str, include_staged: bool) -> tuple[list[Kept], int]:
        """The entries that a reader gets, and the position of the first."""
        entries = self._require(operation)
        if not include_staged or not self._staged:
            return list(entries), self._first
        gone, _ = self._leaving(entries, self._staged)
        return [*entries, *self._staged][gone:], self._first + gone

    def _handed_out(self, entry: Kept, device: Device) -> tuple[torch.Tensor, Item]:
        key, kept, _ = entry
        value = kept if self._codec is None else self._codec.decode(kept)
        if device is None:
            return key, value
        return OnCommit(device=str(device)).apply((key, value))

    def __len__(self) -> int:
        """How many entries `view()` hands out."""
        return len(self._shown("len", include_staged=True)[0]) if self._allocated else 0

    def __bool__(self) -> bool:
        """True, so that `store or other` does not throw an empty store away."""
        return True

    def _empty(self) -> list[Kept]:
        return []

    def committed(self) -> Any:
        """What keys and values hold memory by; None where there are none, or they are parked."""
        return [leaf for key, kept, _ in self.entries() for leaf in (key, *leaves(kept))] or None

    def staged(self) -> Any:
        """The staged entries; None where there are none."""
        return self._staged or None

    def park_payload(self) -> list[Kept] | None:
        """The committed entries; None where there are none, or staged ones beside them."""
        return None if self._staged else ParkableObject.committed(self) or None

    def entries(self) -> Sequence[Kept]:
        """The committed entries as they are kept, oldest first; none of those that are parked."""
        return ParkableObject.committed(self) or ()

    def items(self) -> list[Item]:
        """The values, staged ones too, where no codec keeps them in another form."""
        if self._codec is not None:
            return []
        return [kept for _, kept, _ in (*self.entries(), *self._staged)]

    # What is pictured is the length: a list of entries only grows, or another one takes its place.

    def _picture(self) -> int:
        return len(self._held)

    def _as_pictured(self, picture: Any) -> list[Kept]:
        del self._held[picture:]
        entries: list[Kept] = self._held
        return entries

    def _copied(self, held: Any, picture: Any) -> list[Kept]:
        return list(held[:picture])

    def _require(self, operation: str) -> list[Kept]:
        """The committed entries; every use comes through here, so parked ones are back first."""
        if not self._allocated:
            raise NotAllocatedError(_NAME, operation)
        entries: list[Kept] = self._come_back()
        return entries

    def _kept(self, payload: Any, newest: Sequence[Kept]) -> Kept:
        """The entry as it would be stored."""
        if not isinstance(payload, tuple) or len(payload) != 2:
            found = "None" if payload is None else f"a {type(payload).__name__}"
            raise PayloadError(_NAME, found, "append (key, value)")
        key, value = payload
        if value is None:
            raise PayloadError(_NAME, "the value None", "append (key, value)")
        # The steps alone: a subclass, which checks what is stored, is meant for values.
        key = OnCommit.apply(self._on_commit, key)
        value = self._on_commit.apply(value)
        kept = value if self._codec is None else self._codec.encode(value)
        return entry_of(key, kept, newest, self._limit_nbytes)
