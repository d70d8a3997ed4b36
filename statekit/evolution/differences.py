"""Differences: what of a changed schema breaks bytes that were saved under the old one.

Owns the judgement, value by value. Not here: schemas and source code (`statekit breaking`), the
bytes themselves (`statekit.snapshot`).

    D1  What is not told apart here reads back as it was: a change that could let a restore give
        another value than the one that was saved, or a default for it, breaks.
    D2  Where it is not known what a snapshot holds, it may hold anything, and may lack anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import attrs

from statekit.evolution.difference import Difference, listed
from statekit.evolution.reading import numbers_in, read_record
from statekit.evolution.saved_data import SavedData
from statekit.evolution.sizes import given_numbers
from statekit.spec import ModelSpec, Parameter, ValueSpec

__all__ = ["snapshot_differences"]


def snapshot_differences(
    old: Mapping[str, object],
    new: Mapping[str, object],
    *,
    present: Collection[str] | None = None,
    parameters: Mapping[str, int] | None = None,
) -> tuple[Difference, ...]:
    """What differs between two records, in the order of the new one.

    Args:
        old: the record of the schema that bytes were saved under; nothing of it is trusted.
        new: the record of the schema that they are to be read under.
        present: names of the values of which they hold data; None: of whichever they like.
        parameters: the numbers that the session began with in place of the schema's, those of
            symbols too; None: whatever the old schema allowed.

    Raises:
        BadRecordError: one of the records is none, or `parameters` are no numbers.
    """
    numbers = None if parameters is None else numbers_in(parameters, "parameters")
    return tuple(_Comparison(read_record(old), read_record(new), present, numbers).differences())


@attrs.frozen
class _Comparison:
    old: ModelSpec
    new: ModelSpec
    present: Collection[str] | None
    parameters: Mapping[str, int] | None

    def differences(self) -> Iterator[Difference]:
        if self.old.model != self.new.model:
            why = "another model reads other state"
            yield Difference("SNAPSHOT_MODEL", "", self.old.model, self.new.model, why, True)
            return
        yield from self._numbers()
        yield from self._parameters()
        before = {value.name: value for value in self.old}
        data = SavedData(self.old, self.new, given_numbers(self.old, self.new, self.parameters))
        for value in self.new:
            old = before.pop(value.name, None)
            if old is None:
                why = f"it reads as {_reads_as(value)[0]} after a restore"
                yield Difference("SNAPSHOT_VALUE_NEW", value.name, "", value.bucket, why, False)
                continue
            yield from self._default(old, value)
            if self._may_hold(value.name):
                yield from data.differences(old, value)
        for gone in before.values():
            yield self._gone(gone)
        yield from self._atomic()

    def _may_hold(self, name: str) -> bool:
        return self.present is None or name in self.present

    def _may_lack(self, name: str) -> bool:
        return self.present is None or name not in self.present

    # -- the model ---------------------------------------------------------------------------------

    def _numbers(self) -> Iterator[Difference]:
        for what, old, new in (
            ("symbol", self.old.symbols, self.new.symbols),
            ("constant", self.old.constants, self.new.constants),
        ):
            for name in dict.fromkeys((*old, *new)):
                was, now = old.get(name), new.get(name)
                if was != now:
                    why = f"the {what} matters in the sizes that name it, which are looked at"
                    yield Difference("SNAPSHOT_NUMBER", name, _text(was), _text(now), why, False)

    def _parameters(self) -> Iterator[Difference]:
        for name, old in self.old.parameters.items():
            new = self.new.parameters.get(name)
            if new == old:
                continue
            if new is None:
                why = "nothing is built with it any more"
                yield Difference("SNAPSHOT_PARAMETER", name, _parameter(old), "", why, False)
                continue
            narrower = self._narrower(name, old, new)
            why = "sessions go on with the number that they were built with"
            if narrower:
                why = "a session that was built with a number beyond the bounds can't go on"
            was, now = _parameter(old), _parameter(new)
            yield Difference("SNAPSHOT_PARAMETER", name, was, now, why, narrower)
        for name, new in self.new.parameters.items():
            if name not in self.old.parameters:
                why = "a session that was built without it is built with what is passed now"
                yield Difference("SNAPSHOT_PARAMETER", name, "", _parameter(new), why, False)

    def _narrower(self, name: str, old: Parameter, new: Parameter) -> bool:
        """Whether a number that a session was built with, or may have been, is refused now."""
        least, most = old.minimum, old.maximum
        if self.parameters is not None:
            least = most = self.parameters.get(name, old.default)
        too_low = new.minimum is not None and (least is None or least < new.minimum)
        return too_low or (new.maximum is not None and (most is None or most > new.maximum))

    def _atomic(self) -> Iterator[Difference]:
        known = {value.name for value in self.old}
        for group, members in self.new.atomic.items():
            was = self.old.atomic.get(group, ())
            if set(was) == set(members):
                continue
            new = [name for name in members if name not in known]
            data = [name for name in members if name in known and self._may_hold(name)]
            torn = bool(new and data)
            why = "what belongs together was saved together, at one moment"
            if torn:
                why = f"a snapshot has data of {listed(data)} and none of {listed(new)}"
            yield Difference("SNAPSHOT_ATOMIC", group, listed(was), listed(members), why, torn)
        for group, was in self.old.atomic.items():
            if group not in self.new.atomic:
                why = "its values are read one by one"
                yield Difference("SNAPSHOT_ATOMIC", group, listed(was), "", why, False)

    # -- one value ---------------------------------------------------------------------------------

    def _gone(self, old: ValueSpec) -> Difference:
        why, breaks = "no data of it was saved", False
        if self._may_hold(old.name):
            why, breaks = "saved data would have no place; under a new name it is a new value", True
        return Difference("SNAPSHOT_VALUE_GONE", old.name, old.bucket, "", why, breaks)

    def _default(self, old: ValueSpec, new: ValueSpec) -> Iterator[Difference]:
        was, now = _reads_as(old), _reads_as(new)
        if set(was) & set(now):
            return
        breaks = self._may_lack(new.name)
        why = "data was saved, and that is read"
        if breaks:
            why = "where no data was saved, a session would go on with the new default"
        yield Difference("SNAPSHOT_DEFAULT", new.name, was[0], now[0], why, breaks)


def _reads_as(value: ValueSpec) -> tuple[str, ...]:
    """What a reader may get where there is no data."""
    if value.bucket == "attrs":
        return (value.default,)
    if value.object == "RetrievalStore":
        return ("[]",)
    return ("[]", "None") if value.object == "LatentBuffer" else ("None",)


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def _parameter(one: Parameter) -> str:
    bounds = [f"minimum {one.minimum}"] if one.minimum is not None else []
    bounds += [f"maximum {one.maximum}"] if one.maximum is not None else []
    return ", ".join([f"default {one.default}", *bounds])
