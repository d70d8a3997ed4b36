"""Shares: whose the bytes are, by device, tier, model and bucket, each byte once.

Owns the attribution. What a value occupies was found out by the manager's own looks
(`statekit.books`); nothing is walked here, and only sessions that were booked anew since the last
time are gone through.

    Z1  The shares of a device add up to the manager's `nbytes_by_device`, as of the same looks.
    Z2  A byte that several values hold is one share's: of those values' (model, bucket), in the
        order of the alphabet, the first; so StateObject before attrs, whoever came first.
    Z3  A value is its session's model's. In a session of several models it is that model's whose
        schema has a value with such a key; of two, the first in the alphabet.

Not thread-safe: one collector at a time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import attrs

from statekit.books.footprint import Footprint, Interval
from statekit.books.ledger import Ledger
from statekit.books.record import Record
from statekit.spec import ModelSpec
from statekit.watch.names import OTHER

__all__ = ["LIVE", "Share", "Shares"]

LIVE = "live"

Owner = tuple[str, str]
"""Model and bucket."""
_Parts = dict[Owner, tuple[Interval, ...]]


@attrs.frozen(order=True)
class Share:
    """Where bytes lie and whose they are."""

    device: str
    tier: str
    model: str
    bucket: str


@attrs.frozen
class _Known:
    """What was gone through: the record's version and its schemas then, and what came of it."""

    version: int
    specs: tuple[ModelSpec, ...]
    parts: _Parts
    handles: Mapping[tuple[str, Owner], int]


class Shares:
    """The shares of one manager's sessions.

    Args:
        model: the label of a model's name.
    """

    def __init__(self, model: Callable[[str], str]) -> None:
        self._model = model
        self._known: dict[Record, _Known] = {}
        self._ledgers: dict[Owner, Ledger] = {}
        self._all = Ledger()

    def of(self, records: Iterable[Record]) -> dict[Share, int]:
        """Bytes by share, of all live sessions."""
        alive = dict.fromkeys(records)
        for record in [one for one in self._known if one not in alive]:
            self._book(self._known.pop(record), None)
        parked: dict[Share, int] = {}
        handles: dict[Share, int] = {}
        gone_through = 0
        for record in alive:
            known = self._known.get(record)
            specs = _specs_of(record)
            if known is None or known.version != record.version or known.specs is not specs:
                new = self._look(record)
                self._book(known, new)
                known = self._known[record] = new
                gone_through += 1
                if gone_through % 4 == 0:
                    time.sleep(0)  # lets those go on who serve requests
            for (device, owner), nbytes in known.handles.items():
                share = Share(device, LIVE, *owner)
                handles[share] = handles.get(share, 0) + nbytes
            for unit in tuple(record.units):
                model = self._owner(record, "StateObject", min(unit.keys, default=""))[0]
                for device, nbytes in unit.nbytes_by_device.items():
                    share = Share(device, unit.tier, model, "StateObject")
                    parked[share] = parked.get(share, 0) + nbytes
        found = self._live()
        for more in (handles, parked):
            for share, nbytes in more.items():
                found[share] = found.get(share, 0) + nbytes
        return {share: nbytes for share, nbytes in sorted(found.items()) if nbytes}

    def model_of(self, record: Record) -> str:
        """The label of the model that a session is of: of several, the first in the alphabet."""
        specs = _specs_of(record)
        return self._model(min((spec.model for spec in specs), default=OTHER))

    def _look(self, record: Record) -> _Known:
        """What the record has booked, value by value, each byte once."""
        # Before the values: what changes meanwhile is looked at again.
        version, specs = record.version, _specs_of(record)
        found: list[tuple[Owner, Footprint]] = []
        for bucket, footprints in (("StateObject", record.objects), ("attrs", record.attrs)):
            found += [
                (self._owner(record, bucket, key), one) for key, one in footprints.copy().items()
            ]
        kept = self._owner(record, "StateObject", "")
        found += [(kept, one) for one in record.kept.copy().values()]
        handles: dict[tuple[str, Owner], int] = {}
        for owner, footprint in found:
            for device, nbytes in footprint.handles.items():
                handles[device, owner] = handles.get((device, owner), 0) + nbytes
        owned = {(one, owner) for owner, footprint in found for one in footprint.intervals}
        return _Known(version, specs, _once(owned), handles)

    def _owner(self, record: Record, bucket: str, key: str) -> Owner:
        specs = _specs_of(record)
        if len(specs) > 1:
            specs = tuple(spec for spec in specs if _has(spec, bucket, key))
        return self._model(min((spec.model for spec in specs), default=OTHER)), bucket

    def _book(self, old: _Known | None, new: _Known | None) -> None:
        before, after = old.parts if old else {}, new.parts if new else {}
        for owner in before.keys() | after.keys():
            ledger = self._ledgers.setdefault(owner, Ledger())
            ledger.rebook(before.get(owner, ()), after.get(owner, ()))
            self._all.rebook(before.get(owner, ()), after.get(owner, ()))

    def _live(self) -> dict[Share, int]:
        """Bytes by share of all that is not parked, what several sessions hold as one's."""
        totals = {owner: one.totals() for owner, one in sorted(self._ledgers.items())}
        shares: dict[Share, int] = {}
        for device, all_of_it in self._all.totals().items():
            mine = {owner: one[device] for owner, one in totals.items() if device in one}
            if sum(mine.values()) != all_of_it:
                mine = self._swept(device)
            shares.update({Share(device, LIVE, *owner): n for owner, n in mine.items()})
        return shares

    def _swept(self, device: str) -> dict[Owner, int]:
        """Bytes of one device by owner, where sessions with other owners hold the same memory."""
        owned = {
            (one, owner)
            for known in self._known.values()
            for owner, part in known.parts.items()
            for one in part
            if one[0] == device
        }
        parts = _once(owned).items()
        return {owner: sum(end - start for _, start, end in part) for owner, part in parts}


def _specs_of(record: Record) -> tuple[ModelSpec, ...]:
    """The schemas of a session's values; the same tuple as long as there is no other one."""
    session = record.session
    return () if session is None else session.adopted.specs


def _has(spec: ModelSpec, bucket: str, key: str) -> bool:
    return any(value.bucket == bucket and spec.key_pattern(value).fullmatch(key) for value in spec)


def _once(owned: Iterable[tuple[Interval, Owner]]) -> _Parts:
    """The intervals cut so that none overlaps with another, each with the first of its owners."""
    edges: list[tuple[str, int, int, Owner]] = []
    for (device, start, end), owner in owned:
        edges += [(device, start, 1, owner), (device, end, -1, owner)]
    parts: dict[Owner, list[Interval]] = {}
    holders: Counter[Owner] = Counter()
    last = 0
    for device, address, change, owner in sorted(edges):
        if holders and last < address:
            parts.setdefault(min(holders), []).append((device, last, address))
        holders[owner] += change
        if not holders[owner]:
            del holders[owner]
        last = address
    return {owner: tuple(part) for owner, part in parts.items()}
