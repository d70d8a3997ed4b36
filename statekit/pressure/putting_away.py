"""Putting values of one session away together, and bringing them back on the next use.

Owns the unit in which values are parked: objects of one session in one image, so that what they
share is shared again afterwards. The tiers themselves are `statekit.parking`.

    U1  Until `put_away` returns, every object holds what it held; from then on the parked copy is
        good, until `bring_back` has given every object its payload again.
    U2  An object that is used while it is away brings its whole unit back first.
    U3  A payload that was changed while its copy was being made is not put away.

Thread rule: both directions hold the record's `transition`; never call with the manager's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from statekit.accounting import SeenStorages, device_bytes
from statekit.books.footprint import Footprint
from statekit.image.taking import take_image
from statekit.spec import Tier as TierName

if TYPE_CHECKING:
    from statekit.books.record import Record
    from statekit.parking.tier import Parked, Tier

__all__ = ["Away", "Parkable", "ParkedUnit", "put_away", "tier_name"]


class Parkable(Protocol):
    """What an object offers so that its payload can be put away."""

    def park_payload(self) -> Any:
        """The committed payload; None where there is nothing, or staged data beside it."""

    def put_away(self, away: Away) -> None:
        """Let go of the payload; every later use first calls `away.bring_back()`."""

    def put_back(self, payload: Any) -> None:
        """Hold `payload` again."""


@attrs.frozen
class Away:
    """What an object holds in place of its payload."""

    unit: ParkedUnit
    key: str

    def bring_back(self) -> None:
        """Bring back everything that was put away together with the object."""
        self.unit.bring_back()

    def let_go(self) -> None:
        """The object was reset: its payload is not wanted any more."""
        self.unit.let_go(self.key)


class ParkedUnit:
    """Objects of one session, by key, whose payloads are in one parked image."""

    def __init__(
        self,
        record: Record,
        keys: Iterable[str],
        parked: Parked,
        tier: TierName,
        came_from: Mapping[str, int],
        when_back: Callable[[ParkedUnit], None],
    ) -> None:
        self.record = record
        self.keys = set(keys)
        self.parked = parked
        self.tier: TierName = tier
        self.came_from = came_from
        """Bytes by device that they will occupy again."""
        self._when_back = when_back

    @property
    def nbytes(self) -> int:
        """Bytes of the parked copy."""
        return sum(self.parked.nbytes_by_device().values())

    def bring_back(self) -> None:
        """Give every object its payload again; if that fails, the parked copy stays."""
        with self.record.transition:
            if self not in self.record.units:
                return  # another thread was faster
            payloads = self.parked.begin_restore().finish()
            session = self.record.session
            for key in self.keys:
                obj: Any = None if session is None else session.get(key)
                if obj is not None:
                    obj.put_back(payloads[key])
            self.record.units.remove(self)
            self.parked.discard()
        self._when_back(self)

    def let_go(self, key: str) -> None:
        """The object under `key` wants nothing back."""
        with self.record.transition:
            self.keys.discard(key)
            if not self.keys and self in self.record.units:
                self.record.units.remove(self)
                self.parked.discard()


def put_away(
    record: Record,
    keys: Iterable[str],
    tier: Tier,
    when_back: Callable[[ParkedUnit], None],
    may_go: Callable[[], bool],
) -> ParkedUnit | None:
    """Park the objects under `keys` in `tier`, or None where nothing was put away.

    Args:
        may_go: asked last, when the copy is made: whether the session is still not in use.

    Raises:
        UnparkableError: a payload cannot be parked; nothing was done.
        ParkError: the tier failed; nothing was done.
    """
    with record.transition:
        session = record.session
        if session is None or not may_go():
            return None
        objects: dict[str, Any] = {}
        payloads: dict[str, Any] = {}
        looks: dict[str, Footprint] = {}
        for key in keys:
            obj: Any = session.get(key)
            payload = None if obj is None else obj.park_payload()
            if payload is not None:
                objects[key], payloads[key] = obj, payload
                looks[key] = Footprint()
                looks[key].refresh(payload)
        if not objects:
            return None
        staying = _held_by_others(record, objects)
        parking = tier.begin_park(take_image(payloads, keep=staying.meets))
        try:
            parked = parking.finish()
        except BaseException:
            parking.abort()
            raise
        unchanged = all(
            objects[key].park_payload() is payload and looks[key].holds(payload)
            for key, payload in payloads.items()
        )
        if not unchanged or not may_go():
            parked.discard()
            return None
        came_from: dict[str, int] = {}
        for device, start, end in {one for look in looks.values() for one in look.intervals}:
            came_from[device] = came_from.get(device, 0) + end - start
        unit = ParkedUnit(record, objects, parked, tier_name(tier), came_from, when_back)
        record.units.append(unit)
        for key, obj in objects.items():
            obj.put_away(Away(unit, key))
        return unit


def tier_name(tier: Tier) -> TierName:
    """The tier's name, as plans use it."""
    return "disk" if tier.name == "disk" else "host"


def _held_by_others(record: Record, going: Iterable[str]) -> SeenStorages:
    """The memory that values of the session which stay hold as well."""
    session = record.session
    staying = SeenStorages()
    if session is not None:
        device_bytes(session.attrs.copy(), staying)
        keys = set(going)
        device_bytes([one for key, one in session.committed().items() if key not in keys], staying)
    return staying
