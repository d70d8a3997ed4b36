"""Saved data: whether the data of one value can be read as what the value is now.

Owns the comparison of one value with its former self, for a snapshot that holds data of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import attrs

from statekit.evolution.difference import Difference, listed
from statekit.evolution.sizes import (
    Numbers,
    count_text,
    evaluated,
    ring_bound,
    ring_sink,
    ring_text,
    ring_unit,
    same_size,
)
from statekit.evolution.stored_type import StoredType
from statekit.spec import ModelSpec, Ring, ValueSpec

__all__ = ["SavedData"]


@attrs.frozen
class SavedData:
    """The two sides that data of a value is between.

    Attributes:
        before: the spec that it was saved under.
        after: the spec that it is read under.
        numbers: what expressions may name on both sides, for each session that is thought of.
    """

    before: ModelSpec
    after: ModelSpec
    numbers: tuple[Numbers, ...]

    def differences(self, old: ValueSpec, new: ValueSpec) -> Iterator[Difference]:
        """What differs for data of `old` that is read as `new`."""
        if old.bucket != new.bucket:
            why = "saved data is in the other bucket"
            yield Difference("SNAPSHOT_BUCKET", new.name, old.bucket, new.bucket, why, True)
            return
        if old.object != new.object:
            why = "this kind of object does not hold what that one held"
            was, now = str(old.object), str(new.object)
            yield Difference("SNAPSHOT_OBJECT", new.name, was, now, why, True)
            return
        yield from self._members(old, new)
        yield from _types(old, new)
        yield from self._size(old, new)
        yield from self._ring(old, new)
        yield from self._index(old, new)
        yield from _codec(old, new)
        yield from _lifetime(old, new)
        for rule, was, now, why in (
            ("SNAPSHOT_COERCE", old.coerce or "", new.coerce or "", "saved data is read as it is"),
            ("SNAPSHOT_DEVICE", old.device, new.device, "the restore says where data goes"),
            ("SNAPSHOT_UPDATE", old.update, new.update, "saved bytes do not depend on it"),
        ):
            if was != now:
                yield Difference(rule, new.name, was, now, why, False)

    def _members(self, old: ValueSpec, new: ValueSpec) -> Iterator[Difference]:
        """Families, their members, and the keys of these."""
        if set(old.families) != set(new.families):
            why = "members of other families are found in another way"
            was, now = listed(old.families), listed(new.families)
            yield Difference("SNAPSHOT_FAMILY", new.name, was, now, why, True)
            return
        was_keys, now_keys = _keys(self.before, old), _keys(self.after, new)
        gone = [key for member, key in was_keys.items() if member not in now_keys]
        added = [key for member, key in now_keys.items() if member not in was_keys]
        if gone:
            why = "saved data of members would have no place"
            now = listed(now_keys.values())
            yield Difference("SNAPSHOT_FAMILY", new.name, listed(gone), now, why, True)
        elif added:
            why = "members that are new hold nothing after a restore"
            yield Difference("SNAPSHOT_FAMILY", new.name, "", listed(added), why, False)
        moved = [one for one in was_keys if now_keys.get(one, was_keys[one]) != was_keys[one]]
        if moved:
            why = "saved data is under the old key"
            was, now = (listed(keys[one] for one in moved) for keys in (was_keys, now_keys))
            yield Difference("SNAPSHOT_KEY", new.name, was, now, why, True)
        for name in old.families:
            yield from self._count(name, new)

    def _count(self, family: str, new: ValueSpec) -> Iterator[Difference]:
        before, after = self.before.families[family].count, self.after.families[family].count
        if before is None or after is None:
            return
        for was_numbers, now_numbers in self.numbers:
            was, now = evaluated(before, was_numbers), evaluated(after, now_numbers)
            if was != now:
                why = "another number of members is another model"
                was_text, now_text = count_text(before, was), count_text(after, now)
                yield Difference("SNAPSHOT_FAMILY", new.name, was_text, now_text, why, True)
                return

    def _size(self, old: ValueSpec, new: ValueSpec) -> Iterator[Difference]:
        pairs = [same_size(old, new, *numbers) for numbers in self.numbers]
        broken = [pair for pair in pairs if not pair.fits]
        shown = (broken or pairs)[0]
        if broken:
            why = "saved data has another size than what is read"
            yield Difference("SNAPSHOT_SIZE", new.name, shown.was, shown.now, why, True)
        elif shown.was != shown.now:
            why = "the size that was saved is one that is read"
            yield Difference("SNAPSHOT_SIZE", new.name, shown.was, shown.now, why, False)

    def _ring(self, old: ValueSpec, new: ValueSpec) -> Iterator[Difference]:
        before, after = old.ring or Ring(), new.ring or Ring()
        verdicts = [_kept(before, after, *numbers) for numbers in self.numbers]
        broken = [one for one in verdicts if one.breaks]
        shown = (broken or verdicts)[0]
        if shown.was != shown.now:
            yield Difference(
                "SNAPSHOT_RING", new.name, shown.was, shown.now, shown.why, shown.breaks
            )

    def _index(self, old: ValueSpec, new: ValueSpec) -> Iterator[Difference]:
        was, now = self._keys_words(old, new)
        if was != now:
            why = "saved keys are of another form, or another one of them is the nearest"
            yield Difference("SNAPSHOT_INDEX", new.name, was, now, why, True)

    def _keys_words(self, old: ValueSpec, new: ValueSpec) -> tuple[str, str]:
        """The keys of both sides in words; of numbers under which they differ, if there are."""
        pairs = [
            (_index_text(old, was_numbers), _index_text(new, now_numbers))
            for was_numbers, now_numbers in self.numbers
        ]
        return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])


@attrs.frozen
class _Kept:
    """What a ring kept, and keeps, in words; what follows for what was saved of it."""

    was: str
    now: str
    why: str
    breaks: bool


def _kept(
    before: Ring, after: Ring, was_numbers: Mapping[str, int], now_numbers: Mapping[str, int]
) -> _Kept:
    was, now = ring_bound(before, was_numbers), ring_bound(after, now_numbers)
    fits = now is None or was == now
    if isinstance(was, int) and isinstance(now, int):
        fits = now >= was
    why = "what was kept is kept"
    if not fits:
        why = "saved items beyond the bound would be dropped"
    elif now is not None and _counts_otherwise(before, after):
        why, fits = "what the bound counts is not what it counted", False
    elif ring_sink(before, was_numbers) != ring_sink(after, now_numbers):
        why, fits = "frames that were saved would stay for good, or would not any more", False
    return _Kept(ring_text(before, was_numbers), ring_text(after, now_numbers), why, not fits)


def _counts_otherwise(before: Ring, after: Ring) -> bool:
    return before.axis != after.axis or (before.bounded and ring_unit(before) != ring_unit(after))


def _types(old: ValueSpec, new: ValueSpec) -> Iterator[Difference]:
    if old.type != new.type:
        fits = StoredType.parse(new.type).takes(StoredType.parse(old.type))
        why = "what was saved may be no value of the new type"
        if fits:
            why = "the new type takes whatever was saved"
        yield Difference("SNAPSHOT_TYPE", new.name, old.type, new.type, why, not fits)
    if old.dtype != new.dtype:
        stated = None not in (old.dtype, new.dtype)
        why = "saved elements are not converted" if stated else "one of the two is not stated"
        was, now = old.dtype or "", new.dtype or ""
        yield Difference("SNAPSHOT_DTYPE", new.name, was, now, why, stated)


def _index_text(value: ValueSpec, numbers: Mapping[str, int]) -> str:
    index = value.index
    if index is None:
        return ""
    extents = listed(str(evaluated(extent, numbers)) for extent in index.shape)
    return f"[{extents}] {index.dtype}, {index.metric}"


def _codec(old: ValueSpec, new: ValueSpec) -> Iterator[Difference]:
    was, now = (one.codec.cast if one.codec is not None else "" for one in (old, new))
    if was != now:
        why = "saved values are in the form of the other codec"
        yield Difference("SNAPSHOT_CODEC", new.name, was, now, why, True)


def _lifetime(old: ValueSpec, new: ValueSpec) -> Iterator[Difference]:
    if old.lifetime != new.lifetime:
        shorter = new.lifetime == "request"
        why = "what was saved is kept from now on"
        if shorter:
            why = "saved data would be cleared when a request ends"
        yield Difference("SNAPSHOT_LIFETIME", new.name, old.lifetime, new.lifetime, why, shorter)


_Member = frozenset[tuple[str, str]]


def _keys(spec: ModelSpec, value: ValueSpec) -> dict[_Member, str]:
    """The key of each member; a numbered family is one member, with a place for any number."""
    labels = (tuple(spec.families[name].members) or ("#",) for name in value.families)
    members = (frozenset(zip(value.families, one, strict=True)) for one in product(*labels))
    return dict(zip(members, spec.keys_of(value), strict=True))
